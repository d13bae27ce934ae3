//! Processes that share a queue, in a file or on a server, are repeatedly killed and stopped at random. Then
//! their diaries are compared: no job is lost, no job is early, and no stale holder has settled a job.
//!
//! With `--old PROGRAM`, this program built with an older version of the crate, processes of both versions
//! share the store. With `--kills`, every second process runs the older version; without it no process is
//! killed, and [`versions`] describes the run. `cargo xtask versions` builds and runs both programs.
//!
//! `cargo xtask crash --kills 500 --seed 7` (`--on postgres`, `--on redis`) runs it longer than the tests do.
//! The seed determines the actions of a run, but not their times: it reproduces the kills, but not the races.
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
mod place;
#[cfg(all(unix, not(anthill_loom)))]
mod version;
#[cfg(all(unix, not(anthill_loom)))]
mod versions;
#[cfg(all(unix, not(anthill_loom)))]
mod worker;

#[cfg(all(unix, not(anthill_loom)))]
use std::path::PathBuf;

#[cfg(all(unix, not(anthill_loom)))]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, folder, name, last] = &arguments[..] {
        let folder = folder.as_ref();
        let server = std::env::var(place::SERVER).ok();
        if mode == worker::MODE {
            let seed = last.parse().unwrap();
            let work = worker::Work { folder, name, seed };
            return place::play(server.as_deref(), folder, work);
        }
        if mode == versions::MODE {
            let knows_new = last.parse().unwrap();
            let party = versions::Party {
                folder,
                name,
                knows_new,
            };
            return place::play(server.as_deref(), folder, party);
        }
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return; // There are no separate tests.
    }
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).cloned()
    };
    let number = |flag: &str| value(flag).map(|number| number.parse::<u64>().unwrap());
    let kills = number("--kills");
    let seed = number("--seed").unwrap_or(1);
    let old = value("--old").map(PathBuf::from);
    let watched = |server: Option<&str>| {
        if let (Some(old), None) = (&old, kills) {
            return testkit::watchdog(testkit::LIMIT * 4, || versions::run(old, server));
        }
        let kills = kills.unwrap_or(killer::KILLS);
        let limit = testkit::LIMIT * 2 + killer::LONGEST * u32::try_from(kills).unwrap();
        testkit::watchdog(limit, || killer::run(old.as_deref(), server, kills, seed));
    };
    match value("--on").as_deref() {
        None | Some("sqlite") => watched(None),
        Some("postgres") => {
            if let Some(database) = version::databases::Postgres::new("crash") {
                watched(Some(&database.address));
            }
        }
        Some("redis") => {
            if let Some(database) = version::databases::Redis::new(DATABASE) {
                watched(Some(&database.address));
            }
        }
        Some(store) => panic!("there is no store called {store}"),
    }
}

/// A separate Redis server.
#[cfg(all(unix, not(anthill_loom)))]
const DATABASE: u8 = 13;

/// Not for models, nor for systems without signals.
#[cfg(not(all(unix, not(anthill_loom))))]
fn main() {}
