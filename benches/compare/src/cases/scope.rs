//! What does a borrowing task cost in a scope that waits for all of its tasks?

use std::thread;
use std::time::Duration;

use pool_core::Pool;
use pool_util::PoolExt;
use scoped_threadpool::Pool as ScopedPool;

use crate::count::{bump, bumps};
use crate::meter::{Meter, cores};
use crate::peers::{QUICK, rayon_pool, unknown};
use crate::throughput::measure_by;
use crate::work::{Pace, steps};
use measure::case::{Case, Outcome, Run};

const POOLS: &[&str] = &["anthill", "rayon", "scoped_threadpool", THREADS];

/// A thread per task.
const THREADS: &str = "std thread::scope";

/// Tasks per scope.
const TASKS: u32 = 1_000;

/// As many threads at a time as a careful user would start.
const TASKS_IF_THREADS: u32 = 50;

/// Runs a scope of the tasks.
type Scoped = Box<dyn FnMut()>;

/// Scopes of the pool of that name, which has a thread per core, and the number of their tasks.
/// Each task borrows its number of work steps.
fn scoped(name: &str, count: u32) -> Option<(Scoped, u32)> {
    let task = |count: &u32| {
        steps(*count);
        bump();
    };
    let scoped: Scoped = match name {
        "anthill" => {
            let pool = Pool::builder().capacity(cores() as usize).build();
            let pool = pool.expect("the settings are valid");
            Box::new(move || {
                pool.scope(|scope| (0..TASKS).for_each(|_| scope.submit(|| task(&count))));
            })
        }
        "rayon" => {
            let pool = rayon_pool(cores());
            Box::new(move || {
                pool.in_place_scope(|scope| {
                    (0..TASKS).for_each(|_| scope.spawn(|_| task(&count)));
                });
            })
        }
        "scoped_threadpool" => {
            let mut pool = ScopedPool::new(cores());
            Box::new(move || {
                pool.scoped(|scope| (0..TASKS).for_each(|_| scope.execute(|| task(&count))));
            })
        }
        THREADS => Box::new(move || {
            thread::scope(|scope| {
                (0..TASKS_IF_THREADS).for_each(|_| drop(scope.spawn(|| task(&count))));
            });
        }),
        _ => return None,
    };
    let tasks = if name == THREADS {
        TASKS_IF_THREADS
    } else {
        TASKS
    };
    Some((scoped, tasks))
}

fn measure(run: &Run, length: Duration) -> Outcome {
    let count = Pace::measure(cores()).steps_of(length); // Measured before a pool exists.
    let (mut scoped, tasks) = scoped(&run.pool, count).ok_or_else(|| unknown(&run.pool))?;
    let mut done = measure_by(run.budget(), |scopes| {
        let target = bumps() + u64::from(scopes) * u64::from(tasks);
        let meter = Meter::start();
        (0..scopes).for_each(|_| scoped());
        let spent = meter.stop();
        assert_eq!(bumps(), target, "a scope waits for all of its tasks");
        spent
    });
    done.tasks *= tasks;
    let report = done.report();
    Ok(if length.is_zero() {
        report
    } else {
        let over = done.over_ideal(length, cores());
        report.with("over_ideal", "x", over).headline("over_ideal")
    })
}

pub fn cases() -> Vec<Case> {
    let case = |name: &str, length| {
        Case::new(
            format!("scope/{name}"),
            "Scopes",
            "What does a borrowing task cost in a scope of 1,000 tasks (50 with a thread per task)?",
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
