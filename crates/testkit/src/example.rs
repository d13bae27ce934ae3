//! Examples run as processes: which program that is, and a child that does not outlive its test.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

/// The program of an example, which lies beside the calling test's. Cargo builds it with all tests,
/// but not with `--test NAME` alone: then it may be missing, or older than its source.
///
/// # Panics
/// If so, with how to build it.
pub fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a test knows its own program");
    let profile = this.ancestors().nth(2).expect("it lies in PROFILE/deps");
    let program = profile.join("examples").join(name);
    let how = format!(
        "`cargo build --example {name}` makes it, and so does `cargo test` without `--test`"
    );
    let Ok(built) = fs::metadata(&program).and_then(|metadata| metadata.modified()) else {
        panic!("there is no {}; {how}", program.display());
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

/// The files that cargo's dependency file names, `PROGRAM: SOURCE SOURCE..`.
fn sources(dependencies: &Path) -> Vec<PathBuf> {
    let rule = fs::read_to_string(dependencies).expect("cargo writes it beside the program");
    let (_, sources) = rule.split_once(": ").expect("a rule of make");
    sources
        .replace("\\ ", "\0")
        .split_whitespace()
        .map(|source| source.replace('\0', " ").into())
        .collect()
}

/// A child that is killed if its test fails before it has ended.
#[derive(Debug)]
pub struct Running(pub Child);

impl Running {
    /// Starts `command`, its stderr in a pipe: shared with this process, a child that outlived
    /// it would keep a reader of this process's output waiting.
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

    /// Waits for the end: the exit code, or minus the signal that killed it.
    ///
    /// # Panics
    /// If it is neither.
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

    /// Everything that it writes to stderr.
    ///
    /// # Panics
    /// If that is not UTF-8, or was asked for before.
    pub fn stderr(&mut self) -> String {
        let stderr = self.0.stderr.take().expect("it is read once");
        io::read_to_string(stderr).expect("UTF-8")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended, as it should have.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
