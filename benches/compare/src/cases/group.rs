//! What does a task cost whose value is taken when it ends, in any order?
//!
//! The values are numbers, which one thread adds up: the sum proves that each was taken once.

use std::time::Duration;

use pool_core::{Pool, QueueDepth};
use pool_util::PoolExt;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::meter::{Meter, cores};
use crate::peers::unknown;
use crate::throughput::measure_by;
use crate::work::{Pace, steps};
use measure::case::{Case, Outcome, Run};

const POOLS: &[&str] = &[
    "anthill group",
    HANDLES,
    CHANNEL,
    "tokio JoinSet",
    "tokio JoinSet, spawn_blocking",
];

const QUICK: &[&str] = &[
    "anthill group",
    HANDLES,
    CHANNEL,
    "tokio JoinSet, spawn_blocking",
];

/// The same tasks without a group, joined in the order of their spawns.
const HANDLES: &str = "anthill, a handle each";

/// The usual code without groups: each task sends its value, and the caller counts.
const CHANNEL: &str = "anthill, a channel by hand";

/// Tasks per group.
const TASKS: u32 = 1_000;

/// Runs a group of the tasks, and returns the sum of their values.
type Grouped = Box<dyn FnMut() -> u64>;

fn grouped(name: &str, work: impl Fn(u32) -> u32 + Copy + Send + 'static) -> Option<Grouped> {
    let threads = cores() as usize;
    let anthill = || {
        let pool = Pool::builder()
            .capacity(threads)
            .queue_depth(QueueDepth::Unlimited)
            .build();
        pool.expect("the settings are valid")
    };
    let runtime = || {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(threads)
            .max_blocking_threads(threads);
        builder.build().expect("threads can be started")
    };
    Some(match name {
        "anthill group" => {
            let pool = anthill();
            Box::new(move || {
                let group = pool.group();
                for number in 0..TASKS {
                    let spawned = group.spawn(move || work(number));
                    assert!(spawned.is_ok(), "the pool is open");
                }
                let values = std::iter::from_fn(|| group.next());
                values
                    .map(|value| u64::from(value.expect("it does not panic")))
                    .sum()
            })
        }
        HANDLES => {
            let pool = anthill();
            Box::new(move || {
                let spawn = |number| pool.spawn(move || work(number)).expect("the pool is open");
                let handles: Vec<_> = (0..TASKS).map(spawn).collect();
                let values = handles.into_iter().map(pool_core::JoinHandle::join);
                values
                    .map(|value| u64::from(value.expect("it does not panic")))
                    .sum()
            })
        }
        CHANNEL => {
            let pool = anthill();
            Box::new(move || {
                let (sender, receiver) = crossbeam_channel::unbounded();
                for number in 0..TASKS {
                    let sender = sender.clone();
                    let task = move || sender.send(work(number)).expect("it is received");
                    pool.submit(task).expect("the pool is open");
                }
                drop(sender);
                receiver.iter().map(u64::from).sum()
            })
        }
        "tokio JoinSet" => {
            let runtime = runtime();
            Box::new(move || {
                let mut set = JoinSet::new();
                for number in 0..TASKS {
                    set.spawn_on(async move { work(number) }, runtime.handle());
                }
                runtime.block_on(sum(set))
            })
        }
        "tokio JoinSet, spawn_blocking" => {
            let runtime = runtime();
            Box::new(move || {
                let mut set = JoinSet::new();
                for number in 0..TASKS {
                    set.spawn_blocking_on(move || work(number), runtime.handle());
                }
                runtime.block_on(sum(set))
            })
        }
        _ => return None,
    })
}

async fn sum(mut set: JoinSet<u32>) -> u64 {
    let mut sum = 0;
    while let Some(value) = set.join_next().await {
        sum += u64::from(value.expect("it does not panic"));
    }
    sum
}

fn measure(run: &Run, length: Duration) -> Outcome {
    let count = Pace::measure(cores()).steps_of(length); // Measured before a pool exists.
    let work = move |number| {
        steps(count);
        number
    };
    let mut grouped = grouped(&run.pool, work).ok_or_else(|| unknown(&run.pool))?;
    let mut done = measure_by(run.budget(), |groups| {
        let meter = Meter::start();
        let sums: Vec<u64> = (0..groups).map(|_| grouped()).collect();
        let spent = meter.stop();
        let all: u64 = (0..u64::from(TASKS)).sum();
        assert!(sums.iter().all(|&sum| sum == all), "a value is missing");
        spent
    });
    done.tasks = done.tasks.saturating_mul(TASKS);
    Ok(done.report())
}

pub fn cases() -> Vec<Case> {
    let case = |name: &str, length| {
        Case::new(
            format!("group/{name}"),
            "Groups",
            "What does a task cost in a group of 1,000 whose values are taken as tasks end?",
            POOLS,
            move |run| measure(run, length),
        )
        .quick(true, QUICK)
    };
    vec![
        case("empty", Duration::ZERO),
        case("1us", Duration::from_micros(1)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_group_returns_each_value_once() {
        for pool in POOLS {
            let mut grouped = grouped(pool, |number| number).expect("it is known");
            assert_eq!(grouped(), 499_500, "{pool}");
        }
    }
}
