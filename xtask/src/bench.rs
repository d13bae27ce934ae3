//! `cargo xtask bench`: figures, and where they come from.
//!
//! A figure without its machine, kernel, compiler and commit is worth nothing, so they stand
//! above the figures in the report that is left in the target directory.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::flags;
use crate::parallel;
use crate::workspace::Workspace;

const MANIFEST: &str = "benches/Cargo.toml";
#[rustfmt::skip]
const QUICK: &[&str] = &["--quick", "--warm-up-time", "0.1", "--measurement-time", "0.5"];

/// Runs the benches and prints a line for each.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Bench) -> Result<()> {
    let shell = shell(workspace)?;
    let begin = Instant::now();
    let quick = if flags.quick { QUICK } else { &[] };
    let only = flags.only.as_slice();
    let command = cmd!(
        shell,
        "cargo bench --manifest-path {MANIFEST} --benches -- --noplot {quick...} {only...}"
    );
    let figures = figures_of(Command::from(command))?;
    ensure!(!figures.is_empty(), "no bench has run");

    let mut report = origin(&shell)?;
    for (name, time) in &figures {
        writeln!(report, "{name:<60} {time}")?;
    }
    let path = workspace.target.join("bench-report.txt");
    fs::write(&path, &report).with_context(|| path.display().to_string())?;
    let seconds = begin.elapsed().as_secs_f32();
    println!(
        "\n{report}\nbench: {} figures, {seconds:.0} s, kept in {}",
        figures.len(),
        path.display()
    );
    Ok(())
}

/// Runs each bench once, to see that it works; unoptimized, because that builds sooner.
pub(crate) fn smoke(workspace: &Workspace) -> Result<()> {
    let shell = shell(workspace)?;
    cmd!(
        shell,
        "cargo bench --manifest-path {MANIFEST} --profile dev --benches -- --test"
    )
    .run()?;
    Ok(())
}

/// Checks format and lints of the benches.
pub(crate) fn lint(workspace: &Workspace) -> Result<()> {
    let shell = shell(workspace)?;
    cmd!(shell, "cargo fmt --manifest-path {MANIFEST} --check").run()?;
    cmd!(
        shell,
        "cargo clippy --manifest-path {MANIFEST} --all-targets -- -D warnings"
    )
    .run()?;
    Ok(())
}

fn shell(workspace: &Workspace) -> Result<Shell> {
    ensure!(
        workspace.root.join(MANIFEST).exists(),
        "{MANIFEST} is missing"
    );
    let shell = workspace.shell()?;
    shell.set_var("CARGO_TARGET_DIR", workspace.target.join("benches"));
    Ok(shell)
}

/// Runs the benches, passes on what they print, and collects the figures.
fn figures_of(mut command: Command) -> Result<Vec<(String, String)>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().context("it is piped")?).lines() {
        let line = line?;
        println!("{line}");
        lines.push(line);
    }
    ensure!(child.wait()?.success(), "the benches failed");
    Ok(figures(&lines))
}

/// Criterion prints `NAME  time:   [LOW MIDDLE HIGH]`, with a long name on a line before. Where
/// peers take turns a multiple of ours follows.
fn figures(lines: &[String]) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    let mut before = "";
    for line in lines {
        if let Some((name, time)) = line.split_once("time:   [") {
            let name = if name.trim().is_empty() { before } else { name };
            figures.push((name.trim().to_owned(), time.replacen(']', "", 1)));
        }
        before = line;
    }
    figures
}

/// Machine, kernel, compiler and commit.
fn origin(shell: &Shell) -> Result<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let cores = parallel::cores();
    let kernel = cmd!(shell, "uname -sr").read()?;
    let compiler = cmd!(shell, "rustc --version").read()?;
    let commit = cmd!(shell, "git describe --always --dirty").read()?;
    Ok(format!(
        "{model}, {cores} cores; {kernel}; {compiler}; commit {commit}\n\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_its_name_on_its_own_line_or_on_the_one_before() {
        let lines = [
            "submit/1                time:   [1.0 ns 1.1 ns 1.2 ns]",
            "Found 2 outliers",
            "a name that is too long for one line/1",
            "                        time:   [5 us 6 us 7 us]",
            "                        thrpt:  [5 6 7]",
            "a peer                  time:   [8 ns 9 ns 9 ns] 1.50",
        ]
        .map(str::to_owned);
        let expected = [
            ("submit/1", "1.0 ns 1.1 ns 1.2 ns"),
            ("a name that is too long for one line/1", "5 us 6 us 7 us"),
            ("a peer", "8 ns 9 ns 9 ns 1.50"),
        ]
        .map(|(name, time)| (name.to_owned(), time.to_owned()));
        assert_eq!(figures(&lines), expected);
    }
}
