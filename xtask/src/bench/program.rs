//! A program which runs one case on one pool in a process of its own: `compare`, and those that compare
//! stores.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use xshell::{Shell, cmd};

use super::plan::{self, Case};
use super::statistics::Better;
use crate::process;
use crate::workspace::Workspace;

/// What a program is built from, and how long its runs may take.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) manifest: &'static str,
    /// Where it is built, below the target directory: workspaces have one each.
    pub(crate) folder: &'static str,
    /// A run that needs this long hangs.
    pub(crate) limit: Duration,
}

/// One figure of one run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Sample {
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) value: f64,
    #[serde(default)]
    pub(crate) better: Better,
}

/// What can run a case; tests have one that needs no process.
pub(crate) trait Runner {
    /// Runs each once, several at the same time. An error is a sentence for the report.
    fn run(&mut self, runs: &[Run<'_>]) -> Vec<Outcome>;
}

/// The figures of a run, or why there are none.
pub(crate) type Outcome = Result<Vec<Sample>, String>;

/// What is to be run once.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) case: &'a str,
    pub(crate) pool: &'a str,
    pub(crate) quick: bool,
    pub(crate) oversubscribed: bool,
}

/// The program, built.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    log: PathBuf,
    limit: Duration,
    variables: Vec<(String, String)>,
}

impl Program {
    /// Builds it. `profile` is cargo's word: `release` or `dev`.
    pub(crate) fn build(
        workspace: &Workspace,
        shell: &Shell,
        package: &Package,
        profile: &str,
    ) -> Result<Self> {
        let Package {
            name,
            manifest,
            folder,
            limit,
        } = *package;
        let target = workspace.target.join(folder);
        let _target = shell.push_env("CARGO_TARGET_DIR", &target);
        cmd!(
            shell,
            "cargo build --manifest-path {manifest} --package {name} --profile {profile}"
        )
        .run()?;
        let folder = if profile == "dev" { "debug" } else { profile };
        Ok(Self {
            path: target.join(folder).join(name),
            log: target.join(name),
            limit,
            variables: Vec::new(),
        })
    }

    /// The cases it knows.
    pub(crate) fn list(&self) -> Result<Vec<Case>> {
        let output = Command::new(&self.path)
            .arg("list")
            .envs(self.variables.clone())
            .output()
            .with_context(|| self.path.display().to_string())?;
        ensure!(
            output.status.success(),
            "`{} list` failed",
            self.path.display()
        );
        plan::cases(&String::from_utf8_lossy(&output.stdout))
    }
}

impl Program {
    /// Runs one. `index` tells apart those that run at the same time.
    pub(crate) fn run_one(&self, index: usize, run: &Run<'_>) -> Outcome {
        let mut command = Command::new(&self.path);
        command.args(arguments(run)).envs(self.variables.clone());
        let log = self.log.with_extension(format!("{index}.log"));
        measured(&mut command, &log, self.limit)
    }

    /// Variables of its environment.
    pub(crate) fn set_variables(&mut self, variables: &[(&str, String)]) {
        let owned = variables.iter();
        let owned = owned.map(|(name, value)| ((*name).to_owned(), value.clone()));
        self.variables = owned.collect();
    }
}

impl Runner for Program {
    fn run(&mut self, runs: &[Run<'_>]) -> Vec<Outcome> {
        at_once(runs, |index, run| self.run_one(index, run))
    }
}

/// Runs all of them at the same time.
pub(crate) fn at_once(
    runs: &[Run<'_>],
    one: impl Fn(usize, &Run<'_>) -> Outcome + Sync,
) -> Vec<Outcome> {
    let one = &one;
    thread::scope(|scope| {
        let runs = runs.iter().enumerate();
        let threads: Vec<_> = runs
            .map(|(index, run)| scope.spawn(move || one(index, run)))
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err("the thread that waited for it has panicked".to_owned()))
        });
        ended.collect()
    })
}

