//! `cargo xtask ci`: everything a change must pass, cheapest first.
//!
//! It needs a stable toolchain, a C compiler and the package registry. It ends with a line per step
//! and stops at the first that fails.
//!
//! It installs nothing, and its last line names the stores' tests that were left out. With `CI=true` it fails if a test was
//! left out.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use xshell::cmd;

use crate::workspace::{Workspace, package};
use crate::{
    api, bench, deps, examples, flags, hygiene, loom, models, packages, shuttle, stores, test,
    versions,
};

type Step = (&'static str, fn(&Workspace) -> Result<()>);

const SUITES_OF_STORES: &str = "stores";
/// How to run the tests that were left out.
const INCLUDE: &str = "apt-get install postgresql redis-server pgbouncer openssl, then `cargo xtask ci --only stores`";

const STEPS: [Step; 20] = [
    ("format", format),
    ("hygiene", |workspace| hygiene::run(workspace, false)),
    ("dependencies", |workspace| deps::run(workspace, true)),
    ("licences", packages::check_rules),
    ("clippy", clippy),
    ("clippy of the models", clippy_of_models),
    ("docs", docs),
    ("public interfaces", |workspace| api::run(workspace, false)),
    ("each crate alone", each_alone),
    ("packages", packages::pack),
    ("tests", |workspace| test::run(workspace, true, false)),
    ("tests on one core", test::one_core_in_ci),
    ("stack", stack),
    (SUITES_OF_STORES, stores::in_ci),
    ("two versions", versions::in_ci),
    ("models", all_models),
    ("random schedules", shuttle::in_ci),
    ("examples", examples::smoke),
    ("benches", bench::check),
    ("fuzz targets", fuzz_targets),
];

/// Runs the steps, or those whose name contains `only`.
pub(crate) fn run(workspace: &Workspace, only: Option<&str>) -> Result<()> {
    let wanted = |step: &&Step| only.is_none_or(|only| step.0.contains(only));
    let steps: Vec<&Step> = STEPS.iter().filter(wanted).collect();
    ensure!(!steps.is_empty(), "no step has such a name");

    let begin = Instant::now();
    let mut times = Vec::new();
    for (name, step) in &steps {
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
    let mut left_out = String::new();
    if steps.iter().any(|(name, _)| *name == SUITES_OF_STORES) {
        left_out = format!(
            "; {}",
            test::summary(&stores::left_out(workspace)?, INCLUDE)
        );
    }
    println!("ci: all {count} steps passed, {seconds} s{left_out}");
    Ok(())
}

fn format(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    Ok(cmd!(shell, "cargo fmt --all --check").run()?)
}

fn clippy(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    Ok(cmd!(
        shell,
        "cargo clippy --workspace --all-targets --all-features -- -D warnings"
    )
    .run()?)
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

/// Features of the program of durable queues: with one store it need not have the others, nor TLS.
const STORES: [&str; 4] = ["postgres", "redis", "postgres,tls", "redis,tls"];

/// Features that another crate of the workspace switches on must not be needed. (The step `packages` builds each crate with its
/// default features.)
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

/// How deep below the top of a worker's stack a task begins, which only an optimized build shows.
fn stack(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    Ok(cmd!(
        shell,
        "cargo test --release -p pool-core --test stack -- --ignored --nocapture"
    )
    .run()?)
}

fn all_models(workspace: &Workspace) -> Result<()> {
    let flags = flags::Loom {
        bound: None,
        only: None,
        update: false,
    };
    loom::run(workspace, &flags)
}

fn fuzz_targets(workspace: &Workspace) -> Result<()> {
    const MANIFEST: &str = "fuzz/Cargo.toml";
    let shell = workspace.shell()?;
    shell.set_var("CARGO_TARGET_DIR", workspace.target.join("fuzz"));
    // Lints link nothing, so the C++ half of libFuzzer, and a compiler for it, are not needed.
    shell.set_var(
        "CUSTOM_LIBFUZZER_PATH",
        workspace.target.join("no-libfuzzer.a"),
    );
    cmd!(shell, "cargo fmt --manifest-path {MANIFEST} --check").run()?;
    Ok(cmd!(
        shell,
        "cargo clippy --manifest-path {MANIFEST} --all-targets -- -D warnings"
    )
    .run()?)
}
