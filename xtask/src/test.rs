//! `cargo xtask test`: runs the tests and doc tests of the pools and queues in memory; with
//! `--all`, of all packages.
//!
//! Without `--all` it builds no database client and no C code; `cargo xtask hygiene` checks that.

use std::env;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;
use xshell::{Shell, cmd};

use crate::process;
use crate::workspace::{Workspace, package, require};

/// The platform of the pages about dependencies, and of the sanitizers' runtimes.
pub(crate) const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// The environment variable with the file in which tests record what they leave out
/// (`testkit::left_out`).
pub(crate) const LEFT_OUT: &str = "TESTKIT_LEFT_OUT";
const INCREMENTAL: &str = "CARGO_INCREMENTAL";
/// The prefix of crates that need a C compiler, and whose clients take most of the time to compile.
const HEAVY: &str = "durable-queue";
/// The prefix of the features that turn on these crates.
const HEAVY_FEATURE: &str = "durable";
/// The packages that `--all` builds. Also used to run the tests or examples of one package, because
/// alone its dependencies would be built again with other features. Excludes xtask, which cargo has
/// built already.
pub(crate) const WHOLE: [&str; 4] = ["--workspace", "--exclude", "xtask", "--all-features"];
const XTASK: [&str; 2] = ["--package", "xtask"];

/// Runs the tests, pinned to the first core if `one_core`.
pub(crate) fn run(workspace: &Workspace, all: bool, one_core: bool) -> Result<()> {
    if one_core {
        require_pinning()?;
    }
    let begin = Instant::now();
    let shell = workspace.shell()?;
    let left_out = workspace.target.join("left-out.txt");
    shell.write_file(&left_out, "")?;
    let _left_out = shell.push_env(LEFT_OUT, &left_out);
    // A single build gains nothing from incremental compilation, which takes longer and twice the
    // disk space.
    let incremental = env::var(INCREMENTAL).unwrap_or_else(|_| "0".to_owned());
    let _incremental = shell.push_env(INCREMENTAL, incremental);

    let light = light(workspace)?;
    let light: Vec<_> = light.iter().map(String::as_str).collect();
    let (packages, names) = if all {
        (&WHOLE[..], "all packages".to_owned())
    } else {
        (&light[..], in_memory(workspace)?.join(", "))
    };
    let place = if one_core { " on one core" } else { "" };
    let steps = [COMPILE, TESTS, DOC_TESTS];
    let count = if one_core { 2 } else { 3 };
    println!("test: {names}");
    for (number, step) in (1..=count).zip(steps) {
        let (what, seconds) = (step.0, begin.elapsed().as_secs());
        println!("test: step {number} of {count}, {what}{place} (after {seconds} s)");
        step.run(&shell, packages, one_core)?;
        if all && step != DOC_TESTS {
            step.run(&shell, &XTASK, one_core)?;
        }
    }
    let seconds = begin.elapsed().as_secs();
    let summary = if all {
        summary(&fs::read_to_string(&left_out)?, INCLUDE)
    } else {
        "`--all` adds durable queues and the example programs; CONTRIBUTING.md lists the long checks".to_owned()
    };
    println!("test: all passed{place}, {seconds} s; {summary}");
    Ok(())
}

/// The crates of the pools and the queues in memory.
fn in_memory(workspace: &Workspace) -> Result<Vec<String>> {
    let mut crates = workspace.crates()?;
    crates.retain(|name| !name.starts_with(HEAVY));
    Ok(crates)
}

/// The arguments by which cargo selects the crates in memory, with all features but those that turn
/// on durable queues, as `--all-features` does.
pub(crate) fn light(workspace: &Workspace) -> Result<Vec<String>> {
    let shell = workspace.shell()?;
    let metadata = cmd!(shell, "cargo metadata --no-deps --format-version 1");
    let metadata: Value = serde_json::from_str(&metadata.quiet().read()?)?;
    let mut arguments = Vec::new();
    for name in in_memory(workspace)? {
        let name = package(&name);
        arguments.extend(["--package".to_owned(), name.to_owned()]);
        let mut packages = metadata["packages"].as_array().into_iter().flatten();
        let manifest = packages.find(|it| it["name"] == name);
        let features = manifest.and_then(|it| it["features"].as_object());
        let features = features.with_context(|| format!("cargo does not list {name}"))?;
        let features = features.keys().filter(|it| !it.starts_with(HEAVY_FEATURE));
        arguments.extend(features.map(|feature| format!("--features={name}/{feature}")));
    }
    Ok(arguments)
}

