//! Random exploration with shuttle: schedules that a seed determines.
//!
//! Not for: orderings. Each atomic access is sequentially consistent here; loom and
//! `ThreadSanitizer` check weak orderings.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};

/// Schedules per seed. A failure is repeated from the first schedule of its seed, so a seed has
/// few.
const PER_SEED: u64 = 50;
const SCHEDULES: u64 = 1_000;
/// A scenario of a few dozen tasks takes a few thousand steps.
const MOST_STEPS: usize = 200_000;
/// These stacks hold frames of user code, which may be unoptimized.
const STACK: usize = 256 * 1024;
/// Numbers of pre-emptions that a schedule of `PctScheduler` aims at.
const DEPTHS: [usize; 4] = [2, 3, 4, 5];

/// Runs `body` under random schedules. Half of them are uniform; the other half use priorities that
/// change at a few random points (PCT), which finds bugs that need few pre-emptions at the right
/// places.
///
/// The environment variable `ANTHILL_SHUTTLE_SCHEDULES` sets the number of schedules (1,000),
/// `ANTHILL_SHUTTLE_SEED` the first seed (0). A `body` that catches a panic of its own must raise
/// it by `resume_unwind`: shuttle prints the schedule of any other panic as a failure.
///
/// # Panics
/// If a schedule panics, deadlocks or does not end. The seed is printed before the panic.
pub fn explore(name: &str, body: impl Fn() + Send + Sync + 'static) {
    let number = |variable, default| match env::var(variable) {
        Ok(number) => number.parse().expect("the variable is a number"),
        Err(_) => default,
    };
    let first_seed: u64 = number("ANTHILL_SHUTTLE_SEED", 0);
    let schedules: u64 = number("ANTHILL_SHUTTLE_SCHEDULES", SCHEDULES);
    let body = Arc::new(body);
    let mut done = 0;
    while done < schedules {
        let seed = first_seed + done / PER_SEED;
        let count = PER_SEED.min(schedules - done);
        let body = Arc::clone(&body);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| run(seed, count, move || body()))) {
            eprintln!("\nschedules {name}: FAILED at seed {seed}");
            resume_unwind(payload);
        }
        done += count;
    }
    println!("\nschedules {name}: explored {done} (seeds from {first_seed})");
}

fn run(seed: u64, count: u64, body: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.silence_warnings = true; // The warning that all accesses are sequentially consistent.
    let count = usize::try_from(count).expect("the count is small");
    if seed.is_multiple_of(2) {
        Runner::new(RandomScheduler::new_from_seed(seed, count), config).run(body);
    } else {
        let depths = (seed / 2).rem_euclid(DEPTHS.len() as u64);
        let depth = DEPTHS[usize::try_from(depths).expect("the remainder is an index")];
        Runner::new(PctScheduler::new_from_seed(seed, depth, count), config).run(body);
    }
}

/// Returns a number below `bound` that the schedule's seed determines.
pub fn random_below(bound: usize) -> usize {
    thread_rng().gen_range(0..bound)
}

pub(crate) fn coin() -> bool {
    thread_rng().r#gen()
}

/// Returns whether a pool has two locks, as on the machine. Always true: random schedules do not
/// explode with the number of steps.
pub fn two_locks() -> bool {
    true
}

/// Whether a worker polls on before it parks, at random.
pub fn lingers() -> bool {
    coin()
}

/// Whether a pool has several lanes. Always true, like [`two_locks`].
pub fn lanes() -> bool {
    true
}
