//! `cargo xtask shuttle`: random schedules of the public interface, with more threads than loom can
//! explore.
//!
//! A scenario is a `#[testkit::scenario]` in `tests/shuttle.rs` (or `tests/shuttle/main.rs`) of a
//! crate. Each runs in its own process, in schedules determined by its seeds, and prints `schedules
//! NAME: explored N (seeds from S)`. A failing scenario prints its seed, and `--seed` repeats it.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::flags;
use crate::models::PROFILE;
use crate::parallel;
use crate::process::{self, Ended, Test};
use crate::workspace::Workspace;

/// The cfgs under which `sync-shim` uses shuttle instead of loom.
const CFG: &str = "--cfg anthill_loom --cfg anthill_shuttle";
/// The feature that enables shuttle.
const RUNTIME: &str = "--features=sync-shim/shuttle";
/// Schedules per scenario in ci, some seconds for all.
const IN_CI: u64 = 2_000;
const ON_DEMAND: u64 = 20_000;
/// For a scenario in ci, which takes a second or two.
const LIMIT: Duration = Duration::from_secs(300);

/// Explores as many schedules as ci has time for.
pub(crate) fn in_ci(workspace: &Workspace) -> Result<()> {
    let flags = flags::Shuttle {
        iters: Some(IN_CI),
        only: None,
        seed: None,
    };
    run(workspace, &flags, Some(LIMIT))
}

/// Explores the schedules that the flags request.
pub(crate) fn run(
    workspace: &Workspace,
    flags: &flags::Shuttle,
    limit: Option<Duration>,
) -> Result<()> {
    let begin = Instant::now();
    let mut command = cargo(workspace, "test")?;
    command.args([PROFILE, "--no-run"]);
    let mut tests = process::list_tests(process::build_tests(&mut command)?)?;
    if let Some(only) = &flags.only {
        tests.retain(|test| test.to_string().contains(only));
        ensure!(!tests.is_empty(), "no scenario matches `{only}`");
    }
    let logs = target(workspace).join("logs");
    let (schedules, seed) = (flags.iters.unwrap_or(ON_DEMAND), flags.seed.unwrap_or(0));
    let scenario = |(): &(), test: Test| {
        let mut command = test.command();
        command
            .env("ANTHILL_SHUTTLE_SCHEDULES", schedules.to_string())
            .env("ANTHILL_SHUTTLE_SEED", seed.to_string())
            // It would replace our seeds.
            .env_remove("SHUTTLE_RANDOM_SEED");
        let ended = process::run_logged(&mut command, &test.log(&logs), limit)?;
        let explored = explored(&ended);
        report(&test, &ended, explored);
        Ok(explored)
    };
    let explored = parallel::map(tests, parallel::cores(), |_| Ok(()), scenario)?;
    let (count, total) = (explored.len(), explored.iter().flatten().sum::<u64>());
    let failed = explored.iter().filter(|it| it.is_none()).count();
    ensure!(failed == 0, "{failed} of {count} scenarios failed");
    let seconds = begin.elapsed().as_secs();
    println!(
        "shuttle: {count} scenarios, {total} schedules explored (seeds from {seed}), {seconds} s"
    );
    Ok(())
}

/// Lints the code under the two cfgs.
pub(crate) fn lint(workspace: &Workspace) -> Result<()> {
    let mut command = cargo(workspace, "clippy")?;
    let status = command.args(["--", "-D", "warnings"]).status()?;
    ensure!(status.success(), "clippy reports errors in the scenarios");
    Ok(())
}

fn cargo(workspace: &Workspace, subcommand: &str) -> Result<Command> {
    let crates = workspace.crates_with("shuttle")?;
    let mut command = process::cargo(subcommand, &workspace.root, &target(workspace), &crates);
    command
        .args(["--test", "shuttle", RUNTIME])
        .env("RUSTFLAGS", CFG);
    Ok(command)
}

fn target(workspace: &Workspace) -> PathBuf {
    workspace.target.join("shuttle")
}

/// The number of schedules that a scenario has explored; `None` if it failed.
fn explored(ended: &Ended) -> Option<u64> {
    let counts = ended.output.lines().filter_map(|line| {
        let (_name, rest) = line.strip_prefix("schedules ")?.split_once(": explored ")?;
        rest.split_once(' ')?.0.parse::<u64>().ok()
    });
    let total = counts.sum();
    (ended.success() && total > 0).then_some(total)
}

fn report(test: &Test, ended: &Ended, explored: Option<u64>) {
    let seconds = ended.time.as_secs_f32();
    match explored {
        Some(explored) => println!("{explored:>10} schedules, {seconds:>6.1} s  {test}"),
        None if ended.status.is_none() => println!("{}\nTIMED OUT: {test}", ended.output),
        None => println!("{}\nFAILED: {test}", ended.output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_counts_only_if_it_passed_and_printed_its_schedules() {
        let line = "\nschedules a b: explored 50 (seeds from 7)\ntest x ... ok\n";
        assert_eq!(explored(&Ended::of("true", line)), Some(50));
        assert_eq!(explored(&Ended::of("false", line)), None);
        assert_eq!(explored(&Ended::of("true", "test x ... ok")), None);
        let none = "\nschedules a: explored 0 (seeds from 0)\n";
        assert_eq!(explored(&Ended::of("true", none)), None);
    }
}
