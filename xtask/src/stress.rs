//! `cargo xtask stress`: finds errors that occur only on a busy machine.
//!
//! A round consists of the tests while a thread spins on every core, the same tests pinned to one
//! core, and the long random programs of `pool-core` with a new seed.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::flags;
use crate::parallel;
use crate::test;
use crate::workspace::Workspace;

const ROUNDS: u64 = 10;
/// The number of random programs of `pool-core`'s stress test.
const PROGRAMS_VARIABLE: &str = "ANTHILL_STRESS_ROUNDS";
/// Random programs per round, unless the variable is set.
const PROGRAMS: &str = "2000";
/// The same next to the spinning threads. The threads of a program yield to one another, and each
/// yield costs a time slice of a spinning thread: nearly two seconds per program.
const PROGRAMS_UNDER_LOAD: &str = "5";

/// Runs rounds until they are done, the time is up, or a test fails.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Stress) -> Result<()> {
    let is_one = flags.rounds.is_none() || flags.minutes.is_none();
    ensure!(is_one, "--rounds and --minutes exclude each other");
    test::require_pinning()?;
    let shell = workspace.shell()?;
    let begin = Instant::now();
    let limit = flags.minutes.map(|it| Duration::from_secs(60 * it));
    let more = |done: u64| match limit {
        Some(limit) => begin.elapsed() < limit,
        None => done < flags.rounds.unwrap_or(ROUNDS),
    };
    let first_seed = first_seed()?;
    test::build(&shell)?;

    let mut rounds = 0;
    while more(rounds) {
        let seed = first_seed.wrapping_add(rounds);
        rounds += 1;
        println!("stress: round {rounds}, seed {seed}");
        round(&shell, seed).with_context(|| format!("round {rounds}, seed {seed}"))?;
    }
    let seconds = begin.elapsed().as_secs_f32();
    println!("stress: {rounds} rounds without a failure, seeds from {first_seed}, {seconds:.0} s");
    Ok(())
}

fn round(shell: &Shell, seed: u64) -> Result<()> {
    under_load(|| {
        let _programs = shell.push_env(PROGRAMS_VARIABLE, PROGRAMS_UNDER_LOAD);
        test::pass(shell, false)?;
        test::pass(shell, true)
    })?;
    let programs = env::var(PROGRAMS_VARIABLE).unwrap_or_else(|_| PROGRAMS.to_owned());
    let test = ["-p", "pool-core", "--test", "stress"];
    cmd!(shell, "cargo test --release {test...} -- --nocapture")
        .env(PROGRAMS_VARIABLE, programs)
        .env("ANTHILL_STRESS_SEED", seed.to_string())
        .run()?;
    Ok(())
}

/// The seed from the environment, to repeat a failure, or one from the clock.
fn first_seed() -> Result<u64> {
    match env::var("ANTHILL_STRESS_SEED") {
        Ok(seed) => seed.parse().context("ANTHILL_STRESS_SEED is a number"),
        Err(_) => Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()),
    }
}

/// Runs `body` while one thread per core spins.
fn under_load<T>(body: impl FnOnce() -> T) -> T {
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..parallel::cores() {
            scope.spawn(|| {
                // `Relaxed`: only a flag.
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = body();
        over.store(true, Relaxed);
        result
    })
}
