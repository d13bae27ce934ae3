//! `cargo xtask test`: every test and doc test, with all features.

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::workspace::{Workspace, require};

/// The runtimes of the sanitizers are there for this one.
pub(crate) const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Runs the tests, pinned to the first core if `one_core`.
pub(crate) fn run(workspace: &Workspace, one_core: bool) -> Result<()> {
    if one_core {
        require_pinning()?;
    }
    let shell = workspace.shell()?;
    build(&shell)?;
    pass(&shell, one_core)?;
    let place = if one_core { " on one core" } else { "" };
    println!("test: all passed{place}");
    Ok(())
}

/// What is built, also where one package's tests or examples are run: alone it would have its
/// dependencies with other features, and these be built again.
pub(crate) const WHOLE: [&str; 2] = ["--workspace", "--all-features"];

/// Builds the tests. Apart from running them, because compiling on one core only costs time.
pub(crate) fn build(shell: &Shell) -> Result<()> {
    cmd!(shell, "cargo test {WHOLE...} --no-run").run()?;
    Ok(())
}

/// Runs the tests once.
pub(crate) fn pass(shell: &Shell, one_core: bool) -> Result<()> {
    let test = ["test", "--quiet"];
    if one_core {
        // Without the doc tests: to compile them takes most of the time, and they have no threads
        // that more cores would part.
        cmd!(shell, "taskset -c 0 cargo {test...} {WHOLE...} --tests").run()?;
    } else {
        cmd!(shell, "cargo {test...} {WHOLE...}").run()?;
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
