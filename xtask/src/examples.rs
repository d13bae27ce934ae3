//! Runs each example once, as a user would: those of the crates, and those that are packages.

use std::env::consts::EXE_EXTENSION;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use xshell::cmd;

use crate::process;
use crate::test::WHOLE;
use crate::workspace::{Workspace, file_name, package};

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
    cmd!(shell, "cargo build {WHOLE...} --bins --examples").run()?;
    for name in workspace.examples()? {
        run(workspace, &name, &name, "debug")?;
    }
    for folder in workspace.crates()? {
        for example in examples(workspace, &folder)? {
            run(workspace, package(&folder), &example, "debug/examples")?;
        }
    }
    Ok(())
}

/// Runs one example, whose program is in this folder of the target directory.
fn run(workspace: &Workspace, package: &str, example: &str, folder: &str) -> Result<()> {
    let program = workspace.target.join(folder).join(example);
    let log = format!("examples/{package}.{example}.log");
    let mut command = Command::new(program.with_extension(EXE_EXTENSION));
    command
        .args(arguments(example))
        .current_dir(&workspace.root);
    let ended = process::run_logged(&mut command, &workspace.target.join(log), Some(LIMIT))?;
    if !ended.success() {
        print!("{}", ended.output);
    }
    ensure!(
        ended.status.is_some(),
        "example {example} of {package} does not end"
    );
    ensure!(ended.success(), "example {example} of {package} failed");
    println!("{:>6.1} s  {package}: {example}", ended.time.as_secs_f32());
    Ok(())
}

/// `examples/NAME.rs` and `examples/NAME/main.rs`.
fn examples(workspace: &Workspace, folder: &str) -> Result<Vec<String>> {
    let folder = format!("crates/{folder}/examples");
    if !workspace.root.join(&folder).exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for path in workspace.files(&folder)? {
        let path = path.strip_prefix(&folder)?;
        let program = match path.components().count() {
            1 => path.with_extension(""),
            2 if path.ends_with("main.rs") => path.with_file_name(""),
            _ => continue,
        };
        names.push(file_name(&program).context("an example's name is text")?);
    }
    Ok(names)
}
