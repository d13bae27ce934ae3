//! `cargo xtask bench`: starts `benches/judge` with the servers that it needs.

use std::ffi::OsString;

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

use crate::stores;
use crate::workspace::Workspace;

/// A separate workspace, so that the peers are not dependencies of the crates.
const MANIFEST: &str = "benches/Cargo.toml";
const IN: [&str; 2] = ["--manifest-path", MANIFEST];
/// One more workspace: some peers need another `SQLite`. Its programs are only run by measurements.
const IN_PEERS: [&str; 2] = ["--manifest-path", "benches/stores-peers/Cargo.toml"];

/// Passes the arguments to the program.
pub(crate) fn run(workspace: &Workspace, arguments: &[OsString]) -> Result<()> {
    let shell = shell(workspace)?;
    let has = |names: &[&str]| {
        arguments
            .iter()
            .any(|it| names.iter().any(|name| it == name))
    };
    if has(&["--charts"]) {
        return program(&shell, "charts", &[]);
    }
    let judge = || program(&shell, "judge", arguments);
    if !has(&["--stores", "--slopes", "--smoke"]) {
        return judge();
    }
    stores::with_servers(workspace, |_, variables| {
        for (variable, url) in variables {
            shell.set_var(variable, url);
        }
        judge()
    })
}

fn program(shell: &Shell, name: &str, arguments: &[OsString]) -> Result<()> {
    let run = cmd!(shell, "cargo run --quiet {IN...} --package {name} --");
    Ok(run.args(arguments).run()?)
}

/// Checks format, lints and tests of the benchmarks, runs everything in them once, and compares the
/// committed charts.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let shell = shell(workspace)?;
    let packages = [
        "anthill-benches",
        "charts",
        "compare",
        "cores",
        "futures-compare",
        "judge",
        "measure",
        "sites",
        "stores",
    ];
    let packages = packages.iter().flat_map(|name| ["--package", name]);
    cmd!(shell, "cargo fmt {IN...} {packages...} --check").run()?;
    let all = ["--workspace", "--all-targets", "--", "-D", "warnings"];
    cmd!(shell, "cargo clippy {IN...} {all...}").run()?;
    cmd!(shell, "cargo fmt {IN_PEERS...} --check").run()?;
    cmd!(shell, "cargo clippy {IN_PEERS...} {all...}").run()?;
    let tested = [
        "--package",
        "cores",
        "--package",
        "judge",
        "--package",
        "measure",
    ];
    cmd!(shell, "cargo test --quiet {IN...} {tested...}").run()?;
    program(&shell, "charts", &["--check".into()])?;
    let smoke = ["--profile", "dev", "--benches", "--", "--test"];
    cmd!(
        shell,
        "cargo bench {IN...} --package anthill-benches {smoke...}"
    )
    .run()?;
    run(workspace, &["--smoke".into()])
}

fn shell(workspace: &Workspace) -> Result<Shell> {
    let exists = workspace.root.join(MANIFEST).exists();
    ensure!(exists, "{MANIFEST} is missing");
    let shell = workspace.shell()?;
    shell.set_var("CARGO_TARGET_DIR", workspace.target.join("benches"));
    Ok(shell)
}
