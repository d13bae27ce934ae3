//! `cargo xtask bench`: starts `benches/judge` with the servers that it needs.

use std::ffi::OsString;

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

use crate::stores;
use crate::workspace::Workspace;

/// A separate workspace, so that the peers are not dependencies of the crates.
const MANIFEST: &str = "benches/Cargo.toml";

/// Passes the arguments to the program.
pub(crate) fn run(workspace: &Workspace, arguments: &[OsString]) -> Result<()> {
    let shell = shell(workspace)?;
    let has = |names: &[&str]| {
        arguments
            .iter()
            .any(|it| names.iter().any(|name| it == name))
    };
    if has(&["--charts"]) {
        return charts(&shell, &[]);
    }
    let judge = |shell: &Shell| {
        let command = cmd!(
            shell,
            "cargo run --quiet --manifest-path {MANIFEST} --package judge --"
        );
        Ok(command.args(arguments).run()?)
    };
    if !has(&["--stores", "--slopes", "--smoke"]) {
        return judge(&shell);
    }
    stores::with_servers(workspace, |_, variables| {
        for (variable, url) in variables {
            shell.set_var(variable, url);
        }
        judge(&shell)
    })
}

fn charts(shell: &Shell, options: &[&str]) -> Result<()> {
    let charts = cmd!(
        shell,
        "cargo run --quiet --manifest-path {MANIFEST} --package charts --"
    );
    Ok(charts.args(options).run()?)
}

/// Checks format, lints and tests of the benchmarks, runs everything in them once, and compares the
/// committed charts.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let shell = shell(workspace)?;
    let packages = [
        "anthill-benches",
        "charts",
        "compare",
        "futures-compare",
        "judge",
        "measure",
        "sites",
        "stores",
    ];
    let packages = packages.iter().flat_map(|name| ["--package", name]);
    cmd!(
        shell,
        "cargo fmt --manifest-path {MANIFEST} {packages...} --check"
    )
    .run()?;
    cmd!(
        shell,
        "cargo clippy --manifest-path {MANIFEST} --workspace --all-targets -- -D warnings"
    )
    .run()?;
    cmd!(
        shell,
        "cargo test --quiet --manifest-path {MANIFEST} --package judge --package measure"
    )
    .run()?;
    charts(&shell, &["--check"])?;
    let smoke = ["--profile", "dev", "--benches", "--", "--test"];
    cmd!(
        shell,
        "cargo bench --manifest-path {MANIFEST} --package anthill-benches {smoke...}"
    )
    .run()?;
    run(workspace, &["--smoke".into()])
}

fn shell(workspace: &Workspace) -> Result<Shell> {
    ensure!(
        workspace.root.join(MANIFEST).exists(),
        "{MANIFEST} is missing"
    );
    let shell = workspace.shell()?;
    shell.set_var("CARGO_TARGET_DIR", workspace.target.join("benches"));
    Ok(shell)
}
