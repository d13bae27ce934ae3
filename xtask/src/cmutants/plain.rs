//! Ordinary tests for mistakes that no model can detect.
//!
//! Each test runs in its own process, like a model: a failing watchdog aborts its process, and the
//! results of other tests in the binary are irrelevant.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::copy::Copy;
use super::list::Mutant;
use crate::models::{Run, Verdict};
use crate::process::{self, Ended, Test};

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
    let targets: BTreeSet<_> = match only {
        None => ["--tests".to_owned()].into(),
        Some(tests) => tests.iter().flat_map(|test| target(copy, test)).collect(),
    };
    let mut command = process::cargo("test", &copy.tree, &copy.target.join("tests"), packages);
    command
        .args(["--all-features", "--no-run"])
        .args(targets)
        .env("RUSTFLAGS", "-A warnings");
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

/// Runs one test.
pub(crate) fn run(copy: &Copy, test: &Test, limit: Option<Duration>) -> Result<Run> {
    let mut command = test.command();
    // The working directory of `cargo test`, because tests may read files of their crate.
    command.current_dir(copy.tree.join("crates").join(&test.binary.package));
    let ended = process::run_logged(&mut command, &test.log(&copy.logs), limit)?;
    Run::of(test, ended, judge)
}

fn judge(ended: &Ended) -> Result<Verdict> {
    if let Some(verdict) = Verdict::of_failure(ended) {
        return Ok(verdict);
    }
    // An ignored test passes without running.
    ensure!(ended.output.contains(" 1 passed;"), "it does not run");
    // So does a test whose server is missing.
    let mut lines = ended.output.lines();
    ensure!(
        !lines.any(|line| line.starts_with("left out: ")),
        "it needs a server: run `cargo xtask stores up` and the lines that it prints"
    );
    Ok(Verdict::Passed(Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Cause;

    #[test]
    fn only_a_test_that_ran_can_pass_and_a_hang_is_not_a_failure() {
        let passed = "test result: ok. 1 passed; 0 failed; 0 ignored";
        let ignored = "test result: ok. 0 passed; 0 failed; 1 ignored";
        let of = |program, output: &str| judge(&Ended::of(program, output));
        assert!(matches!(of("true", passed), Ok(Verdict::Passed(_))));
        assert!(of("true", ignored).is_err());
        let left_out = format!("left out: tests on a server\n{passed}");
        assert!(of("true", &left_out).is_err());
        let mut hangs = Ended::of("true", passed);
        hangs.status = None;
        assert!(matches!(judge(&hangs), Ok(Verdict::TimedOut)));
        let aborted = of("false", "");
        assert!(matches!(aborted, Ok(Verdict::Failed(Cause::Abort))));
        let panicked = of("false", "panicked at x");
        assert!(matches!(panicked, Ok(Verdict::Failed(Cause::Panic))));
    }
}
