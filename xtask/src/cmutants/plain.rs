//! Ordinary tests for mistakes that no model can detect.
//!
//! Each test runs in its own process, like a model: a failing watchdog aborts its process, and the
//! results of other tests in the binary are irrelevant.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::copy::Copy;
use super::list::Mutant;
use crate::models::Cause;
use crate::process::{self, Ended, Test};
use crate::workspace::package;

/// The result of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The test passed.
    Passed,
    /// The test or its watchdog failed.
    Failed(Cause),
    /// The test exceeded its limit.
    TimedOut,
}

/// The crates of the tests that should detect these mutants.
pub(crate) fn packages<'a>(mutants: impl IntoIterator<Item = &'a Mutant>) -> BTreeSet<String> {
    let filters = mutants.into_iter().flat_map(|mutant| &mutant.tests);
    filters.map(|filter| filter.package.clone()).collect()
}

/// Builds the tests of `packages` in the copy, all of them or those in the binaries of `only`, and
/// lists them. Warnings are off, because mutants cause some.
pub(crate) fn build(
    copy: &Copy,
    packages: &BTreeSet<String>,
    only: Option<&[&Test]>,
) -> Result<Vec<Test>> {
    let targets = only.map_or_else(
        || vec!["--tests".to_owned()],
        |tests| {
            let targets: BTreeSet<_> = tests.iter().map(|test| target(copy, test)).collect();
            targets.into_iter().flatten().collect()
        },
    );
    let mut command = Command::new("cargo");
    command
        .args(["test", "--quiet", "--all-features", "--no-run"])
        .args(targets)
        .args(packages.iter().flat_map(|name| ["-p", package(name)]))
        .current_dir(&copy.tree)
        .env("CARGO_TARGET_DIR", copy.target.join("tests"))
        .env("RUSTFLAGS", "-A warnings")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    process::list_tests(process::build_tests(&mut command)?)
}

/// The arguments by which cargo selects a test's binary: a file or folder in `tests`, or the crate
/// itself.
fn target(copy: &Copy, test: &Test) -> Vec<String> {
    let stem = test.binary.path.file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy();
    let name = stem.rsplit_once('-').map_or(&*stem, |(name, _hash)| name);
    let folder = copy.tree.join("crates").join(&test.binary.package);
    let tests = folder.join("tests");
    if tests.join(format!("{name}.rs")).exists() || tests.join(name).join("main.rs").exists() {
        vec![format!("--test={name}")]
    } else {
        vec!["--lib".to_owned(), "--bins".to_owned()]
    }
}

/// Runs one test. Returns its result and duration.
pub(crate) fn run(
    copy: &Copy,
    test: &Test,
    limit: Option<Duration>,
) -> Result<(Outcome, Duration)> {
    let mut command = test.command();
    // The working directory of `cargo test`, because tests may read files of their crate.
    command.current_dir(copy.tree.join("crates").join(&test.binary.package));
    let ended = process::run_logged(&mut command, &test.log(&copy.logs), limit)?;
    Ok((outcome(test, &ended)?, ended.time))
}

fn outcome(test: &Test, ended: &Ended) -> Result<Outcome> {
    if ended.status.is_none() {
        return Ok(Outcome::TimedOut);
    }
    if !ended.success() {
        return Ok(Outcome::Failed(Cause::parse(&ended.output)));
    }
    // An ignored test passes without running.
    ensure!(ended.output.contains(" 1 passed;"), "{test} does not run");
    // So does a test whose server is missing.
    let is_left_out = ended
        .output
        .lines()
        .any(|line| line.starts_with("left out: "));
    ensure!(
        !is_left_out,
        "{test} needs a server: run `cargo xtask stores up` and the lines that it prints"
    );
    Ok(Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::TestBinary;

    #[test]
    fn only_a_test_that_ran_can_pass_and_a_hang_is_not_a_failure() {
        let test = Test {
            binary: TestBinary {
                package: "x".to_owned(),
                path: "it".into(),
            },
            test: "a".to_owned(),
        };
        let passed = "test result: ok. 1 passed; 0 failed; 0 ignored";
        let ignored = "test result: ok. 0 passed; 0 failed; 1 ignored";
        let of = |command: Option<&str>, output| {
            let mut ended = Ended::of(command.unwrap_or("true"), output);
            ended.status = ended.status.filter(|_| command.is_some());
            outcome(&test, &ended)
        };
        assert_eq!(of(Some("true"), passed).ok(), Some(Outcome::Passed));
        assert!(of(Some("true"), ignored).is_err());
        let left_out = format!("left out: tests on a server\n{passed}");
        assert!(of(Some("true"), &left_out).is_err());
        assert_eq!(of(None, "").ok(), Some(Outcome::TimedOut));
        let (aborted, panicked) = (of(Some("false"), ""), of(Some("false"), "panicked at x"));
        assert_eq!(aborted.ok(), Some(Outcome::Failed(Cause::Abort)));
        assert_eq!(panicked.ok(), Some(Outcome::Failed(Cause::Panic)));
    }
}
