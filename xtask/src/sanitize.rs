//! `cargo xtask sanitize`: runs the tests under a tool that observes each memory access.
//!
//! `xtask/lsan.supp` lists the leaks that tests cause themselves, with reasons.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use xshell::{Shell, cmd};

use crate::flags;
use crate::process;
use crate::test;
use crate::workspace::{MissingTool, Workspace, package, require, succeeds};

/// Runs the tests of one crate, or of all, under the sanitizer.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Sanitize) -> Result<()> {
    let packages = match &flags.package {
        Some(package) => vec![package.clone()],
        None => [workspace.crates()?, workspace.examples()?].concat(),
    };
    let packages = packages.iter().flat_map(|name| ["-p", package(name)]);
    let packages: Vec<_> = packages.collect();
    let shell = workspace.shell()?;
    // Reports contain line numbers.
    let _lines = shell.push_env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
    // Multiplies the limits of the watchdogs.
    let _slowdown = shell.push_env("TESTKIT_SLOWDOWN", "20");
    let tools = flags.tool.as_deref().unwrap_or("asan tsan");
    for tool in tools.split(' ') {
        match tool {
            "asan" => asan(workspace, &shell, &packages)?,
            "tsan" => tsan(workspace, &shell, &packages, flags.install)?,
            "memcheck" => memcheck(workspace, &shell, &packages, flags.install)?,
            _ => bail!("the sanitizers are asan, tsan and memcheck"),
        }
    }
    println!("sanitize: no report of {}", tools.replace(' ', " and "));
    Ok(())
}

fn asan(workspace: &Workspace, shell: &Shell, packages: &[&str]) -> Result<()> {
    let _stable = shell.push_env("RUSTC_BOOTSTRAP", "1");
    let _flags = shell.push_env("RUSTFLAGS", "-Zsanitizer=address");
    // Some tests request more memory than any machine has, to see it refused. A stack overflow ends
    // the process by a signal, as it does without the sanitizer.
    let _options = shell.push_env("ASAN_OPTIONS", "allocator_may_return_null=1:handle_segv=0");
    let suppressions = workspace.root.join("xtask/lsan.supp");
    let suppressions = suppressions.display();
    let suppressions = format!("suppressions={suppressions}:print_suppressions=0");
    let _leaks = shell.push_env("LSAN_OPTIONS", suppressions);
    let _target = shell.push_env("CARGO_TARGET_DIR", workspace.target.join("asan"));
    test::sanitized(shell, packages, &[], &[]).context("AddressSanitizer")
}

/// Tests that fail under the sanitizer: it has a thread of its own, which one test would count, it
/// delays signals during system calls, in which the tests of signals block, and it reports that tokio
/// hands sockets to its driver through the kernel.
const SKIPPED: [&str; 3] = [
    "--skip=the_first_task_starts_the_first_thread",
    "--skip=signals::",
    "--skip=sockets_of_tokio_work_in_workers_that_have_entered_its_runtime",
];

/// Uses an instrumented standard library. Otherwise each of its locks and condition variables would
/// be a false report.
fn tsan(workspace: &Workspace, shell: &Shell, packages: &[&str], install: bool) -> Result<()> {
    let folder = workspace.target.join("tsan-toolchain");
    let rustc = folder.join("rustc");
    if install && !rustc.exists() {
        cmd!(shell, "xtask/tsan-toolchain.sh {folder}").run()?;
    }
    if !rustc.exists() {
        let remedy = "tsan needs a compiler and the source of its library from Debian \
                      (apt-get, 150 MB, unpacked 950): pass --install";
        return Err(MissingTool(remedy.to_owned()).into());
    }
    let _compiler = shell.push_env("RUSTC", rustc);
    let _stable = shell.push_env("RUSTC_BOOTSTRAP", "1");
    let _flags = shell.push_env("RUSTFLAGS", "-Zsanitizer=thread");
    // Some tests request more memory than any machine has, to see it refused. A program that exits
    // on an error joins no threads, which is no race. Forked children of tests start threads.
    let options = "allocator_may_return_null=1:report_thread_leaks=0:die_after_fork=0";
    let _options = shell.push_env("TSAN_OPTIONS", options);
    let _target = shell.push_env("CARGO_TARGET_DIR", workspace.target.join("tsan"));
    test::sanitized(shell, packages, &["-Zbuild-std"], &SKIPPED).context("ThreadSanitizer")
}

fn memcheck(workspace: &Workspace, shell: &Shell, packages: &[&str], install: bool) -> Result<()> {
    if install && !succeeds("valgrind", &["--version"]) {
        cmd!(shell, "apt-get install -y --no-install-recommends valgrind").run()?;
    }
    let remedy = "apt-get install valgrind (or pass --install)";
    require("valgrind", &["--version"], remedy)?;
    let tests = ["--release", "--all-features", "--tests", "--no-run"];
    let mut command: Command = cmd!(shell, "cargo test {tests...} {packages...}").into();
    command.env("CARGO_TARGET_DIR", workspace.target.join("memcheck"));
    let binaries = process::build_tests(&mut command)?;
    ensure!(!binaries.is_empty(), "nothing to run");
    for binary in binaries {
        let path = binary.path;
        // The working directory of `cargo test`, because tests may read files of their crate.
        let _folder = shell.push_dir(workspace.folder(&binary.package));
        let options = [
            "--error-exitcode=9",
            "--fair-sched=yes",
            "--leak-check=full",
        ];
        let tests = cmd!(
            shell,
            "valgrind --quiet {options...} {path} --test-threads=1"
        );
        tests
            .run()
            .with_context(|| format!("memcheck in {}", binary.package))?;
    }
    Ok(())
}
