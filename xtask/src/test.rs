//! `cargo xtask test`: every test and doc test, with all features.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::time::Instant;

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::workspace::{Workspace, require};

/// The runtimes of the sanitizers are there for this one.
pub(crate) const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Names the file in which tests write down what they leave out (`testkit::left_out`).
pub(crate) const LEFT_OUT: &str = "TESTKIT_LEFT_OUT";
const INCREMENTAL: &str = "CARGO_INCREMENTAL";

/// Runs the tests, pinned to the first core if `one_core`.
pub(crate) fn run(workspace: &Workspace, one_core: bool) -> Result<()> {
    if one_core {
        require_pinning()?;
    }
    let begin = Instant::now();
    let place = if one_core { " on one core" } else { "" };
    let phases: &[Phase] = if one_core {
        &[TESTS]
    } else {
        &[TESTS, DOC_TESTS]
    };
    let shell = workspace.shell()?;
    let left_out = workspace.target.join("left-out.txt");
    fs::create_dir_all(&workspace.target)?;
    fs::write(&left_out, "")?;
    let _left_out = shell.push_env(LEFT_OUT, &left_out);
    // What is built once gains nothing by being built incrementally: it takes longer, and 4 GB.
    let incremental = env::var(INCREMENTAL).unwrap_or_else(|_| "0".to_owned());
    let _incremental = shell.push_env(INCREMENTAL, incremental);

    let count = 1 + phases.len();
    println!("test: phase 1 of {count}, compiling all crates, their tests and examples");
    build(&shell)?;
    for (index, phase) in phases.iter().enumerate() {
        let seconds = begin.elapsed().as_secs();
        let (number, what) = (index + 2, phase.what);
        println!("test: phase {number} of {count}, {what}{place} (after {seconds} s)");
        phase.run(&shell, one_core)?;
    }
    let seconds = begin.elapsed().as_secs();
    println!(
        "test: all passed{place}, {seconds} s; {}",
        summary(&fs::read_to_string(&left_out)?, INCLUDE)
    );
    Ok(())
}

/// How to run the tests that need a server.
const INCLUDE: &str = "`cargo xtask ci --only stores` starts the servers that are installed, and runs the tests on them";

/// Names the tests that were left out, and how to `include` them.
pub(crate) fn summary(left_out: &str, include: &str) -> String {
    let parts: BTreeSet<&str> = left_out.lines().collect();
    if parts.is_empty() {
        return "nothing was left out".to_owned();
    }
    let parts: Vec<&str> = parts.into_iter().collect();
    format!("left out: {}. {include}", parts.join(", "))
}

/// A part of a run.
struct Phase {
    what: &'static str,
    /// For `cargo test`.
    option: &'static str,
    /// A program has no documentation with examples.
    also_of_xtask: bool,
}

const TESTS: Phase = Phase {
    what: "running the tests",
    option: "--tests",
    also_of_xtask: true,
};
const DOC_TESTS: Phase = Phase {
    what: "compiling and running the examples in the documentation",
    option: "--doc",
    also_of_xtask: false,
};

impl Phase {
    fn run(&self, shell: &Shell, one_core: bool) -> Result<()> {
        let option = self.option;
        let pinning: &[&str] = if one_core {
            &["taskset", "-c", "0"]
        } else {
            &[]
        };
        let test = |packages: &[&str]| {
            let words = [pinning, &["cargo", "test", "--quiet", option], packages].concat();
            shell.cmd(words[0]).args(&words[1..]).run()
        };
        test(&WHOLE)?;
        if self.also_of_xtask {
            test(&XTASK)?;
        }
        Ok(())
    }
}

/// What is built, also where one package's tests or examples are run: alone it would have its
/// dependencies with other features, and these be built again. For the same reason without this program,
/// which cargo has built alone before it runs it.
pub(crate) const WHOLE: [&str; 4] = ["--workspace", "--exclude", "xtask", "--all-features"];
const XTASK: [&str; 2] = ["--package", "xtask"];

/// Builds the tests. Apart from running them, because compiling on one core only costs time.
pub(crate) fn build(shell: &Shell) -> Result<()> {
    cmd!(shell, "cargo test {WHOLE...} --no-run").run()?;
    cmd!(shell, "cargo test {XTASK...} --no-run").run()?;
    Ok(())
}

/// Runs the tests once. On one core without the doc tests: to compile them takes most of the time, and
/// they have no threads that more cores would part.
pub(crate) fn pass(shell: &Shell, one_core: bool) -> Result<()> {
    TESTS.run(shell, one_core)?;
    if !one_core {
        DOC_TESTS.run(shell, one_core)?;
    }
    Ok(())
}

/// Runs the tests of these packages with a sanitizer's flags, and first builds the examples, which
/// some of them run. Not the doc tests, which rustdoc
/// would link without the runtime.
pub(crate) fn sanitized(
    shell: &Shell,
    packages: &[&str],
    options: &[&str],
    harness: &[&str],
) -> Result<()> {
    let common = ["--all-features", "--target", TRIPLE];
    cmd!(
        shell,
        "cargo build --examples {common...} {options...} {packages...}"
    )
    .run()?;
    cmd!(
        shell,
        "cargo test --no-fail-fast --tests {common...} {options...} {packages...} -- {harness...}"
    )
    .run()?;
    Ok(())
}

/// Fails unless a process can be pinned to a core.
pub(crate) fn require_pinning() -> Result<()> {
    let remedy = "apt-get install util-linux";
    require("taskset", &["-c", "0", "true"], remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_that_was_left_out_is_named_once_with_the_command_that_runs_it() {
        assert_eq!(summary("", INCLUDE), "nothing was left out");
        let left_out = "tests on B (b is not set)\ntests on A (a)\ntests on A (a)\n";
        let line = summary(left_out, INCLUDE);
        assert!(
            line.starts_with(
                "left out: tests on A (a), tests on B (b is not set). `cargo xtask ci"
            )
        );
        assert!(!line.contains('\n'));
    }
}
