//! `cargo xtask fuzz`: the targets of fuzz/, each for some time.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::flags;
use crate::workspace::{MissingTool, Workspace, succeeds};

const MANIFEST: &str = "fuzz/Cargo.toml";
const SECONDS: u64 = 60;

/// Runs the targets.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Fuzz) -> Result<()> {
    let targets = targets(workspace, flags.target.as_deref())?;
    let shell = shell(workspace)?;
    let installed = || succeeds("cargo", &["fuzz", "--version"]);
    if flags.install && !installed() {
        cmd!(shell, "cargo install --locked cargo-fuzz").run()?;
    }
    if !installed() {
        let remedy = "cargo-fuzz is missing: cargo install --locked cargo-fuzz (or pass --install)";
        return Err(MissingTool(remedy.to_owned()).into());
    }

    // The flags of the sanitizer are unstable: a nightly has them, and so has a stable compiler
    // with `RUSTC_BOOTSTRAP`.
    let nightly: &[&str] = if succeeds("cargo", &["+nightly", "--version"]) {
        &["+nightly"]
    } else {
        shell.set_var("RUSTC_BOOTSTRAP", "1");
        &[]
    };
    let begin = Instant::now();
    let seconds = flags.seconds.unwrap_or(SECONDS);
    let time = format!("-max_total_time={seconds}");
    for target in &targets {
        cmd!(
            shell,
            "cargo {nightly...} fuzz run {target} -- {time} -rss_limit_mb=4096 -timeout=10"
        )
        .run()
        .with_context(|| format!("fuzz target {target}"))?;
    }
    println!(
        "fuzz: {} targets ({}), {seconds} s each, {:.0} s in all, nothing found",
        targets.len(),
        targets.join(", "),
        begin.elapsed().as_secs_f32()
    );
    Ok(())
}

/// Checks format and lints of the targets.
pub(crate) fn lint(workspace: &Workspace) -> Result<()> {
    let shell = shell(workspace)?;
    // Lints link nothing, so the C++ half of libFuzzer, and a compiler for it, are not needed.
    shell.set_var(
        "CUSTOM_LIBFUZZER_PATH",
        workspace.target.join("no-libfuzzer.a"),
    );
    cmd!(shell, "cargo fmt --manifest-path {MANIFEST} --check").run()?;
    cmd!(
        shell,
        "cargo clippy --manifest-path {MANIFEST} --all-targets -- -D warnings"
    )
    .run()?;
    Ok(())
}

fn shell(workspace: &Workspace) -> Result<Shell> {
    ensure!(
        workspace.root.join(MANIFEST).exists(),
        "{MANIFEST} is missing"
    );
    let shell = workspace.shell()?;
    shell.set_var("CARGO_TARGET_DIR", workspace.target.join("fuzz"));
    Ok(shell)
}

fn targets(workspace: &Workspace, only: Option<&str>) -> Result<Vec<String>> {
    let mut targets = Vec::new();
    for path in workspace.files("fuzz/fuzz_targets")? {
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        if is_source && only.is_none_or(|only| only == name) {
            targets.push(name.to_owned());
        }
    }
    ensure!(!targets.is_empty(), "no such target in fuzz/fuzz_targets");
    Ok(targets)
}
