//! The benches of the crates: each crate's own, some beside peers, run by `cargo bench`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use super::MANIFEST;

#[rustfmt::skip]
const QUICK: &[&str] = &["--quick", "--warm-up-time", "0.1", "--measurement-time", "0.5"];

/// A line of such a bench.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrateFigure {
    pub(crate) name: String,
    /// Low, middle and high, with units. Where peers take turns a multiple of ours follows.
    pub(crate) time: String,
}

/// Runs them. The benches understand one filter, so they are run once for each.
pub(crate) fn run(shell: &Shell, quick: bool, only: &[String]) -> Result<Vec<CrateFigure>> {
    let quick = if quick { QUICK } else { &[] };
    let everything = [String::new()];
    let filters = if only.is_empty() { &everything } else { only };
    let mut all = Vec::new();
    for filter in filters {
        let filter = Some(filter).filter(|filter| !filter.is_empty());
        let command = cmd!(
            shell,
            "cargo bench --manifest-path {MANIFEST} --package anthill-benches --benches --
             --noplot {quick...} {filter...}"
        );
        all.extend(figures_of(Command::from(command))?);
    }
    Ok(all)
}

/// Runs each once, to see that it works; unoptimized, because that builds sooner.
pub(crate) fn smoke(shell: &Shell) -> Result<()> {
    cmd!(
        shell,
        "cargo bench --manifest-path {MANIFEST} --package anthill-benches --profile dev --benches
         -- --test"
    )
    .run()?;
    Ok(())
}

/// Runs the benches, passes on what they print, and collects the figures.
fn figures_of(mut command: Command) -> Result<Vec<CrateFigure>> {
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
    ensure!(
        child.wait()?.success(),
        "the benches of the crates have failed"
    );
    Ok(figures(&lines))
}

/// Criterion prints `NAME  time:   [LOW MIDDLE HIGH]`, with a long name on a line before.
fn figures(lines: &[String]) -> Vec<CrateFigure> {
    let mut figures = Vec::new();
    let mut before = "";
    for line in lines {
        if let Some((name, time)) = line.split_once("time:   [") {
            let name = if name.trim().is_empty() { before } else { name };
            figures.push(CrateFigure {
                name: name.trim().to_owned(),
                time: time.replacen(']', "", 1),
            });
        }
        before = line;
    }
    figures
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
        .map(|(name, time)| CrateFigure {
            name: name.to_owned(),
            time: time.to_owned(),
        });
        assert_eq!(figures(&lines), expected);
    }
}
