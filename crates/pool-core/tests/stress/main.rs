//! Long random rounds on pools of every kind, with everything that can go wrong going wrong.
//!
//! Not for: exact outcomes (the model's programs have those). Here sixteen threads and the tasks
//! themselves race, and what is checked is what no race may break: each task runs once or comes
//! back or is cancelled or released, the figures add up, no waiter is forgotten, nothing is left.
//!
//! `ANTHILL_STRESS_SEED` says which rounds, `ANTHILL_STRESS_ROUNDS` how many. A failure names the
//! seed of its round, which is the first of a run with that seed.
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
/// Where the environment says nothing.
const FEW: u64 = 100;
/// Tasks of a round that hands over one after another.
const TASKS: u64 = 100;

#[test]
fn no_task_is_lost_and_nothing_left_whatever_races() {
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

/// The narrowest gap: the last worker's time is up while a task comes that no other worker would do.
#[test]
fn a_task_that_comes_as_the_last_worker_goes_is_run() {
    let rounds = number_from_env(ROUNDS).unwrap_or(FEW);
    let mut rng = Rng::from_env();
    let pool = Pool::builder()
        .capacity(1)
        .keep_alive(Duration::ZERO)
        .stop_hook(thread::yield_now) // Holds the gap open.
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

/// Ends the process if the round does not.
fn guarded(told: &str, round: impl FnOnce()) -> Result<(), Box<dyn Any + Send>> {
    let _watchdog = Watchdog::start(told, LIMIT);
    catch_unwind(AssertUnwindSafe(round))
}

/// Past the test harness, which captures what the macros print and would swallow it at an abort.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}"); // If it cannot be written, the failure still shows.
}

fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a decimal number")),
    )
}

/// Thousands of panics are part of a round; one of them is printed only if it is not.
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
