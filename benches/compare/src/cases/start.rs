//! How soon does a submitted task start?

use std::thread;
use std::time::{Duration, Instant};

use crate::gate;
use crate::meter::{Meter, sleep_exactly};
use crate::peer::{Job, Peer, Shape};
use crate::peers::{COMMON, QUICK, and, with};
use crate::report::Report;
use crate::stamps::Stamps;
use crate::wake::Sleeper;
use crate::work::{Pace, steps};
use measure::case::{Case, Outcome, Run};

const THREADS: u32 = 4;
const FUTEX: &str = "bare futex wake";

/// Single tasks with pauses between.
struct Idle<'a> {
    run: &'a Run,
    every: Duration,
}

impl Idle<'_> {
    /// Calls `submit` repeatedly. Each call must record one delay.
    fn measure(&self, mut submit: impl FnMut(&'static Stamps)) -> Report {
        sleep_exactly();
        // One task per millisecond: a p99 needs most of a second.
        let tasks = self.run.choose(600, 150, 150);
        let tasks = match self.every {
            every if every < Duration::from_millis(1) => tasks * 5,
            _ => tasks,
        };
        let stamps = Stamps::of(tasks);
        let meter = Meter::start();
        for _ in 0..tasks {
            thread::sleep(self.every);
            submit(stamps);
        }
        let delays = stamps.wait(stamps.room());
        let spent = meter.stop();
        let cpu = spent.cpu.as_secs_f64() * 1e6 / f64::from(tasks);
        Report::new().latency(&delays).with("cpu", "us/task", cpu)
    }
}

impl Job for Idle<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, THREADS);
        self.measure(|stamps| {
            let submitted = Instant::now();
            peer.submit(move || stamps.begin(submitted));
        })
    }
}

fn idle(run: &Run, every: Duration) -> Outcome {
    let job = Idle { run, every };
    if run.pool != FUTEX {
        return with(&run.pool, Shape::unlimited(THREADS), job);
    }
    let sleeper = Sleeper::start();
    thread::sleep(Duration::from_millis(2)); // It goes to sleep.
    // The last delay is read before the next wake-up, so that reading it is not measured.
    let mut last: Option<Instant> = None;
    let take = |start: Instant| {
        loop {
            match sleeper.taken(start) {
                Some(delay) => return delay,
                None => thread::yield_now(),
            }
        }
    };
    let report = job.measure(|stamps| {
        if last.is_none() {
            // One wake-up before the first that is recorded.
            let start = sleeper.wake();
            thread::sleep(every);
            last = Some(start);
        }
        if let Some(start) = last {
            stamps.note(take(start));
        }
        last = Some(sleeper.wake());
    });
    Ok(report)
}

/// Bursts of short tasks that use about two fifths of two cores.
struct Busy<'a> {
    run: &'a Run,
    pace: Pace,
}

const BURST: u32 = 20;
const LENGTH: Duration = Duration::from_micros(10);
const BETWEEN: Duration = Duration::from_micros(250);

impl Job for Busy<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, THREADS);
        sleep_exactly();
        let bursts = self.run.choose(1_000, 250, 250);
        let count = self.pace.steps_of(LENGTH);
        let stamps = Stamps::of(bursts * BURST);
        let meter = Meter::start();
        for _ in 0..bursts {
            for _ in 0..BURST {
                let submitted = Instant::now();
                peer.submit(move || {
                    stamps.begin(submitted);
                    steps(count);
                });
            }
            thread::sleep(BETWEEN);
        }
        let delays = stamps.wait(stamps.room());
        let cpu = meter.stop().cpu.as_secs_f64() * 1e6 / f64::from(bursts * BURST);
        let report = Report::new().latency(&delays).headline("p99.9");
        report.with("cpu", "us/task", cpu)
    }
}

pub fn cases() -> Vec<Case> {
    let case = |name, every| {
        Case::new(
            format!("start/idle/{name}"),
            "Submit to start, idle pool",
            "How soon does a task start on an idle pool?",
            &and(COMMON, FUTEX),
            move |run| idle(run, every),
        )
    };
    let busy = Case::new(
        "start/busy".into(),
        "Submit to start, busy pool",
        "How late does a task of 10 us start that is submitted in a burst of 20?",
        COMMON,
        |run| {
            let pace = Pace::measure(THREADS);
            with(&run.pool, Shape::unlimited(THREADS), Busy { run, pace })
        },
    );
    vec![
        case("1ms", Duration::from_millis(1)).quick(true, QUICK),
        case("300us", Duration::from_micros(300)),
        case("100us", Duration::from_micros(100)),
        case("50us", Duration::from_micros(50)),
        case("30us", Duration::from_micros(30)),
        busy,
    ]
}
