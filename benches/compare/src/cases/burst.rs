//! How much processor time does a pool use for occasional bursts of work?

use std::thread;
use std::time::Duration;

use crate::count::{bump, bumps, wait_for};
use crate::gate;
use crate::meter::Meter;
use crate::peer::{Job, Peer, Shape};
use crate::peers::{COMMON, QUICK, with};
use crate::percentiles::Percentiles;
use crate::report::Report;
use crate::work::{Pace, steps};
use measure::case::{Case, Run};

const THREADS: u32 = 4;
const TASKS: u32 = 500;
const LENGTH: Duration = Duration::from_micros(10);
const EVERY: Duration = Duration::from_millis(100);

struct Bursts<'a> {
    run: &'a Run,
    pace: Pace,
}

impl Job for Bursts<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, THREADS);
        let count = self.pace.steps_of(LENGTH);
        let burst = || {
            let target = bumps() + u64::from(TASKS);
            let meter = Meter::start();
            for _ in 0..TASKS {
                peer.submit(move || {
                    steps(count);
                    bump();
                });
            }
            wait_for(target);
            u64::try_from(meter.stop().wall.as_nanos()).unwrap_or(u64::MAX)
        };
        burst();
        thread::sleep(EVERY);
        let bursts = self.run.choose(5, 3, 2);
        let meter = Meter::start();
        let mut walls = Vec::new();
        for _ in 0..bursts {
            let wall = burst();
            walls.push(wall);
            thread::sleep(EVERY.saturating_sub(Duration::from_nanos(wall)));
        }
        let cpu = meter.stop().cpu / bursts;
        let work = LENGTH * TASKS;
        Report::new()
            .with("cpu_over_work", "x", cpu.as_secs_f64() / work.as_secs_f64())
            .with("wall", "us/burst", Percentiles::new(walls).micros(0.5))
            .with("cpu", "us/burst", cpu.as_secs_f64() * 1e6)
    }
}

pub fn cases() -> Vec<Case> {
    let case = Case::new(
        "burst/100ms".into(),
        "Bursts",
        "How much processor time does a burst of 500 tasks of 10 us use, one every 100 ms, as a multiple of its work?",
        COMMON,
        |run| {
            let pace = Pace::measure(THREADS);
            with(&run.pool, Shape::unlimited(THREADS), Bursts { run, pace })
        },
    );
    vec![case.quick(true, QUICK)]
}
