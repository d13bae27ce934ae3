//! What does an empty task cost?

use crate::count::task;
use crate::gate;
use crate::peer::{Job, Peer, Shape};
use crate::peers::{ALL, BOUNDED, QUICK, with, without};
use crate::report::Report;
use crate::throughput;
use measure::case::{Case, Run};

const QUESTION: &str =
    "What does an empty task cost, from the first submit to the last completion?";

/// Empty tasks from `producers` threads.
pub struct Empty<'a> {
    pub run: &'a Run,
    pub threads: u32,
    pub producers: u32,
}

impl Job for Empty<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, self.threads);
        let submit = || peer.submit(task());
        throughput::measure(self.producers, self.run.budget(), submit).report()
    }
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (depth, name, group) in [
        (None, "unlimited", "Empty tasks, queue without bound"),
        (Some(1024), "1024", "Empty tasks, queue of 1024"),
    ] {
        for threads in [2, 4] {
            for producers in [1, 4, 16] {
                let pools = match depth {
                    // Here each task costs a thread, with any number of submitters, so one row is
                    // enough.
                    None if (threads, producers) != (2, 1) => without(ALL, &["thread per task"]),
                    None => ALL.to_vec(),
                    Some(_) => BOUNDED.to_vec(),
                };
                let shape = Shape { threads, depth };
                let name = format!("empty/{name}/{threads}w/{producers}p");
                let case = Case::new(name, group, QUESTION, &pools, move |run| {
                    let job = Empty {
                        run,
                        threads,
                        producers,
                    };
                    with(&run.pool, shape, job)
                });
                let quick = threads == 4 && producers < 16;
                cases.push(case.quick(quick, QUICK));
            }
        }
    }
    cases
}
