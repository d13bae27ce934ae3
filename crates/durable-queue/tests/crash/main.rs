//! Processes that work on one queue, in a file or on a server, are killed and stopped at random, again and again; then what each
//! of them wrote down is compared: nothing is lost, nothing is early, and no holder that had lost its
//! lease has settled anything.
//!
//! `cargo xtask crash --kills 500 --seed 7` (`--on postgres`, `--on redis`) runs it for longer than the tests do. What a run does
//! is decided by its seed; when it does it, by the machine: a seed repeats the kills, not the races.
#![cfg_attr(
    all(unix, not(anthill_loom)),
    expect(
        clippy::unwrap_used,
        reason = "a helper that fails is a test that fails"
    )
)]

#[cfg(all(unix, not(anthill_loom), any(feature = "postgres", feature = "redis")))]
#[path = "../servers/address.rs"]
mod address;
#[cfg(all(unix, not(anthill_loom), any(feature = "postgres", feature = "redis")))]
#[path = "../servers/databases.rs"]
mod databases;
#[cfg(all(unix, not(anthill_loom)))]
mod judge;
#[cfg(all(unix, not(anthill_loom)))]
mod killer;
#[cfg(all(unix, not(anthill_loom)))]
mod place;
#[cfg(all(unix, not(anthill_loom)))]
mod worker;

#[cfg(all(unix, not(anthill_loom)))]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, folder, name, seed] = &arguments[..]
        && mode == worker::MODE
    {
        let (folder, seed) = (folder.as_ref(), seed.parse().unwrap());
        let server = std::env::var(place::SERVER).ok();
        let work = worker::Work { folder, name, seed };
        return place::play(server.as_deref(), folder, work);
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return; // It has no tests that can be run one by one.
    }
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).cloned()
    };
    let number = |flag: &str| value(flag).map(|number| number.parse::<u64>().unwrap());
    let kills = number("--kills").unwrap_or(killer::KILLS);
    let seed = number("--seed").unwrap_or(1);
    let limit = testkit::LIMIT * 2 + killer::LONGEST * u32::try_from(kills).unwrap();
    let watched = |server: Option<&str>| {
        testkit::watchdog(limit, || killer::run(server, kills, seed));
    };
    match value("--on").as_deref() {
        None | Some("sqlite") => watched(None),
        #[cfg(feature = "postgres")]
        Some("postgres") => {
            if let Some(database) = databases::Postgres::new() {
                watched(Some(&database.address));
            }
        }
        #[cfg(feature = "redis")]
        Some("redis") => {
            if let Some(database) = databases::Redis::new(DATABASE) {
                watched(Some(&database.address));
            }
        }
        Some(store) => panic!("there is no store called {store}"),
    }
}

/// Of Redis, this test's own.
#[cfg(all(unix, not(anthill_loom), feature = "redis"))]
const DATABASE: u8 = 13;

/// Nothing of it is for a model, or for a system without signals.
#[cfg(not(all(unix, not(anthill_loom))))]
fn main() {}
