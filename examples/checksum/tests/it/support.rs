//! Runs the example and `sha256sum`, and creates their files.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub(crate) use testkit::Running;

/// SHA-256 of nothing.
pub(crate) const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// SHA-256 of `abc`.
pub(crate) const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// A directory for one test, removed at its end.
pub(crate) struct Tree(PathBuf);

impl Tree {
    /// Creates an empty one. Tests that run concurrently need different names.
    pub(crate) fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("checksum-{name}-{}", std::process::id()));
        // A killed run may have left one under the same process id.
        fs::remove_dir_all(&root).ok();
        fs::create_dir(&root).expect("a directory can be made");
        Self(root)
    }

    pub(crate) fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.join(name.as_ref())
    }

    pub(crate) fn dir(&self, name: &str) {
        fs::create_dir(self.path(name)).expect("a directory can be made");
    }

    pub(crate) fn file(&self, name: impl AsRef<OsStr>, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).expect("a file can be written");
    }

    pub(crate) fn link(&self, name: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).expect("a link can be made");
    }

    pub(crate) fn fifo(&self, name: &str) {
        let made = Command::new("mkfifo").arg(self.path(name)).status();
        assert!(made.expect("mkfifo runs").success());
    }

    /// A command that runs `checksum` in this directory.
    pub(crate) fn checksum<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        self.command(Path::new(env!("CARGO_BIN_EXE_checksum")), args)
    }

    /// Runs `checksum` here to its end.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        output(&mut self.checksum(args))
    }

    /// A command that runs `sha256sum` in this directory. `None`, with a message, if the machine
    /// has no version with specified output: other tools and older versions escape names
    /// differently.
    pub(crate) fn sha256sum<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Option<Command> {
        let version = Command::new("sha256sum").arg("--version").output();
        let version = version.map_or_else(|_| Vec::new(), |output| output.stdout);
        let major = String::from_utf8_lossy(&version)
            .strip_prefix("sha256sum (GNU coreutils) ")
            .and_then(|rest| rest.split('.').next()?.parse().ok())
            .unwrap_or(0);
        if major < 9 {
            eprintln!("no GNU sha256sum of version 9 or later here: nothing is compared with it");
            return None;
        }
        Some(self.command(Path::new("sha256sum"), args))
    }

    fn command<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.0);
        command.env("LC_ALL", "C").stdin(Stdio::null());
        command
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A remaining directory is harmless, and a second panic would hide the first.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Runs `command` to its end, and captures its output.
pub(crate) fn output(command: &mut Command) -> Output {
    command.output().expect("the program runs")
}

/// Returns the names in the lines of `stdout`, in order.
pub(crate) fn names(stdout: &[u8]) -> Vec<String> {
    text(stdout)
        .lines()
        .map(|line| line.split_once("  ").expect("HEX  NAME").1.to_owned())
        .collect()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("UTF-8")
}

pub(crate) fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// Asserts that a run has read everything without messages.
#[track_caller]
pub(crate) fn assert_clean(run: &Output) {
    assert_eq!(String::from_utf8_lossy(&run.stderr), "");
    assert_eq!(run.status.code(), Some(0));
}

/// Asserts that `sha256sum -c` accepts every line of `stdout`.
#[track_caller]
pub(crate) fn assert_verifies(tree: &Tree, stdout: &[u8]) {
    tree.file("SUMS", stdout);
    if let Some(mut check) = tree.sha256sum(["-c", "--strict", "--quiet", "SUMS"]) {
        let check = output(&mut check);
        assert!(check.status.success(), "{check:?}");
    }
}
