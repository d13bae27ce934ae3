//! Programs that run one case on one pool in their own process: `compare`, `stores`,
//! `stores-peers`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use measure::report::Metric;
use wait_timeout::ChildExt as _;
use xshell::{Shell, cmd};

use crate::plan::{self, Case};

/// The package of a program, and the time limit of a run.
#[derive(Debug)]
pub struct Package {
    pub name: &'static str,
    pub manifest: &'static str,
    /// The build folder below the target directory, one per workspace.
    pub folder: &'static str,
    pub limit: Duration,
}

/// The figures of a run, or the reason why there are none.
pub type Outcome = Result<Vec<Metric>, String>;

#[derive(Debug)]
pub struct Run<'a> {
    pub case: &'a str,
    pub pool: &'a str,
    pub quick: bool,
    pub oversubscribed: bool,
}

/// A built program, and its pools.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    log: PathBuf,
    limit: Duration,
    pools: BTreeSet<String>,
}

impl Program {
    /// Builds it with a profile of cargo, `release` or `dev`.
    pub fn build(shell: &Shell, package: &Package, profile: &str) -> Result<Self> {
        let Package {
            name,
            manifest,
            folder,
            limit,
        } = *package;
        let benches = PathBuf::from(shell.var("CARGO_TARGET_DIR")?);
        let target = benches.with_file_name(folder);
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
            pools: BTreeSet::new(),
        })
    }

    /// Lists its cases.
    pub fn list(&mut self) -> Result<Vec<Case>> {
        let output = Command::new(&self.path)
            .arg("list")
            .output()
            .with_context(|| self.path.display().to_string())?;
        ensure!(output.status.success(), "`{} list`", self.path.display());
        let cases = plan::cases(&String::from_utf8_lossy(&output.stdout))?;
        self.pools = cases.iter().flat_map(|case| case.pools.clone()).collect();
        Ok(cases)
    }

    fn run(&self, index: usize, run: &Run<'_>) -> Outcome {
        let mut command = Command::new(&self.path);
        command.args(arguments(run));
        // Runs at the same time have separate logs.
        let log = self.log.with_extension(format!("{index}.log"));
        measured(&mut command, &log, self.limit)
    }
}

/// Makes all runs at the same time, each with the program that has its pool.
pub fn run_all(programs: &[Program], runs: &[Run<'_>]) -> Vec<Outcome> {
    thread::scope(|scope| {
        let threads = runs.iter().enumerate().map(|(index, run)| {
            let program = programs.iter().find(|it| it.pools.contains(run.pool));
            scope.spawn(move || match program {
                Some(program) => program.run(index, run),
                None => Err("no program has this pool".to_owned()),
            })
        });
        let threads: Vec<_> = threads.collect();
        let panicked = |_| Err("the thread that waited for the run has panicked".to_owned());
        let ended = threads.into_iter();
        ended
            .map(|thread| thread.join().unwrap_or_else(panicked))
            .collect()
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

/// Runs the command, with both of its streams written to the file `log`.
fn measured(command: &mut Command, log: &Path, limit: Duration) -> Outcome {
    let (status, output) = logged(command, log, limit).map_err(|error| format!("{error:#}"))?;
    match status {
        None => Err(format!("stopped after {} s", limit.as_secs())),
        Some(status) if !status.success() => {
            Err(last_remark(&output).map_or_else(|| format!("ended with {status}"), str::to_owned))
        }
        Some(_) => samples(&output),
    }
}

fn logged(
    command: &mut Command,
    log: &Path,
    limit: Duration,
) -> Result<(Option<ExitStatus>, String)> {
    let file = File::create(log)?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let mut child = command.spawn()?;
    let status = child.wait_timeout(limit)?;
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok((status, fs::read_to_string(log)?))
}

/// Parses the lines that are objects; other lines are messages.
fn samples(output: &str) -> Outcome {
    let lines = output.lines().filter(|line| line.starts_with('{'));
    let read = |line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"));
    let samples: Vec<Metric> = lines.map(read).collect::<Result<_, _>>()?;
    if samples.is_empty() {
        return Err("printed no figure".to_owned());
    }
    Ok(samples)
}

/// Returns the last message, without the text that Rust adds to a panic.
fn last_remark(output: &str) -> Option<&str> {
    let mut remarks = output.lines().map(str::trim).filter(|line| {
        !line.is_empty() && !line.starts_with('{') && !line.starts_with("note: run with")
    });
    remarks.next_back()
}

#[cfg(test)]
mod tests {
    use measure::report::Better;

    use super::*;

    /// A script in place of the program.
    fn scripted(name: &str, script: &str, limit: u64) -> Outcome {
        let log = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let mut command = Command::new("sh");
        let limit = Duration::from_secs(limit);
        let samples = measured(command.args(["-c", script]), &log, limit);
        fs::remove_file(&log).expect("the log was written");
        samples
    }

    #[test]
    fn the_program_gets_all_arguments() {
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
    fn figures_are_parsed_from_lines_that_are_objects() {
        let script = r#"
echo "a remark" >&2
echo '{"metric":"wall","unit":"ns/task","value":41.3}'
echo '{"metric":"rate","unit":"1/s","value":2,"better":"higher"}'"#;
        let samples = scripted("figures", script, 40).expect("it succeeds");
        let wall = ("wall", "ns/task", 41.3, Better::Lower);
        let rate = ("rate", "1/s", 2.0, Better::Higher);
        let expected = [wall, rate].map(|(name, unit, value, better)| Metric {
            name: name.into(),
            unit: unit.into(),
            value,
            better,
        });
        assert_eq!(samples, expected);
    }

    #[test]
    fn a_run_that_fails_hangs_or_prints_no_figure_is_an_error() {
        let panics = "echo '{}'; echo 'first' >&2; echo 'no such pool' >&2\n\
                      echo 'note: run with RUST_BACKTRACE=1' >&2; exit 3";
        for (name, script, limit, expected) in [
            ("fails", panics, 40, "no such pool"),
            ("silent", "exit 3", 40, "ended with exit status: 3"),
            ("hangs", "while :; do sleep 1; done", 0, "stopped after 0 s"),
            ("none", "echo done", 40, "printed no figure"),
        ] {
            assert_eq!(scripted(name, script, limit), Err(expected.to_owned()));
        }
    }
}
