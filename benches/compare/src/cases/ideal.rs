//! How close to their bare work is the time of CPU-bound tasks?

use std::time::Duration;

use crate::count::bump;
use crate::gate;
use crate::meter::cores;
use crate::peer::{Job, Peer, Shape};
use crate::peers::{BOUNDED, COMMON, QUICK, and, with};
use crate::report::Report;
use crate::throughput;
use crate::work::{Pace, steps};
use measure::case::{Case, Run};

const QUESTION: &str =
    "How much longer than their bare work on all cores do tasks of a given length take?";
const GROUP: &str = "CPU tasks, time over the ideal";

/// More threads than a small machine has cores.
const THREADS: u32 = 4;

/// The same work in a loop on each core, without a pool: the best that a shared machine can do.
const LOOP: &str = "bare loop";

struct Work<'a> {
    run: &'a Run,
    pace: Pace,
    length: Duration,
    producers: u32,
}

impl Job for Work<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, THREADS);
        let task = self.task();
        self.measure(self.producers, || peer.submit(task))
    }
}

impl Work<'_> {
    fn task(&self) -> impl Fn() + Copy + Send + Sync + 'static {
        let count = self.pace.steps_of(self.length);
        move || {
            steps(count);
            bump();
        }
    }

    fn measure(&self, producers: u32, submit: impl Fn() + Sync) -> Report {
        let done = throughput::measure(producers, self.run.budget(), submit);
        let over = done.over_ideal(self.length, THREADS.min(cores()));
        Report::new()
            .with("over_ideal", "x", over)
            .per_task(done.spent, done.tasks)
    }
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (depth, pools) in [(None, COMMON), (Some(1024), BOUNDED)] {
        for (length, producers) in [
            (Duration::from_nanos(100), &[1][..]),
            (Duration::from_micros(1), &[1, 4]),
            (Duration::from_micros(10), &[1, 4]),
            (Duration::from_millis(1), &[1]),
        ] {
            for &producers in producers {
                let name = depth.map_or("unlimited".into(), |depth: u32| depth.to_string());
                let name = format!("cpu/{length:?}/{name}/{producers}p").replace('µ', "u");
                let shape = Shape {
                    threads: THREADS,
                    depth,
                };
                let case = Case::new(name, GROUP, QUESTION, &and(pools, LOOP), move |run| {
                    let pace = Pace::measure(THREADS); // Measured before a pool exists.
                    let job = Work {
                        run,
                        pace,
                        length,
                        producers,
                    };
                    if run.pool == LOOP {
                        return Ok(job.measure(THREADS.min(cores()), job.task()));
                    }
                    with(&run.pool, shape, job)
                });
                let quick = producers == 1 && length <= Duration::from_micros(10);
                let quick = quick && length > Duration::from_nanos(100) && depth.is_none();
                cases.push(case.quick(quick, QUICK));
            }
        }
    }
    cases
}
