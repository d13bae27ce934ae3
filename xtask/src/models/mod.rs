//! The loom models: how they are built, listed, run one by one, and what they say.
//!
//! A model is a `#[testkit::model]` in `tests/loom.rs` (or `tests/loom/main.rs`) of a crate. Each runs in a
//! process of its own, because a failing model often aborts the process and would hide the
//! others. For each exploration that it completes, a model prints the line
//! `model NAME: completed in N iterations (bound B)`.

mod verdict;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::flags::Bound;
use crate::parallel;
use crate::process::{self, Test};
use crate::workspace::{Workspace, package};

pub(crate) use verdict::{Cause, Completed, Verdict};

/// Where the models are built.
pub(crate) fn target(workspace: &Workspace) -> PathBuf {
    workspace.target.join("loom")
}

/// The cfg under which `sync-shim` stands on loom.
const CFG: &str = "--cfg anthill_loom";

/// The feature that brings loom.
const RUNTIME: &str = "--features=sync-shim/loom";

/// How they are built to be run.
pub(crate) const PROFILE: &str = "--profile=models";

/// Features that are modelled.
const FEATURES: [(&str, &str); 1] = [("pool-util", "stream")];

/// A cargo command that compiles `what` of `packages` as the models see it, for the tree at `root`.
fn cargo(root: &Path, target: &Path, subcommand: &str, what: &str, packages: &[String]) -> Command {
    let mut command = Command::new("cargo");
    command
        .args([subcommand, "--quiet", what, RUNTIME])
        .args(packages.iter().flat_map(|name| ["-p", package(name)]))
        .args(features(packages))
        .current_dir(root)
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTFLAGS", CFG)
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    command
}

/// Those whose code waits in a way of its own, if their package is among these.
fn features(packages: &[String]) -> Vec<String> {
    let mut features = Vec::new();
    for (package, feature) in FEATURES {
        if packages.iter().any(|name| name == package) {
            features.push(format!("--features={package}/{feature}"));
        }
    }
    features
}

/// Names what only `sync-shim` may use.
const PRIMITIVES: &str = "xtask/primitives";
/// That crate, and those that watch tests from outside of any model.
const EXEMPT: [&str; 3] = ["sync-shim", "testkit", "durable-queue-tests"];

/// Lints what only stands under the models' cfg, and that what waits there waits through loom.
pub(crate) fn lint(workspace: &Workspace) -> Result<()> {
    let target = target(workspace);
    let packages = workspace.crates_with("loom")?;
    let mut models = cargo(&workspace.root, &target, "clippy", "--test=loom", &packages);
    let mut packages = workspace.crates()?;
    packages.retain(|name| !EXEMPT.contains(&name.as_str()));
    let mut sources = cargo(&workspace.root, &target, "clippy", "--lib", &packages);
    sources
        .arg("--no-deps")
        .env("CLIPPY_CONF_DIR", workspace.root.join(PRIMITIVES));
    for command in [&mut models, &mut sources] {
        let status = command.args(["--", "-D", "warnings"]).status()?;
        ensure!(status.success(), "clippy complains under the models' cfg");
    }
    Ok(())
}

/// Builds the models of `packages` and lists them.
///
/// Warnings are off: they are [`lint`]'s business, and a mutant has warnings of its own.
pub(crate) fn build(root: &Path, target: &Path, packages: &[String]) -> Result<Vec<Test>> {
    let mut command = cargo(root, target, "test", "--test=loom", packages);
    command
        .args([PROFILE, "--no-run"])
        .env("RUSTFLAGS", format!("{CFG} -A warnings"));
    process::list_tests(process::build_tests(&mut command)?)
}

/// A test that has run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Which one.
    pub(crate) test: Test,
    /// What it said.
    pub(crate) verdict: Verdict,
    /// Everything it printed.
    pub(crate) output: String,
    /// How long it ran.
    pub(crate) time: Duration,
}

/// Runs one test; its output goes to a file below `logs` as well.
pub(crate) fn run(
    test: &Test,
    bound: Option<&Bound>,
    limit: Option<Duration>,
    logs: &Path,
) -> Result<Run> {
    let mut command = test.command();
    command
        // These end an exploration early and call it a success.
        .env_remove("LOOM_MAX_DURATION")
        .env_remove("LOOM_MAX_PERMUTATIONS")
        .env_remove("LOOM_CHECKPOINT_FILE")
        .env_remove("ANTHILL_LOOM_BOUND");
    if let Some(Bound(bound)) = bound {
        command.env("ANTHILL_LOOM_BOUND", bound);
    }
    let ended = process::run_logged(&mut command, &test.log(logs), limit)?;
    Ok(Run {
        test: test.clone(),
        verdict: Verdict::of(&ended).with_context(|| test.to_string())?,
        output: ended.output,
        time: ended.time,
    })
}

/// Runs all `tests`, one per core at a time, and hands each to `report` as it ends.
pub(crate) fn run_all(
    tests: Vec<Test>,
    bound: Option<&Bound>,
    limit: Option<Duration>,
    logs: &Path,
    report: impl Fn(&Run) + Sync,
) -> Result<Vec<Run>> {
    let work = |(): &(), test| {
        let run = run(&test, bound, limit, logs)?;
        report(&run);
        Ok(run)
    };
    parallel::map(tests, parallel::cores(), |_| Ok(()), work)
}
