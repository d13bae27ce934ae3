//! A copy of the tree in which mutants are tried, so that the tree itself is never changed.
//!
//! The copy is kept between runs, and only differing files are written: cargo compares modification
//! times, so it rebuilds only the crates that a mutant has changed.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::list::Mutant;
use crate::workspace::Workspace;

/// Separate workspaces, which no model or test needs.
const LEFT_OUT: [&str; 2] = ["benches", "fuzz"];

/// A copy of the tree.
#[derive(Debug)]
pub(crate) struct Copy {
    /// The root of the copy.
    pub(crate) tree: PathBuf,
    /// The target directory of the copy.
    pub(crate) target: PathBuf,
    /// The folder of the output of models and tests.
    pub(crate) logs: PathBuf,
}

impl Copy {
    /// Creates or updates the copy with this number.
    pub(crate) fn make(workspace: &Workspace, number: usize) -> Result<Self> {
        let folder = workspace.target.join("cmutants").join(number.to_string());
        let copy = Self {
            tree: folder.join("tree"),
            target: folder.join("target"),
            logs: folder.join("logs"),
        };
        fs::create_dir_all(&copy.tree)?;
        let mut files = workspace.files("")?;
        files.retain(|file| !LEFT_OUT.iter().any(|folder| file.starts_with(folder)));
        let files = HashSet::<_>::from_iter(files);
        for file in &files {
            let content = fs::read(workspace.root.join(file))?;
            write_if_changed(&copy.tree.join(file), &content)?;
        }
        let there = Workspace {
            root: copy.tree.clone(),
            target: copy.target.clone(),
        };
        for file in there.files("")? {
            if !files.contains(&file) {
                fs::remove_file(copy.tree.join(file))?;
            }
        }
        Ok(copy)
    }

    /// Applies a mutant. The drop of the result reverts it.
    pub(crate) fn mutate(&self, mutant: &Mutant) -> Result<Mutated> {
        let file = self.tree.join(&mutant.file);
        let sound = fs::read_to_string(&file).with_context(|| mutant.file.clone())?;
        fs::write(&file, mutant.apply(&sound)?)?;
        Ok(Mutated { file, sound })
    }
}

/// A changed file, which is restored when this is dropped.
#[derive(Debug)]
pub(crate) struct Mutated {
    file: PathBuf,
    sound: String,
}

impl Drop for Mutated {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.file, &self.sound) {
            // The next `Copy::make` restores it.
            eprintln!("warning: {} stays mutated: {error}", self.file.display());
        }
    }
}

/// Keeps the modification time of unchanged files, so that cargo rebuilds only changed ones.
pub(crate) fn write_if_changed(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    fs::write(path, content).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_follows_the_tree_and_a_mutant_leaves_no_trace() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("xtask-copy-{}", std::process::id()));
        let workspace = Workspace {
            root: folder.clone(),
            target: folder.join("target"),
        };
        let file = "crates/x/src/lib.rs";
        write_if_changed(&folder.join(file), b"one();")?;
        write_if_changed(&folder.join("old.rs"), b"")?;
        let copy = Copy::make(&workspace, 0)?;
        assert!(copy.tree.join("old.rs").exists());

        fs::remove_file(folder.join("old.rs"))?;
        let copy = Copy::make(&workspace, 0)?;
        assert!(!copy.tree.join("old.rs").exists());

        let [file_name, find, replace] = [file, "one", "all"].map(str::to_owned);
        let mutant = Mutant {
            file: file_name,
            find,
            replace,
            ..Mutant::default()
        };
        let mutated = copy.mutate(&mutant)?;
        assert_eq!(fs::read(copy.tree.join(file))?, b"all();");
        assert_eq!(fs::read(folder.join(file))?, b"one();");
        drop(mutated);
        assert_eq!(fs::read(copy.tree.join(file))?, b"one();");
        fs::remove_dir_all(folder)?;
        Ok(())
    }
}
