//! Builds and lists the loom models, and runs them one by one.
//!
//! A model is a `#[testkit::model]` in `tests/loom.rs` (or `tests/loom/main.rs`) of a crate. Each
//! runs in its own process, because a failing model often aborts the process and would hide the
//! others. For each completed exploration, a model prints the line `model NAME: completed in N
//! iterations (bound B)`.

mod verdict;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::flags::Bound;
use crate::parallel;
use crate::process::{self, Ended, Test};
use crate::workspace::Workspace;

pub(crate) use verdict::{Cause, Completed, Verdict};

/// The target directory of the models.
pub(crate) fn target(workspace: &Workspace) -> PathBuf {
    workspace.target.join("loom")
}

/// The cfg under which `sync-shim` uses loom.
const CFG: &str = "--cfg anthill_loom";

/// The feature that enables loom.
const RUNTIME: &str = "--features=sync-shim/loom";

/// The build profile.
pub(crate) const PROFILE: &str = "--profile=models";

/// Features that are modelled.
const FEATURES: [(&str, &str); 1] = [("pool-util", "stream")];

/// A cargo command that compiles `what` of `packages` under the models' cfg, for the tree at
/// `root`.
fn cargo(root: &Path, target: &Path, subcommand: &str, what: &str, packages: &[String]) -> Command {
    let features = FEATURES
        .iter()
        .filter(|it| packages.iter().any(|name| name == it.0));
    let mut command = process::cargo(subcommand, root, target, packages);
    command
        .args([what, RUNTIME])
        .args(features.map(|(package, feature)| format!("--features={package}/{feature}")))
        .env("RUSTFLAGS", CFG);
    command
}

/// Lists the primitives that only `sync-shim` may use.
const PRIMITIVES: &str = "xtask/primitives";
/// Crates that may use them: `sync-shim`, and those that observe tests from outside of any model.
const EXEMPT: [&str; 3] = ["sync-shim", "testkit", "durable-queue-tests"];

/// Lints the code under the models' cfg, and checks that it waits only through loom.
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
        ensure!(
            status.success(),
            "clippy reports errors under the models' cfg"
        );
    }
    Ok(())
}

/// Builds the models of `packages` and lists them.
///
/// Warnings are off: [`lint`] reports them, and mutants cause some.
pub(crate) fn build(root: &Path, target: &Path, packages: &[String]) -> Result<Vec<Test>> {
    let mut command = cargo(root, target, "test", "--test=loom", packages);
    command
        .args([PROFILE, "--no-run"])
        .env("RUSTFLAGS", format!("{CFG} -A warnings"));
    process::list_tests(process::build_tests(&mut command)?)
}

/// The result of a test.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) test: Test,
    /// The verdict on its output.
    pub(crate) verdict: Verdict,
    /// Its complete output.
    pub(crate) output: String,
    /// Its duration.
    pub(crate) time: Duration,
}

impl Run {
    pub(crate) fn of(
        test: &Test,
        ended: Ended,
        judge: fn(&Ended) -> Result<Verdict>,
    ) -> Result<Self> {
        Ok(Self {
            test: test.clone(),
            verdict: judge(&ended).with_context(|| test.to_string())?,
            output: ended.output,
            time: ended.time,
        })
    }
}

/// Runs one test, and writes its output to a file below `logs` as well.
pub(crate) fn run(
    test: &Test,
    bound: Option<&Bound>,
    limit: Option<Duration>,
    logs: &Path,
) -> Result<Run> {
    let mut command = test.command();
    command
        // These would end an exploration early and report a success.
        .env_remove("LOOM_MAX_DURATION")
        .env_remove("LOOM_MAX_PERMUTATIONS")
        .env_remove("LOOM_CHECKPOINT_FILE")
        .env_remove("ANTHILL_LOOM_BOUND");
    if let Some(Bound(bound)) = bound {
        command.env("ANTHILL_LOOM_BOUND", bound);
    }
    let ended = process::run_logged(&mut command, &test.log(logs), limit)?;
    Run::of(test, ended, Verdict::of)
}

/// Runs all `tests`, one per core at a time, and passes each to `report` as it ends.
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