fn arguments<'a>(run: &Run<'a>) -> Vec<&'a str> {
    let mut arguments = vec!["run"];
    if run.oversubscribed {
        arguments.push("--oversubscribed");
    }
    if run.quick {
        arguments.push("--quick");
    }
    arguments.extend([run.case, run.pool]);
    arguments
}

/// Runs the command, which has so long, and reads what it printed.
fn measured(command: &mut Command, log: &Path, limit: Duration) -> Outcome {
    let ended =
        process::run_logged(command, log, Some(limit)).map_err(|error| format!("{error:#}"))?;
    match ended.status {
        None => Err(format!("it was stopped after {} s", limit.as_secs())),
        Some(status) if !status.success() => Err(sentence(&ended.output)
            .map_or_else(|| format!("it ended with {status}"), str::to_owned)),
        Some(_) => samples(&ended.output),
    }
}

/// The lines that are objects; others are remarks.
fn samples(output: &str) -> Result<Vec<Sample>, String> {
    let samples = output
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}")))
        .collect::<Result<Vec<Sample>, String>>()?;
    if samples.is_empty() {
        return Err("it printed no figure".to_owned());
    }
    Ok(samples)
}

/// The last remark. What Rust adds to the message of a panic is none.
fn sentence(output: &str) -> Option<&str> {
    let mut remarks = output.lines().map(str::trim).filter(|line| {
        !line.is_empty() && !line.starts_with('{') && !line.starts_with("note: run with")
    });
    remarks.next_back()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(40);

    /// A script in the place of the program.
    fn scripted(name: &str, script: &str, limit: Duration) -> Result<Vec<Sample>, String> {
        let log = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let samples = measured(Command::new("sh").args(["-c", script]), &log, limit);
        fs::remove_file(&log).expect("the log was written");
        samples
    }

    #[test]
    fn the_program_is_told_all_that_is_asked_for() {
        let mut run = Run {
            case: "a/b",
            pool: "tokio spawn",
            quick: false,
            oversubscribed: false,
        };
        assert_eq!(arguments(&run), ["run", "a/b", "tokio spawn"]);
        run.quick = true;
        run.oversubscribed = true;
        let expected = ["run", "--oversubscribed", "--quick", "a/b", "tokio spawn"];
        assert_eq!(arguments(&run), expected);
    }

    #[test]
    fn figures_are_read_from_the_lines_that_are_objects() {
        let script = r#"
echo "a remark" >&2
echo '{"metric":"wall","unit":"ns/task","value":41.3}'
echo '{"metric":"rate","unit":"1/s","value":2,"better":"higher"}'"#;
        let samples = scripted("figures", script, LIMIT).expect("it succeeds");
        let wall = ("wall", "ns/task", 41.3, Better::Lower);
        let rate = ("rate", "1/s", 2.0, Better::Higher);
        let expected = [wall, rate].map(|(metric, unit, value, better)| Sample {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value,
            better,
        });
        assert_eq!(samples, expected);
    }

    #[test]
    fn a_run_that_fails_gives_its_last_sentence() {
        let script = "echo '{}'; echo 'first' >&2; echo 'no such pool' >&2\n\
                      echo 'note: run with RUST_BACKTRACE=1' >&2; exit 3";
        let error = scripted("sentence", script, LIMIT).expect_err("it fails");
        assert_eq!(error, "no such pool");
        let error = scripted("silent", "exit 3", LIMIT).expect_err("it fails");
        assert_eq!(error, "it ended with exit status: 3");
    }

    #[test]
    fn a_run_that_hangs_is_stopped() {
        let script = "while :; do sleep 1; done";
        let error = scripted("hangs", script, Duration::ZERO).expect_err("it is stopped");
        assert_eq!(error, "it was stopped after 0 s");
    }

    #[test]
    fn a_run_without_a_figure_has_failed() {
        let error = scripted("none", "echo done", LIMIT).expect_err("nothing to report");
        assert_eq!(error, "it printed no figure");
    }
}
