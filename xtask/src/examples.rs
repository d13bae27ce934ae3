//! Runs each example once, as a user would: those of the crates, and those that are packages.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use xshell::cmd;

use crate::process::{self, Binary};
use crate::test::WHOLE;
use crate::workspace::Workspace;

/// An example that takes longer waits for input or hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// The arguments of an example whose default would take too long in a debug build: without a path,
/// `checksum` reads the whole checkout including build products.
fn arguments(example: &str) -> &'static [&'static str] {
    match example {
        "checksum" => &["--total", "crates", "docs", "README.md"],
        _ => &[],
    }
}

/// Runs all examples, without input.
pub(crate) fn smoke(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    let mut command = cmd!(shell, "cargo build {WHOLE...} --bins --examples").into();
    let examples = workspace.root.join("examples");
    let is_example = |message: &Value| {
        let is_package = message["manifest_path"]
            .as_str()
            .is_some_and(|it| Path::new(it).starts_with(&examples));
        is_package || message["target"]["kind"][0] == "example"
    };
    let programs = process::build(&mut command, is_example)?;
    ensure!(!programs.is_empty(), "there are no examples");
    programs.iter().try_for_each(|it| run(workspace, it))
}

fn run(workspace: &Workspace, Binary { package, path }: &Binary) -> Result<()> {
    let example = path
        .file_stem()
        .context("a program has a name")?
        .to_string_lossy();
    let log = format!("examples/{package}.{example}.log");
    let mut command = Command::new(path);
    command
        .args(arguments(&example))
        .current_dir(&workspace.root);
    let ended = process::run_logged(&mut command, &workspace.target.join(log), Some(LIMIT))?;
    if !ended.success() {
        print!("{}", ended.output);
    }
    let place = format!("example {example} of {package}");
    ensure!(ended.status.is_some(), "{place} does not end");
    ensure!(ended.success(), "{place} failed");
    println!("{:>6.1} s  {package}: {example}", ended.time.as_secs_f32());
    Ok(())
}
