//! Processes with a time limit, and the test binaries that cargo has built.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use wait_timeout::ChildExt as _;

use crate::workspace::{file_name, package};

/// The end of a process.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None`: it exceeded its limit and was killed.
    pub(crate) status: Option<ExitStatus>,
    /// Its output on both streams, in order.
    pub(crate) output: String,
    /// Its duration.
    pub(crate) time: Duration,
}

impl Ended {
    /// A process with this output and the exit status of the program.
    #[cfg(test)]
    pub(crate) fn of(program: &str, output: &str) -> Self {
        let status = Command::new(program).status();
        Self {
            status: Some(status.expect("it is on every Unix")),
            output: output.to_owned(),
            time: Duration::ZERO,
        }
    }

    /// Whether it ended by itself with success.
    pub(crate) fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs `command` without input for at most `limit`, with both streams written to the file `log`.
pub(crate) fn run_logged(
    command: &mut Command,
    log: &Path,
    limit: Option<Duration>,
) -> Result<Ended> {
    fs::create_dir_all(log.parent().context("a log has a folder")?)?;
    let file = File::create(log)?;
    let begin = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("{} does not start", command.get_program().display()))?;
    let status = match limit {
        None => Some(child.wait()?),
        Some(limit) => child.wait_timeout(limit)?,
    };
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(Ended {
        status,
        output: String::from_utf8_lossy(&fs::read(log)?).into_owned(),
        time: begin.elapsed(),
    })
}

/// A test or program that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binary {
    /// The folder of its crate, which has the crate's name.
    pub(crate) package: String,
    /// The path of the binary.
    pub(crate) path: PathBuf,
}

/// A quiet cargo command for these crates of the tree at `root`.
pub(crate) fn cargo<'a>(
    subcommand: &str,
    root: &Path,
    target: &Path,
    crates: impl IntoIterator<Item = &'a String>,
) -> Command {
    let mut command = Command::new("cargo");
    command
        .args([subcommand, "--quiet"])
        .args(crates.into_iter().flat_map(|name| ["-p", package(name)]))
        .current_dir(root)
        .env("CARGO_TARGET_DIR", target)
        // It would replace RUSTFLAGS.
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    command
}

/// Runs a `cargo test --no-run` command and returns the binaries.
pub(crate) fn build_tests(command: &mut Command) -> Result<Vec<Binary>> {
    build(command, is_test)
}

/// The messages are also about the programs that the tests run.
fn is_test(message: &Value) -> bool {
    message["profile"]["test"] == true
}

/// Runs a command of cargo that builds, and returns the binaries whose messages are `wanted`.
pub(crate) fn build(command: &mut Command, wanted: impl Fn(&Value) -> bool) -> Result<Vec<Binary>> {
    let output = command
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    ensure!(output.status.success(), "the build failed");
    Ok(binaries(&String::from_utf8_lossy(&output.stdout), wanted))
}

/// A test function.
#[derive(Debug, Clone)]
pub(crate) struct Test {
    /// The binary that contains it.
    pub(crate) binary: Binary,
    /// Its path within the binary.
    pub(crate) test: String,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.binary.package, self.test)
    }
}

/// Lists the tests in these binaries.
pub(crate) fn list_tests(binaries: Vec<Binary>) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for binary in binaries {
        let output = Command::new(&binary.path)
            .args(["--list", "--format", "terse"])
            .output()
            .with_context(|| binary.path.display().to_string())?;
        ensure!(output.status.success(), "{} --list", binary.path.display());
        let list = String::from_utf8_lossy(&output.stdout);
        let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
        tests.extend(names.map(|test| Test {
            binary: binary.clone(),
            test: test.to_owned(),
        }));
    }
    Ok(tests)
}

impl Test {
    /// A command that runs only this test.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.binary.path);
        command.args(["--exact", &self.test, "--nocapture", "--test-threads=1"]);
        command
    }

    /// The file for its output.
    pub(crate) fn log(&self, logs: &Path) -> PathBuf {
        logs.join(format!("{self}.log").replace("::", "."))
    }
}

/// The binaries in cargo's messages, one JSON object per line.
fn binaries(messages: &str, wanted: impl Fn(&Value) -> bool) -> Vec<Binary> {
    let binaries = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        let binary = Binary {
            package: file_name(folder)?,
            path: message["executable"].as_str()?.into(),
        };
        wanted(&message).then_some(binary)
    });
    binaries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_with_a_test_executable_are_test_binaries() {
        let message = |name: &str, executable: &str, test: bool| {
            format!(
                r#"{{"manifest_path":"/w/{name}/Cargo.toml","executable":{executable},"profile":{{"test":{test}}}}}"#
            )
        };
        let messages = [
            message("a", "null", true),
            message("b", "\"/t/b\"", false),
            message("b", "\"/t/b-1\"", true),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let expected = Binary {
            package: "b".to_owned(),
            path: "/t/b-1".into(),
        };
        assert_eq!(binaries(&messages.join("\n"), is_test), [expected]);
    }

    #[test]
    fn a_process_past_its_limit_is_killed() {
        let log = std::env::temp_dir().join(format!("xtask-process-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do sleep 1; done"]);
        let ended = run_logged(&mut command, &log, Some(Duration::ZERO)).expect("sh starts");
        fs::remove_file(&log).expect("the log was written");
        assert!(ended.status.is_none());
        assert!(!ended.success());
    }
}