/// How to run the tests that need a server.
const INCLUDE: &str = "`cargo xtask ci --only stores` starts the servers that are installed, and runs the tests on them";

/// Returns the tests that were left out, and how to `include` them.
pub(crate) fn summary(left_out: &str, include: &str) -> String {
    if left_out.is_empty() {
        return "nothing was left out".to_owned();
    }
    let mut parts: Vec<&str> = left_out.lines().collect();
    parts.sort_unstable();
    parts.dedup();
    format!("left out: {}. {include}", parts.join(", "))
}

/// What a step does, and its option for `cargo test`.
#[derive(Clone, Copy, PartialEq)]
struct Step(&'static str, &'static str);

/// Some tests run an example, so all targets are compiled.
const COMPILE: Step = Step("compiling crates, tests and examples", "--no-run");
const TESTS: Step = Step("running the tests", "--tests");
const DOC_TESTS: Step = Step(
    "compiling and running the examples in the documentation",
    "--doc",
);

impl Step {
    fn run(self, shell: &Shell, packages: &[&str], one_core: bool) -> Result<()> {
        // Compiling takes minutes, so it shows its progress. It is not pinned to one core, which
        // would only take longer.
        let cargo: &[&str] = match (self == COMPILE, one_core) {
            (true, _) => &["cargo", "test"],
            (false, true) => &["taskset", "-c", "0", "cargo", "test", "--quiet"],
            (false, false) => &["cargo", "test", "--quiet"],
        };
        let words = [cargo, &[self.1], packages].concat();
        Ok(shell.cmd(words[0]).args(&words[1..]).run()?)
    }
}

/// Runs the test binaries of the crates in memory, as `--all` has built them, on the first core.
/// Their wake-ups depend on it.
pub(crate) fn one_core_in_ci(workspace: &Workspace) -> Result<()> {
    require_pinning()?;
    let shell = workspace.shell()?;
    let mut command = cmd!(shell, "cargo test --quiet --no-run {WHOLE...}").into();
    let binaries = process::build_tests(&mut command)?;
    let crates = workspace.crates()?;
    for binary in binaries {
        if crates.contains(&binary.package) && !binary.package.starts_with(HEAVY) {
            // The working directory of `cargo test`, because tests may read files of their crate.
            let _folder = shell.push_dir(workspace.folder(&binary.package));
            let path = binary.path;
            cmd!(shell, "taskset -c 0 {path} --quiet").run()?;
        }
    }
    Ok(())
}

/// Builds all tests.
pub(crate) fn build(shell: &Shell) -> Result<()> {
    COMPILE.run(shell, &WHOLE, false)
}

/// Runs all tests once. On one core without the doc tests, whose results do not depend on it.
pub(crate) fn pass(shell: &Shell, one_core: bool) -> Result<()> {
    TESTS.run(shell, &WHOLE, one_core)?;
    if !one_core {
        DOC_TESTS.run(shell, &WHOLE, one_core)?;
    }
    Ok(())
}

/// Builds the examples, which some tests run, and then runs the tests of these packages, with a
/// sanitizer's flags. Without doc tests, which rustdoc would link without the runtime.
pub(crate) fn sanitized(
    shell: &Shell,
    packages: &[&str],
    options: &[&str],
    harness: &[&str],
) -> Result<()> {
    let common = &[&["--all-features", "--target", TRIPLE], options, packages].concat();
    cmd!(shell, "cargo build --examples {common...}").run()?;
    let tests = cmd!(shell, "cargo test --no-fail-fast --tests {common...}");
    Ok(tests.arg("--").args(harness).run()?)
}

/// Fails unless processes can be pinned to a core.
pub(crate) fn require_pinning() -> Result<()> {
    let remedy = "apt-get install util-linux";
    require("taskset", &["-c", "0", "true"], remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_left_out_part_is_named_once_with_the_command_that_runs_it() {
        assert_eq!(summary("", INCLUDE), "nothing was left out");
        let left_out = "tests on B (b is not set)\ntests on A (a)\ntests on A (a)\n";
        let line = summary(left_out, INCLUDE);
        let start = "left out: tests on A (a), tests on B (b is not set). `cargo xtask ci";
        assert!(line.starts_with(start));
        assert!(!line.contains('\n'));
    }
}
