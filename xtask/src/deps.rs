//! `cargo xtask deps`: what each crate stands on, as a page that is checked.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use xshell::cmd;

use crate::workspace::{Workspace, package};

/// Relative to the root.
const DOC: &str = "docs/dependencies.md";
/// Trees differ between platforms; the page shows this one.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const HEAD: &str = "\
# What each crate stands on

Written by `cargo xtask deps` from `cargo tree -e normal`, with default features; `cargo xtask ci`
compares it.
";

/// Writes the page, or compares it.
pub(crate) fn run(workspace: &Workspace, check: bool) -> Result<()> {
    let page = page(workspace)?;
    if check {
        let committed = workspace.read(DOC)?;
        ensure!(
            committed == page,
            "{DOC} is out of date: run `cargo xtask deps`"
        );
        println!("deps: {DOC} is up to date");
    } else {
        fs::write(workspace.root.join(DOC), page).context(DOC)?;
        println!("deps: {DOC} is written");
    }
    Ok(())
}

fn page(workspace: &Workspace) -> Result<String> {
    let shell = workspace.shell()?;
    let mut page = HEAD.to_owned();
    for name in workspace.crates()? {
        let package = package(&name);
        let tree = cmd!(
            shell,
            "cargo tree --edges normal --target {TRIPLE} --package {package}"
        )
        .quiet()
        .read()?;
        let _ = write!(
            page,
            "\n## {name}\n```text\n{}\n```\n",
            without_paths(&tree)
        );
    }
    Ok(page)
}

/// Takes out the folder that cargo prints after a crate of the workspace.
fn without_paths(tree: &str) -> String {
    let lines = tree.lines().map(|line| match line.split_once(" (/") {
        Some((before, path)) => {
            let after = path.split_once(')').map_or("", |(_, after)| after);
            format!("{before}{after}")
        }
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_are_taken_out() {
        let tree = "a v0.1.0 (/x/a)\n├── b v0.1.0 (/x/b) (*)\n└── c v1.0.0 (proc-macro)";
        let expected = "a v0.1.0\n├── b v0.1.0 (*)\n└── c v1.0.0 (proc-macro)";
        assert_eq!(without_paths(tree), expected);
    }
}
