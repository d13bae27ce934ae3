//! What do captures cost, and are they allocated on the heap?

use std::hint::black_box;

use crate::allocations;
use crate::count::bump;
use crate::gate;
use crate::peer::{Job, Peer, Shape};
use crate::peers::{COMMON, QUICK, with};
use crate::report::Report;
use crate::throughput;
use measure::case::{Case, Run};

const THREADS: u32 = 4;

/// Empty tasks that capture an array.
struct Carry<'a, const WORDS: usize>(&'a Run);

impl<const WORDS: usize> Carry<'_, WORDS> {
    fn submit<P: Peer>(peer: &P) {
        let array = black_box([1_u64; WORDS]);
        peer.submit(move || {
            black_box(&array);
            bump();
        });
    }
}

impl<const WORDS: usize> Job for Carry<'_, WORDS> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, THREADS);
        throughput::measure(1, self.0.budget(), || Self::submit(peer)).report()
    }
}

/// The same, but counts allocations instead of measuring time.
struct Count<'a, const WORDS: usize>(&'a Run);

impl<const WORDS: usize> Job for Count<'_, WORDS> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, THREADS);
        let tasks = self.0.choose(100_000, 40_000, 20_000);
        let submit = || Carry::<WORDS>::submit(peer);
        // Lets the queue grow to its final size, and the threads get their memory.
        throughput::section(1, 2 * tasks, &submit);
        let mut spent = None;
        let count = allocations::during(|| spent = Some(throughput::section(1, tasks, &submit)));
        let report = Report::new().with("allocations", "per task", per(count, tasks));
        spent.map_or(Report::new(), |spent| report.per_task(spent, tasks))
    }
}

/// Rounded to a hundredth, because the threads of the measurement allocate a little, too.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub fn per(count: u64, tasks: u32) -> f64 {
    (count as f64 / f64::from(tasks) * 100.0).round() / 100.0
}

pub fn cases() -> Vec<Case> {
    [sized::<0>(), sized::<1>(), sized::<6>(), sized::<25>()]
        .into_iter()
        .flatten()
        .collect()
}

fn sized<const WORDS: usize>() -> [Case; 2] {
    let shape = Shape::unlimited(THREADS);
    let bytes = WORDS * 8;
    let time = Case::new(
        format!("captures/{bytes}"),
        "Captures",
        "What does a task cost that captures this many bytes?",
        COMMON,
        move |run| with(&run.pool, shape, Carry::<WORDS>(run)),
    );
    let heap = Case::new(
        format!("allocations/{bytes}"),
        "Heap allocations",
        "How many heap allocations does a task make that captures this many bytes?",
        COMMON,
        move |run| with(&run.pool, shape, Count::<WORDS>(run)),
    );
    [time, heap.quick(WORDS == 6, QUICK)]
}
