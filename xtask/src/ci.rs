//! `cargo xtask ci`: all checks that a change must pass, cheapest first.
//!
//! It needs a stable toolchain, a C compiler and the package registry. It prints a line per step
//! and stops at the first that fails.
//!
//! Steps that build in folders of their own or need servers run in a second process at the same time, because
//! tests that sleep, wait for a server or are pinned to one core leave the other cores idle.
//!
//! It installs nothing, and its last line names the stores' tests that were left out. With
//! `CI=true` it fails if a test was left out.

use std::env;
use std::fs::{self, File};
use std::process::{Child, Command};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use xshell::cmd;

use crate::workspace::{Workspace, package};
use crate::{bench, chore, examples, flags, models, packages, shuttle, stores, test};

type Step = (&'static str, fn(&Workspace) -> Result<()>);

/// Output of the separate steps, relative to the target folder.
const LOG: &str = "ci-apart.log";

/// How to run the tests that were left out.
const INCLUDE: &str = "apt-get install postgresql redis-server pgbouncer openssl, then `cargo xtask ci --only stores`";

const STEPS: [Step; 14] = [
    ("format", format),
    ("hygiene", |_| chore(&["hygiene"])),
    ("dependencies", |_| chore(&["deps", "--check"])),
    ("licences", packages::check_rules),
    ("clippy", clippy),
    ("docs", docs),
    ("public interfaces", |_| chore(&["api"])),
    ("each crate alone", each_alone),
    ("tests", |_| chore(&["test", "--all"])),
    ("tests on one core", test::one_core_in_ci),
    ("stack", stack),
    ("examples", examples::smoke),
    ("packages", packages::pack),
    ("random schedules", shuttle::in_ci),
];

/// Steps that build in folders of their own, or start servers: two such steps at a time would stop each other's.
const APART: [Step; 6] = [
    ("clippy of the models", clippy_of_models),
    ("fuzz targets", fuzz_targets),
    ("models", |_| chore(&["loom"])),
    ("benches", bench::check),
    ("stores", stores::in_ci),
    ("two versions", |_| chore(&["versions"])),
];

/// Runs all steps, or those that the flags select.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Ci) -> Result<()> {
    if let Some(only) = &flags.only {
        let steps = STEPS.iter().chain(&APART).copied();
        let steps: Vec<_> = steps.filter(|step| step.0.contains(only)).collect();
        ensure!(!steps.is_empty(), "no step has this name");
        return run_steps(workspace, &steps);
    }
    if flags.apart {
        return run_steps(workspace, &APART);
    }
    let log = workspace.target.join(LOG);
    fs::create_dir_all(&workspace.target)?;
    let output = File::create(&log)?;
    let mut command = Command::new(env::current_exe()?);
    command.args(["ci", "--apart"]).stderr(output.try_clone()?);
    let begin = Instant::now();
    let mut apart = Apart(command.stdout(output).spawn()?);
    run_steps(workspace, &STEPS)?;
    println!("== waiting for the separate steps: {}", log.display());
    let status = apart.0.wait()?;
    print!("{}", fs::read_to_string(&log)?);
    ensure!(status.success(), "a separate step failed");
    let left_out = test::summary(&stores::left_out(workspace)?, INCLUDE);
    let seconds = begin.elapsed().as_secs();
    println!("ci: everything passed, {seconds} s; {left_out}");
    Ok(())
}

/// Kills the process when dropped, if it still runs after a failure of another step.
struct Apart(Child);

impl Drop for Apart {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run_steps(workspace: &Workspace, steps: &[Step]) -> Result<()> {
    let begin = Instant::now();
    let mut times = Vec::new();
    for (name, step) in steps {
        println!("== {name}");
        let step_begin = Instant::now();
        let outcome = step(workspace).with_context(|| format!("step `{name}`"));
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        let seconds = step_begin.elapsed().as_secs_f32();
        times.push(format!("{verdict:<6} {seconds:>6.1} s  {name}"));
        if outcome.is_err() {
            println!("\n{}", times.join("\n"));
            return outcome;
        }
    }
    println!("\n{}", times.join("\n"));
    let count = steps.len();
    let seconds = begin.elapsed().as_secs();
    println!("ci: all {count} steps passed, {seconds} s");
    Ok(())
}

fn format(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    Ok(cmd!(shell, "cargo fmt --all --check").run()?)
}

fn clippy(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    let all = ["--workspace", "--all-targets", "--all-features"];
    Ok(cmd!(shell, "cargo clippy {all...} -- -D warnings").run()?)
}

fn clippy_of_models(workspace: &Workspace) -> Result<()> {
    models::lint(workspace)?;
    shuttle::lint(workspace)
}

fn docs(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    let _flags = shell.push_env("RUSTDOCFLAGS", "-D warnings");
    Ok(cmd!(shell, "cargo doc --workspace --all-features --no-deps").run()?)
}

/// Features of the command-line program: with one store it must not need the others or TLS.
const STORES: [&str; 4] = ["postgres", "redis", "postgres,tls", "redis,tls"];

/// No crate may need a feature that only another crate of the workspace enables. (The step
/// `packages` builds each crate with its default features.)
fn each_alone(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    for folder in workspace.crates()? {
        let name = package(&folder);
        cmd!(shell, "cargo check -p {name} --no-default-features").run()?;
    }
    let name = package("durable-queue-cli");
    for store in STORES {
        cmd!(
            shell,
            "cargo clippy -p {name} --features {store} -- -D warnings"
        )
        .run()?;
    }
    Ok(())
}

/// How far below the top of a worker's stack a task begins, measured in an optimized build.
fn stack(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    let test = ["-p", "pool-core", "--test", "stack"];
    Ok(cmd!(
        shell,
        "cargo test --release {test...} -- --ignored --nocapture"
    )
    .run()?)
}

fn fuzz_targets(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    shell.set_var("CARGO_TARGET_DIR", workspace.target.join("fuzz"));
    // Lints do not link, so the C++ part of libFuzzer and its compiler are not needed.
    let no_fuzzer = workspace.target.join("no-libfuzzer.a");
    shell.set_var("CUSTOM_LIBFUZZER_PATH", no_fuzzer);
    shell.change_dir("fuzz");
    cmd!(shell, "cargo fmt --check").run()?;
    Ok(cmd!(shell, "cargo clippy --all-targets -- -D warnings").run()?)
}
