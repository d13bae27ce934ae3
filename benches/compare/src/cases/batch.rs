//! What does a task of a batch cost?

use std::time::Duration;

use pool_core::{BatchError, Pool, QueueDepth};

use crate::count::{bump, bumps, wait_for};
use crate::gate;
use crate::meter::Meter;
use crate::peer::{Job, Peer, Shape};
use crate::peers::{QUICK, with};
use crate::throughput::{Throughput, measure_by};
use crate::work::{Pace, steps};
use measure::case::{Case, Outcome, Run};

/// The pools with a batch call, and others that get one task per call.
const POOLS: &[&str] = &[BATCH, "anthill", "rayon", "threadpool"];

const BATCH: &str = "anthill submit_batch";

const THREADS: u32 = 4;

/// Batches of tasks of `steps` work steps, one batch after the other.
struct Batches<'a> {
    run: &'a Run,
    size: u32,
    steps: u32,
}

impl Batches<'_> {
    fn task(&self) -> impl FnOnce() + Copy + Send + 'static {
        let count = self.steps;
        move || {
            steps(count);
            bump();
        }
    }

    /// `submit` submits a batch.
    fn measure(&self, submit: impl Fn()) -> Throughput {
        let mut done = measure_by(self.run.budget(), |batches| {
            let target = bumps() + u64::from(batches) * u64::from(self.size);
            let meter = Meter::start();
            (0..batches).for_each(|_| submit());
            wait_for(target);
            meter.stop()
        });
        done.tasks = done.tasks.saturating_mul(self.size);
        done
    }

    fn at_once(&self) -> Throughput {
        let pool = Pool::builder()
            .capacity(THREADS as usize)
            .queue_depth(QueueDepth::Unlimited)
            .prestart(THREADS as usize)
            .build();
        let pool = pool.expect("the settings are valid");
        let task = self.task();
        self.measure(|| {
            let tasks = (0..self.size).map(|_| task);
            let submitted = pool.submit_batch(tasks).map_err(BatchError::without_tasks);
            assert_eq!(submitted.ok(), Some(self.size as usize), "the pool is open");
        })
    }
}

impl Job for Batches<'_> {
    type Out = Throughput;

    fn run<P: Peer>(self, peer: &'static P) -> Throughput {
        gate::fill(peer, THREADS);
        let task = self.task();
        self.measure(|| (0..self.size).for_each(|_| peer.submit(task)))
    }
}

fn measure(run: &Run, size: u32, length: Duration) -> Outcome {
    let steps = Pace::measure(THREADS).steps_of(length); // Measured before a pool exists.
    let batches = Batches { run, size, steps };
    let done = if run.pool == BATCH {
        batches.at_once()
    } else {
        with(&run.pool, Shape::unlimited(THREADS), batches)?
    };
    Ok(done.report())
}

pub fn cases() -> Vec<Case> {
    let case = |name: &str, size, length| {
        Case::new(
            format!("batch/{size}/{name}"),
            "Batches",
            "What does a task of a batch cost, from the first submit to the last completion?",
            POOLS,
            move |run| measure(run, size, length),
        )
        .quick(true, &[QUICK, &[BATCH]].concat())
    };
    vec![
        case("empty", 16, Duration::ZERO),
        case("empty", 1_000, Duration::ZERO),
        case("1us", 1_000, Duration::from_micros(1)),
    ]
}
