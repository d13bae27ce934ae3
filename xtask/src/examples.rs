//! The examples of the crates, each run once as a user would run it.

use std::env::consts::EXE_SUFFIX;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use xshell::cmd;

use crate::process;
use crate::test::WHOLE;
use crate::workspace::{Workspace, file_name, package};

/// An example that takes longer waits for input, or hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// What an example is given, where its default would be too much in a debug build: `checksum`
/// without a path reads the whole checkout, what was built included.
fn arguments(example: &str) -> &'static [&'static str] {
    match example {
        "checksum" => &["crates", "docs", "README.md"],
        _ => &[],
    }
}

/// Runs all examples, without input.
pub(crate) fn smoke(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    cmd!(shell, "cargo build {WHOLE...} --examples").run()?;
    for folder in workspace.crates()? {
        let package = package(&folder);
        for example in examples(workspace, &folder)? {
            let program = format!("debug/examples/{example}{EXE_SUFFIX}");
            let log = workspace
                .target
                .join("examples")
                .join(format!("{package}.{example}.log"));
            let mut run = Command::new(workspace.target.join(program));
            run.args(arguments(&example)).current_dir(&workspace.root);
            let ended = process::run_logged(&mut run, &log, Some(LIMIT))?;
            if !ended.success() {
                print!("{}", ended.output);
            }
            ensure!(
                ended.status.is_some(),
                "example {example} of {package} does not end"
            );
            ensure!(ended.success(), "example {example} of {package} failed");
            println!("{:>6.1} s  {package}: {example}", ended.time.as_secs_f32());
        }
    }
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
        let depth = path.components().count();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let name = match depth {
            1 => path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .map(str::to_owned),
            2 if path.ends_with("main.rs") => path.parent().and_then(file_name),
            _ => continue,
        };
        names.push(name.context("an example's name is text")?);
    }
    Ok(names)
}
