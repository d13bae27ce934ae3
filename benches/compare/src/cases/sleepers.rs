//! How busy are thousands of threads kept?

use std::thread;
use std::time::Duration;

use crate::count::bump;
use crate::gate;
use crate::peer::{Job, Peer, Shape};
use crate::peers::{MANY_THREADS, QUICK, with};
use crate::report::Report;
use crate::throughput::{Throughput, section};
use measure::case::{Case, Run};

/// The sleep of each task.
const NAP: Duration = Duration::from_millis(10);

struct Sleep<'a> {
    run: &'a Run,
    threads: u32,
}

impl Job for Sleep<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, self.threads);
        // Fewer repetitions with more threads, because the total number of tasks determines the
        // time.
        let most = if self.threads > 1_000 { 8 } else { 20 };
        let each = self.run.choose(most, 5, 5);
        let tasks = self.threads * each;
        let submit = || {
            peer.submit(|| {
                thread::sleep(NAP);
                bump();
            });
        };
        let spent = section(1, tasks, &submit);
        // A sleeping thread needs no core, so the ideal is divided by the number of threads.
        let over = Throughput { spent, tasks }.over_ideal(NAP, self.threads);
        Report::new()
            .with("over_ideal", "x", over)
            .per_task(spent, tasks)
    }
}

pub fn cases() -> Vec<Case> {
    let case = |threads| {
        Case::new(
            format!("sleepers/{threads}"),
            "Sleepers",
            "How much longer than the ideal do tasks take that sleep 10 ms on this many threads?",
            MANY_THREADS,
            move |run| with(&run.pool, Shape::unlimited(threads), Sleep { run, threads }),
        )
    };
    vec![case(1_000).quick(true, QUICK), case(5_000)]
}
