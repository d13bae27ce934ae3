//! Random schedules, by their seeds: shuttle.
//!
//! Not for: orderings. Each atomic access is sequentially consistent here, so a weak ordering is
//! loom's business and `ThreadSanitizer`'s.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};

/// Schedules of one seed. A failure is repeated by its seed, so few must lie before it.
const PER_SEED: u64 = 50;
const SCHEDULES: u64 = 1_000;
/// A scenario of some dozen tasks takes a few thousand.
const MOST_STEPS: usize = 200_000;
/// Frames of user code lie on these threads' stacks, unoptimized ones at times.
const STACK: usize = 256 * 1024;
/// How many pre-emptions a schedule of `PctScheduler` aims at.
const DEPTHS: [usize; 4] = [2, 3, 4, 5];

/// Runs `body` under random schedules, half of them uniform and half by priorities that change at
/// a few random points (PCT), which finds what needs few pre-emptions at the right places.
///
/// The environment variables `ANTHILL_SHUTTLE_SCHEDULES` (how many; 1,000) and
/// `ANTHILL_SHUTTLE_SEED` (the first seed; 0) say which. A panic in `body` that is to be caught
/// there is to be raised by `resume_unwind`: shuttle prints the schedule of any other as a failure.
///
/// # Panics
/// If a schedule panics, deadlocks or does not end. Its seed is printed before.
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
    config.silence_warnings = true; // That all accesses are sequentially consistent.
    let count = usize::try_from(count).expect("it is a small number");
    if seed.is_multiple_of(2) {
        Runner::new(RandomScheduler::new_from_seed(seed, count), config).run(body);
    } else {
        let depths = (seed / 2).rem_euclid(DEPTHS.len() as u64);
        let depth = DEPTHS[usize::try_from(depths).expect("it is an index")];
        Runner::new(PctScheduler::new_from_seed(seed, depth, count), config).run(body);
    }
}

/// A number below `bound` that the schedule's seed decides.
pub fn random_below(bound: usize) -> usize {
    thread_rng().gen_range(0..bound)
}

pub(crate) fn coin() -> bool {
    thread_rng().r#gen()
}

/// Whether a pool has its two locks, as on the machine: always, as random schedules are as many as one
/// asks for.
pub fn two_locks() -> bool {
    true
}
