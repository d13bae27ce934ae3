//! Example programs as processes: finds the program, and kills a child that would outlive its test.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

/// Returns the path of the program of an example. Cargo builds it with all tests, but not with
/// `--test NAME` alone: then it may be missing, or older than its source.
///
/// # Panics
/// If it is missing or older. The message says how to build it.
pub fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a test knows its own program");
    let profile = this.ancestors().nth(2).expect("it is in PROFILE/deps");
    let program = profile.join("examples").join(name);
    let how = format!(
        "`cargo build --example {name}` builds it, and so does `cargo test` without `--test`"
    );
    let Ok(built) = fs::metadata(&program).and_then(|metadata| metadata.modified()) else {
        panic!("{} is missing; {how}", program.display());
    };
    for source in sources(&program.with_extension("d")) {
        let changed = fs::metadata(&source).and_then(|metadata| metadata.modified());
        assert!(
            changed.unwrap_or(SystemTime::UNIX_EPOCH) <= built,
            "{} is older than {}; {how}",
            program.display(),
            source.display(),
        );
    }
    program
}

/// The files named by cargo's dependency file, `PROGRAM: SOURCE SOURCE..`.
fn sources(dependencies: &Path) -> Vec<PathBuf> {
    let rule = fs::read_to_string(dependencies).expect("cargo writes it beside the program");
    let (_, sources) = rule.split_once(": ").expect("a rule of make");
    sources
        .replace("\\ ", "\0")
        .split_whitespace()
        .map(|source| source.replace('\0', " ").into())
        .collect()
}

/// Creates an empty folder for a test in `target`, its `CARGO_TARGET_TMPDIR`. Tests that run concurrently need different
/// names.
///
/// # Panics
/// If it cannot be created.
pub fn scratch(target: &str, name: &str) -> PathBuf {
    let folder = Path::new(target).join(format!("{name}-{}", std::process::id()));
    fs::remove_dir_all(&folder).ok(); // Left by a killed run.
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// A child process that is killed if its test fails first.
#[derive(Debug)]
pub struct Running(pub Child);

impl Running {
    /// Starts `command`, with its stderr in a pipe. A child that shared stderr with this process
    /// and outlived it would keep a reader of the output waiting.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(command: &mut Command) -> Self {
        let command = command.stderr(Stdio::piped());
        Self(command.spawn().expect("the program starts"))
    }

    /// Sends `signal` (`INT`, `TERM`).
    ///
    /// # Panics
    /// If there is no `kill`, or it fails.
    pub fn send(&self, signal: &str) {
        let sent = Command::new("kill")
            .args(["-s", signal, &self.0.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
    }

    /// Waits for the end. Returns the exit code, or minus the signal that killed the child.
    ///
    /// # Panics
    /// If there is neither.
    pub fn end(&mut self) -> i32 {
        let status = self.0.wait().expect("a child can be waited for");
        #[cfg(unix)]
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        #[cfg(not(unix))]
        let signal = None::<i32>;
        status
            .code()
            .or(signal.map(|signal| -signal))
            .expect("it exited or was killed")
    }

    /// Returns all output to stderr.
    ///
    /// # Panics
    /// If it is not UTF-8, or was read before.
    pub fn stderr(&mut self) -> String {
        let stderr = self.0.stderr.take().expect("it is read once");
        io::read_to_string(stderr).expect("UTF-8")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if the child has ended, as it should have.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
