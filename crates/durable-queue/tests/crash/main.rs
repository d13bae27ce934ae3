//! Processes that work on one file are killed and stopped at random, again and again; then what each
//! of them wrote down is compared: nothing is lost, nothing is early, and no holder that had lost its
//! lease has settled anything.
//!
//! `cargo xtask crash --kills 500 --seed 7` runs it for longer than the tests do. What a run does
//! is decided by its seed; when it does it, by the machine: a seed repeats the kills, not the races.
#![cfg_attr(anthill_loom, allow(dead_code, unused_imports))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

#[cfg(all(unix, not(anthill_loom)))]
mod judge;
#[cfg(all(unix, not(anthill_loom)))]
mod killer;
#[cfg(all(unix, not(anthill_loom)))]
mod worker;

#[cfg(all(unix, not(anthill_loom)))]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, folder, name, seed] = &arguments[..]
        && mode == worker::MODE
    {
        return worker::run(folder.as_ref(), name, seed.parse().unwrap());
    }
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        Some(arguments.get(at + 1)?.parse::<u64>().unwrap())
    };
    let kills = value("--kills").unwrap_or(killer::KILLS);
    let seed = value("--seed").unwrap_or(1);
    testkit::watchdog(
        testkit::LIMIT * 2 + killer::LONGEST * u32::try_from(kills).unwrap(),
        move || {
            killer::run(kills, seed);
        },
    );
}

/// Nothing of it is for a model, or for a system without signals.
#[cfg(not(all(unix, not(anthill_loom))))]
fn main() {}
