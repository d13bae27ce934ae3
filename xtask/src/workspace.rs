//! The tree, its crates and files, and the tools of this machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use xshell::Shell;

/// The tree in which this program was started.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Cargo's target directory for plain builds. Builds with other flags use a folder below it.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Finds the tree through the variables that cargo sets.
    pub(crate) fn locate() -> Result<Self> {
        let xtask = env::var("CARGO_MANIFEST_DIR").context("run this program by `cargo xtask`")?;
        let root = Path::new(&xtask)
            .parent()
            .context("xtask has a parent folder")?;
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        Ok(Self {
            root: root.to_owned(),
            target: root.join(target),
        })
    }

    /// A shell in the root.
    pub(crate) fn shell(&self) -> Result<Shell> {
        let shell = Shell::new()?;
        shell.change_dir(&self.root);
        Ok(shell)
    }

    /// The folders of the library crates, sorted. Their libraries have these names, and so have
    /// most of their [`package`]s.
    pub(crate) fn crates(&self) -> Result<Vec<String>> {
        self.packages_in("crates")
    }

    /// The folders of the library crates that have this test target.
    pub(crate) fn crates_with(&self, test: &str) -> Result<Vec<String>> {
        let mut crates = self.crates()?;
        crates.retain(|name| {
            let tests = self.root.join("crates").join(name).join("tests");
            tests.join(format!("{test}.rs")).exists() || tests.join(test).join("main.rs").exists()
        });
        ensure!(!crates.is_empty(), "no crate has a tests/{test}.rs");
        Ok(crates)
    }

    /// The folders of the examples that are packages, sorted.
    pub(crate) fn examples(&self) -> Result<Vec<String>> {
        self.packages_in("examples")
    }

    /// The folder of the crate or example of this name.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let example = self.root.join("examples").join(name);
        if example.exists() {
            example
        } else {
            self.root.join("crates").join(name)
        }
    }

    fn packages_in(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(folder)).context(folder.to_owned())? {
            let path = entry?.path();
            if path.join("Cargo.toml").exists() {
                names.extend(file_name(&path));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns every source file below `folder` (relative to the root), as sorted paths relative to
    /// the root. Excludes build products and git's own files.
    pub(crate) fn files(&self, folder: &str) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                if !path.is_dir() {
                    found.push(path.strip_prefix(&self.root)?.to_owned());
                } else if !path.ends_with("target") && !path.ends_with(".git") {
                    folders.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns the files below `folder` whose names end like this, with their texts.
    pub(crate) fn texts(&self, folder: &str, end: &str) -> Result<Vec<(String, String)>> {
        let names = self.files(folder)?.into_iter();
        let names = names.map(|path| path.to_string_lossy().into_owned());
        let texts = names.filter(|name| name.ends_with(end));
        texts
            .map(|name| Ok((name.clone(), self.read(name)?)))
            .collect()
    }

    /// Returns the text of a file named relative to the root.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        fs::read_to_string(self.root.join(path)).with_context(|| path.display().to_string())
    }
}

/// The package in the folder `crates/FOLDER`. It has the folder's name, unless the registry has
/// another package of that name.
pub(crate) fn package(folder: &str) -> &str {
    match folder {
        "async-pool" => "anthill-async-pool",
        "delay-queue" => "anthill-delay-queue",
        "durable-queue" => "anthill-durable-queue",
        "durable-queue-cli" => "anthill-durable-queue-cli",
        "durable-queue-postgres" => "anthill-durable-queue-postgres",
        "durable-queue-redis" => "anthill-durable-queue-redis",
        "durable-queue-sqlite" => "anthill-durable-queue-sqlite",
        "durable-queue-testing" => "anthill-durable-queue-testing",
        other => other,
    }
}

/// The last part of a path, if it is text.
pub(crate) fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

/// A missing tool, with a text that says how to install it. Ends the program with exit code 2.
#[derive(Debug)]
pub(crate) struct MissingTool(pub(crate) String);

impl fmt::Display for MissingTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MissingTool {}

/// Whether `program arguments..` can be run and succeeds. Discards its output.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Fails with [`MissingTool`] unless `program arguments..` succeeds.
pub(crate) fn require(program: &str, arguments: &[&str], remedy: &str) -> Result<()> {
    if succeeds(program, arguments) {
        Ok(())
    } else {
        Err(MissingTool(format!("{program} is missing: {remedy}")).into())
    }
}
