//! What happens to tasks if twice as many are offered as can be run?

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::count::{bump, bumps, task, wait_for};
use crate::gate;
use crate::meter::{Meter, sleep_exactly};
use crate::peer::{Refusing, RefusingJob, Shape};
use crate::peers::{QUICK, REFUSING, with_refusing};
use crate::percentiles::Percentiles;
use crate::report::Report;
use crate::stamps::Stamps;
use measure::case::{Case, Run};

const SHAPE: Shape = Shape {
    threads: 4,
    depth: Some(64),
};

/// Refusals by a pool that stays full.
struct Refusals<'a> {
    run: &'a Run,
    producers: u32,
}

impl RefusingJob for Refusals<'_> {
    type Out = Report;

    fn run<P: Refusing>(self, peer: &'static P) -> Report {
        gate::fill(peer, SHAPE.threads);
        let held: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(true)));
        let begun: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        // The tasks that hold the pool sleep, so that the measured code has the cores.
        let body = move || {
            begun.fetch_add(1, Relaxed);
            while held.load(Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
        };
        // Each thread that takes its task makes room once more.
        while begun.load(Relaxed) < SHAPE.threads {
            while peer.try_submit(body) {}
            thread::sleep(Duration::from_millis(1));
        }
        while peer.try_submit(body) {}
        // A refusal counts as an end, so that the same measurement can be used.
        let submit = || {
            assert!(!peer.try_submit(task()), "it is full");
            bump();
        };
        let done = crate::throughput::measure(self.producers, self.run.budget(), submit);
        held.store(false, Relaxed);
        done.report()
    }
}

/// Twice as many tasks as four threads can run.
struct Twice<'a>(&'a Run);

const NAP: Duration = Duration::from_millis(1);

impl RefusingJob for Twice<'_> {
    type Out = Report;

    fn run<P: Refusing>(self, peer: &'static P) -> Report {
        gate::fill(peer, SHAPE.threads);
        sleep_exactly();
        let offered = self.0.choose(4_000, 1_600, 1_000);
        let every = NAP / SHAPE.threads / 2;
        let stamps = Stamps::of(offered);
        let (mut refusals, mut accepted) = (Vec::new(), 0);
        let target = bumps();
        let meter = Meter::start();
        let begin = Instant::now();
        for number in 0..offered {
            // By the clock, so that a sleep that was too long is compensated for.
            thread::sleep((every * number).saturating_sub(begin.elapsed()));
            let submitted = Instant::now();
            let taken = peer.try_submit(move || {
                stamps.begin(submitted);
                thread::sleep(NAP);
                bump();
            });
            if taken {
                accepted += 1;
            } else {
                let took = submitted.elapsed().as_nanos();
                refusals.push(u64::try_from(took).unwrap_or(u64::MAX));
            }
        }
        wait_for(target + accepted);
        let spent = meter.stop();
        let delays = stamps.wait(usize::try_from(accepted).unwrap_or(usize::MAX));
        let share = refusals.len();
        let refusals = Percentiles::new(refusals);
        let share = f64::from(u32::try_from(share).unwrap_or(u32::MAX)) / f64::from(offered);
        let cpu = spent.cpu.as_secs_f64() * 1e6 / f64::from(offered);
        Report::new()
            .latency(&delays)
            .headline("p99")
            .with("refusal", "us", refusals.micros(0.5))
            .with("refused", "share", share)
            .with("cpu", "us/task", cpu)
    }
}

pub fn cases() -> Vec<Case> {
    let refusals = |producers| {
        Case::new(
            format!("overload/refusal/{producers}p"),
            "Overload, the cost of a refusal",
            "What does a refusal by a full pool cost?",
            REFUSING,
            move |run| with_refusing(&run.pool, SHAPE, Refusals { run, producers }),
        )
    };
    let twice = Case::new(
        "overload/twice".into(),
        "Overload, accepted tasks",
        "How late do accepted tasks start if twice as many are offered as the pool can run?",
        REFUSING,
        |run| with_refusing(&run.pool, SHAPE, Twice(run)),
    );
    vec![refusals(1).quick(true, QUICK), refusals(4), twice]
}
