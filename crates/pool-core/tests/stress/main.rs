//! Long random rounds on pools of every kind, with every kind of failure injected.
//!
//! Not for exact outcomes: the model's programs check those. Here, sixteen threads and the tasks
//! themselves race, and the checks are invariants of every race. Each task runs once, is returned,
//! is cancelled or is released. The statistics add up, no waiter is forgotten, and nothing is left.
//!
//! `ANTHILL_STRESS_SEED` sets the first seed, `ANTHILL_STRESS_ROUNDS` the number of rounds. A
//! failure prints the seed of its round, which can be used as the first seed of a run.
#![cfg(not(anthill_loom))]

mod caller;
mod census;
mod job;
mod ledger;
mod limits;
mod port;
mod round;
mod setup;
#[path = "../model/twin/subject.rs"]
mod subject;

use std::any::Any;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

use pool_core::Pool;
use testkit::{LIMIT, PanicOnDrop, Rng, Watchdog, watchdog};

use setup::Setup;

const SEED: &str = "ANTHILL_STRESS_SEED";
const ROUNDS: &str = "ANTHILL_STRESS_ROUNDS";
/// The default number of rounds.
const FEW: u64 = 100;
/// Tasks of a round that submits them one after another.
const TASKS: u64 = 100;

#[test]
fn random_rounds_lose_no_task_and_leak_no_thread() {
    silence_deliberate_panics();
    let base = number_from_env(SEED).unwrap_or_else(|| RandomState::new().hash_one(0));
    let rounds = number_from_env(ROUNDS).unwrap_or(FEW);
    say(&format!("{SEED}={base} {ROUNDS}={rounds}"));
    for round in 0..rounds {
        let seed = base.wrapping_add(round);
        let mut rng = Rng::new(seed);
        let setup = Setup::random(&mut rng);
        let told = format!("in the round of {SEED}={seed}: {setup:?}");
        // The system shows 15 bytes of a name, and the worker's number needs some of them.
        let name = format!("s{:x}", seed & 0xff_ffff);
        let ended = guarded(&told, || round::run(&setup, &name, &mut rng));
        if let Err(payload) = ended {
            say(&told);
            resume_unwind(payload);
        }
    }
}

/// The narrowest race: the last worker expires while a task arrives that no other worker could run.
#[test]
fn a_task_submitted_as_the_last_worker_ends_is_run() {
    let rounds = number_from_env(ROUNDS).unwrap_or(FEW);
    let mut rng = Rng::from_env();
    let pool = Pool::builder()
        .capacity(1)
        .keep_alive(Duration::ZERO)
        .stop_hook(thread::yield_now) // Widens the race.
        .build()
        .unwrap();
    for _ in 0..rounds {
        watchdog(LIMIT, || {
            for _ in 0..TASKS {
                pool.submit(|| ()).unwrap();
                pool.wait_idle().unwrap();
                (0..rng.below(200)).for_each(|_| std::hint::spin_loop());
                (0..rng.below(4)).for_each(|_| thread::yield_now());
            }
        });
    }
    pool.release();
    pool.wait_released().unwrap();
    assert_eq!(pool.stats().completed, rounds * TASKS);
}

/// Aborts the process if the round does not end.
fn guarded(told: &str, round: impl FnOnce()) -> Result<(), Box<dyn Any + Send>> {
    let _watchdog = Watchdog::start(told, LIMIT);
    catch_unwind(AssertUnwindSafe(round))
}

/// Writes past the test harness, which captures the output of the macros and would lose it at an
/// abort.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}"); // If the write fails, the failure is still visible.
}

fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a decimal number")),
    )
}

/// A round contains thousands of deliberate panics. Only the others are printed.
fn silence_deliberate_panics() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        let deliberate = payload.is::<PanicOnDrop>()
            || payload.downcast_ref::<&str>() == Some(&"dropped a PanicOnDrop");
        if !deliberate {
            told(panic);
        }
    }));
}
