//! How close to its bare work is the time of a mapping?
//!
//! The items and their results are numbers, which one thread adds up: the sum proves that each item
//! was mapped once. If results are in order, the case checks that, too.

use std::thread;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{Stream, iter};
use pariter::{IteratorExt as _, ParallelMapBuilder};
use pool_core::Pool;
use pool_util::PoolExt;
use rayon::iter::{IntoParallelIterator as _, ParallelBridge as _, ParallelIterator as _};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, JoinHandle};

use crate::meter::{Meter, cores};
use crate::peers::{rayon_pool, unknown};
use crate::report::Report;
use crate::throughput::measure_by;
use crate::work::{Pace, steps};
use measure::case::{Case, Outcome, Run};

/// First the lazy mappings in order, with a bounded number of items ahead. Then the unordered ones.
/// Then rayon's mapping of a range, whose length is known. Last, no mapping at all.
const POOLS: &[&str] = &[
    "anthill map",
    "pariter",
    "tokio buffered",
    "anthill map_unordered",
    "tokio buffer_unordered",
    "rayon par_bridge",
    "rayon par_bridge, sorted",
    "rayon par_iter",
    LOOP,
];

const QUICK: &[&str] = &["anthill map", "anthill map_unordered", "pariter", LOOP];

const LOOP: &str = "bare loop";

/// Futures that a user of tokio has in flight per thread.
const IN_FLIGHT_PER_THREAD: usize = 64;

/// Maps this many numbers and adds the results up.
type Mapping = Box<dyn FnMut(u32) -> u64>;

/// Adds up results, and checks that they are in order.
fn in_order(results: impl IntoIterator<Item = u32>) -> u64 {
    let numbered = (0_u32..).zip(results);
    let checked = numbered.inspect(|(number, result)| assert_eq!(number, result, "the order"));
    checked.map(|(_, result)| u64::from(result)).sum()
}

fn in_any_order(results: impl IntoIterator<Item = u32>) -> u64 {
    results.into_iter().map(u64::from).sum()
}

/// The mapping of that name, with one thread per core.
fn mapping(
    name: &str,
    work: impl Fn(u32) -> u32 + Copy + Send + Sync + 'static,
) -> Option<Mapping> {
    let threads = cores() as usize;
    let anthill = || {
        let pool = Pool::builder().capacity(threads).build();
        pool.expect("the settings are valid")
    };
    let rayon = || rayon_pool(cores());
    let tokio = || {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(threads);
        builder.build().expect("threads can be started")
    };
    let ahead = threads * IN_FLIGHT_PER_THREAD;
    Some(match name {
        "anthill map" => {
            let pool = anthill();
            Box::new(move |items| in_order(pool.map(0..items, work).flatten()))
        }
        "anthill map_unordered" => {
            let pool = anthill();
            Box::new(move |items| in_any_order(pool.map_unordered(0..items, work).flatten()))
        }
        "pariter" => Box::new(move |items| {
            // It starts its threads for each mapping.
            let threads = |options: ParallelMapBuilder<_>| options.threads(threads);
            in_order((0..items).parallel_map_custom(threads, work))
        }),
        "tokio buffered" => {
            let runtime = tokio();
            Box::new(move |items| {
                let started = spawned(&runtime, items, work).buffered(ahead);
                in_order(Values(&runtime, started))
            })
        }
        "tokio buffer_unordered" => {
            let runtime = tokio();
            Box::new(move |items| {
                let started = spawned(&runtime, items, work).buffer_unordered(ahead);
                in_any_order(Values(&runtime, started))
            })
        }
        "rayon par_bridge" => {
            let pool = rayon();
            let sum = move |items| (0..items).par_bridge().map(work).map(u64::from).sum();
            Box::new(move |items| pool.install(|| sum(items)))
        }
        "rayon par_bridge, sorted" => {
            let pool = rayon();
            let numbered = move |number| (number, work(number));
            Box::new(move |items| {
                let mapped = || (0..items).par_bridge().map(numbered).collect();
                let mut results: Vec<(u32, u32)> = pool.install(mapped);
                results.sort_unstable_by_key(|(number, _)| *number);
                in_order(results.into_iter().map(|(_, result)| result))
            })
        }
        "rayon par_iter" => {
            let pool = rayon();
            Box::new(move |items| {
                let mapped = || (0..items).into_par_iter().map(work).collect();
                let results: Vec<u32> = pool.install(mapped);
                in_order(results)
            })
        }
        LOOP => Box::new(move |items| {
            let share = |first| (first..items).step_by(threads).map(work);
            thread::scope(|scope| {
                let shares: Vec<_> = (0..cores())
                    .map(|first| scope.spawn(move || in_any_order(share(first))))
                    .collect();
                let sums = shares.into_iter().map(thread::ScopedJoinHandle::join);
                sums.map(|sum| sum.expect("it does not panic")).sum()
            })
        }),
        _ => return None,
    })
}

fn spawned(
    runtime: &Runtime,
    items: u32,
    work: impl Fn(u32) -> u32 + Copy + Send + 'static,
) -> impl Stream<Item = JoinHandle<u32>> {
    iter((0..items).map(move |item| runtime.spawn_blocking(move || work(item))))
}

/// A stream of results as an iterator.
struct Values<'a, S>(&'a Runtime, S);

impl<S: Stream<Item = Result<u32, JoinError>> + Unpin> Iterator for Values<'_, S> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let next = self.0.block_on(self.1.next());
        next.map(|result| result.expect("it does not panic"))
    }
}

fn measure(run: &Run, length: Duration) -> Outcome {
    let count = Pace::measure(cores()).steps_of(length); // Measured before a pool exists.
    let work = move |number| {
        steps(count);
        number
    };
    let mut mapping = mapping(&run.pool, work).ok_or_else(|| unknown(&run.pool))?;
    let done = measure_by(run.budget(), |items| {
        let meter = Meter::start();
        let sum = mapping(items);
        let spent = meter.stop();
        assert_eq!(sum, in_any_order(0..items), "an item is missing");
        spent
    });
    Ok(Report::new()
        .with("over_ideal", "x", done.over_ideal(length, cores()))
        .per_task(done.spent, done.tasks))
}

pub fn cases() -> Vec<Case> {
    let lengths = [Duration::from_micros(1), Duration::from_micros(100)];
    let case = |length| {
        Case::new(
            format!("map/{length:?}").replace('µ', "u"),
            "Mapping, time over the ideal",
            "How much longer than its bare work on all cores does the mapping of an iterator take?",
            POOLS,
            move |run| measure(run, length),
        )
    };
    lengths.map(|length| case(length).quick(true, QUICK)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mapping_returns_each_result_once() {
        for pool in POOLS {
            let mut mapping = mapping(pool, |number| number).expect("it is known");
            assert_eq!(mapping(1_000), 499_500, "{pool}");
        }
    }
}
