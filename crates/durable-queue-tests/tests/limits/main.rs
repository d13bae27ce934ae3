//! Eight processes that claim jobs with limits are killed at random. Then their diaries are compared: at no
//! moment were more jobs of a kind or a group held than the limit, no rate was exceeded, and all jobs get done.
//!
//! The processes claim from the store directly, so that each knows the store's time of its claims, and thus
//! exactly until when it held a job.
//!
//! `cargo test -p durable-queue-tests --test limits -- --kills 500 --seed 7` runs it longer, and `--on postgres` or
//! `--on redis` on a server.
#![cfg_attr(
    all(unix, not(anthill_loom)),
    expect(
        clippy::unwrap_used,
        reason = "a helper that fails is a test that fails"
    )
)]

#[cfg(all(unix, not(anthill_loom)))]
mod judge;
#[cfg(all(unix, not(anthill_loom)))]
mod killer;
#[cfg(all(unix, not(anthill_loom)))]
mod worker;

#[cfg(all(unix, not(anthill_loom)))]
use durable_queue_tests::databases;

#[cfg(all(unix, not(anthill_loom)))]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, folder, name, seed] = &arguments[..]
        && mode == worker::MODE
    {
        worker::work(folder.as_ref(), name, seed.parse().unwrap());
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return; // There are no separate tests.
    }
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1)
    };
    let number = |flag: &str| value(flag)?.parse::<u64>().ok();
    let kills = number("--kills").unwrap_or(killer::KILLS);
    let seed = number("--seed").unwrap_or(1);
    let limit = testkit::LIMIT * 2 + killer::LONGEST * u32::try_from(kills).unwrap();
    let watched =
        |server: Option<&str>| testkit::watchdog(limit, || killer::run(server, kills, seed));
    match value("--on").map(String::as_str) {
        None | Some("sqlite") => watched(None),
        Some("postgres") => {
            if let Some(database) = databases::Postgres::new("limits") {
                watched(Some(&database.address));
            }
        }
        Some("redis") => {
            if let Some(database) = databases::Redis::new(DATABASE) {
                watched(Some(&database.address));
            }
        }
        Some(store) => panic!("the test does not run on {store}"),
    }
}

/// A separate Redis database.
#[cfg(all(unix, not(anthill_loom)))]
const DATABASE: u8 = 11;

/// Not for models, nor for systems without signals.
#[cfg(not(all(unix, not(anthill_loom))))]
fn main() {}
