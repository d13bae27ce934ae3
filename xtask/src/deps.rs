//! `cargo xtask deps`: the dependencies of each crate, as a page that is checked, and the number of
//! packages that a crate adds to its users' lock files.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use xshell::cmd;

use crate::packages;
use crate::workspace::{Workspace, package};

/// Relative to the root.
const DOC: &str = "docs/dependencies.md";
/// Trees differ between platforms. The page shows this platform.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const HEAD: &str = "\
# What each crate stands on

Written by `cargo xtask deps` from `cargo tree -e normal`, with default features; `cargo xtask ci`
compares it. \"Packages in a lock file\" counts what a crate brings into the lock file of its user, itself
included; a lock file covers all platforms.
";
/// The maximum number of packages that a crate may add to a lock file, including itself.
const MOST: [(&str, usize); 1] = [("pool-core", 16)];

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
    for name in packages::libraries(workspace)? {
        let package = package(&name);
        let tree = cmd!(
            shell,
            "cargo tree --edges normal --target {TRIPLE} --package {package}"
        )
        .quiet()
        .read()?;
        let _ = write!(
            page,
            "\n## {name}\nPackages in a lock file: {}.\n```text\n{}\n```\n",
            locked_packages(workspace, &name)?,
            without_paths(&tree)
        );
    }
    Ok(page)
}

/// Returns the crates that add too many packages to a lock file.
pub(crate) fn too_many(workspace: &Workspace) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for (name, most) in MOST {
        let count = locked_packages(workspace, name)?;
        if count > most {
            offences.push(format!(
                "crates/{name}: adds {count} packages to the lock file of a user, more than {most}"
            ));
        }
    }
    Ok(offences)
}

/// Counts the packages in the lock file of a crate that depends only on `name`. Versions are those
/// of this workspace.
fn locked_packages(workspace: &Workspace, name: &str) -> Result<usize> {
    let folder = workspace.target.join("lock").join(name);
    let (package, crates) = (package(name), workspace.root.join("crates"));
    let path = crates.join(name).display().to_string();
    let manifest = format!(
        "[package]\nname = \"user\"\nedition = \"2024\"\n[dependencies]\n{package} = {{ path = {path:?} }}\n[workspace]\n"
    );
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/lib.rs"), "")?;
    // Cargo removes unneeded packages from the copy.
    fs::copy(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let shell = workspace.shell()?;
    shell.change_dir(&folder);
    cmd!(shell, "cargo metadata --format-version 1")
        .quiet()
        .ignore_stdout()
        .run()?;
    let lock = fs::read_to_string(folder.join("Cargo.lock"))?;
    // Minus the dependent crate itself.
    Ok(lock.matches("[[package]]").count() - 1)
}

/// Removes the folder that cargo prints after a crate of the workspace.
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
    fn only_path_dependencies_are_removed() {
        let tree = "a v0.1.0 (/x/a)\n├── b v0.1.0 (/x/b) (*)\n└── c v1.0.0 (proc-macro)";
        let expected = "a v0.1.0\n├── b v0.1.0 (*)\n└── c v1.0.0 (proc-macro)";
        assert_eq!(without_paths(tree), expected);
    }
}
