//! The benches of the crates: each crate's own, some beside peers, run by `cargo bench`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use super::MANIFEST;
use super::plan::Chart;
use super::report::{CrateFigure, Figure, Group, Outcome, Role, Row};

#[rustfmt::skip]
const QUICK: &[&str] = &["--quick", "--warm-up-time", "0.1", "--measurement-time", "0.5"];

/// What the benches of the crates have shown.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) figures: Vec<CrateFigure>,
    /// The longest single operations, a table for each bench that times them one by one.
    pub(crate) tails: Vec<Group>,
}

/// Runs them. The benches understand one filter, so they are run once for each.
pub(crate) fn run(shell: &Shell, quick: bool, only: &[String]) -> Result<Shown> {
    let quick = if quick { QUICK } else { &[] };
    let everything = [String::new()];
    let filters = if only.is_empty() { &everything } else { only };
    let mut lines = Vec::new();
    for filter in filters {
        let filter = Some(filter).filter(|filter| !filter.is_empty());
        let command = cmd!(
            shell,
            "cargo bench --manifest-path {MANIFEST} --package anthill-benches --benches --
             --noplot {quick...} {filter...}"
        );
        lines.extend(lines_of(Command::from(command))?);
    }
    Ok(Shown {
        figures: figures(&lines),
        tails: tails(&lines),
    })
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

/// Runs the benches and passes on what they print.
fn lines_of(mut command: Command) -> Result<Vec<String>> {
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
    Ok(lines)
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

const QUESTION: &str = "How long does the longest single operation take? Each is timed alone, by \
    the processor's time of its thread, and the least of its rounds counts; one read of that clock \
    (the row `nothing`) is part of each time.";

/// Reads `BENCH/tail/SIZE/KIND/PEER  tail:   [P50 us P99.9 us MAX us] of N rounds`.
fn tails(lines: &[String]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (bench, label, outcome) in lines.iter().filter_map(|line| tail(line)) {
        let name = format!("Longest operations, {bench}");
        let at = groups.iter().position(|group| group.name == name);
        let group = at.unwrap_or_else(|| {
            groups.push(Group {
                name,
                oversubscribed: false,
                chart: Chart::Latency,
                rows: Vec::new(),
            });
            groups.len() - 1
        });
        let rows = &mut groups[group].rows;
        if let Some(row) = rows.iter_mut().find(|row| row.label == label) {
            row.pools.push(outcome);
            continue;
        }
        rows.push(Row {
            case: format!("{bench}/tail/{}", label.replace(' ', "/")),
            label,
            question: QUESTION.to_owned(),
            series: None,
            x: None,
            pools: vec![outcome],
        });
    }
    groups
}

/// The bench, size and kind of operation, and a peer's figures.
fn tail(line: &str) -> Option<(&str, String, Outcome)> {
    let (name, figures) = line.split_once("tail:   [")?;
    let (bench, name) = name.trim().split_once("/tail/")?;
    let (label, peer) = name.rsplit_once('/')?;
    let (figures, rounds) = figures.split_once("] of ")?;
    let rounds = rounds.split(' ').next()?.parse().ok()?;
    let mut values = figures
        .split(" us")
        .map_while(|value| value.trim().parse().ok());
    let figure = |metric: &str| {
        let value = values.next()?;
        Some(Figure {
            metric: metric.to_owned(),
            unit: "us".to_owned(),
            rounds,
            median: value,
            min: value,
            max: value,
            ratio: None,
        })
    };
    let figures: Option<Vec<Figure>> = ["p50", "p99.9", "max"].into_iter().map(figure).collect();
    let role = match peer {
        "ours" => Role::Ours,
        "clock" => Role::Yardstick,
        _ => Role::Peer,
    };
    let outcome = Outcome {
        pool: peer.to_owned(),
        role,
        figures: Ok(figures?),
    };
    Some((bench, label.replace('/', " "), outcome))
}

#[cfg(test)]
mod tests {
    use super::super::summary::Summary;
    use super::super::{example, html, json, text};
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

    #[test]
    fn tails_are_a_table_of_each_bench_with_a_row_for_each_kind_of_operation() {
        let lines = [
            "heap/tail/1000/push/ours    tail:   [0.50 us 2.00 us 9.00 us] of 4 rounds",
            "heap/tail/1000/push/theirs  tail:   [1.50 us 3.00 us 4.00 us] of 4 rounds",
            "heap/tail/1000/pop/ours     tail:   [0.50 us 2.00 us 9.00 us] of 4 rounds",
            "heap/tail/1000/pop/broken   tail:   [0.50 us 2.00 us] of 4 rounds",
            "heap/push/1000/ours         time:   [1.0 ns 1.1 ns 1.2 ns] 1.00",
        ]
        .map(str::to_owned);
        let groups = tails(&lines);
        assert_eq!(groups.len(), 1);
        let rows = &groups[0].rows;
        let labels: Vec<&str> = rows.iter().map(|row| &*row.label).collect();
        assert_eq!(labels, ["1000 push", "1000 pop"]);
        assert_eq!(rows[0].case, "heap/tail/1000/push");
        let max = rows[0].pools[1].figure("max").expect("it is there");
        assert_eq!(
            (&*rows[0].pools[1].pool, max.median, max.rounds),
            ("theirs", 4.0, 4)
        );
        assert_eq!(rows[1].pools.len(), 1);
        assert_eq!(figures(&lines).len(), 1);
    }

    #[test]
    fn tails_stand_in_every_format_and_judge_nothing() {
        let line = "heap/tail/1000/push/ours  tail:   [0.50 us 2.00 us 9.75 us] of 4 rounds";
        let mut report = example::report();
        let before = Summary::of_report(&report);
        report.groups.extend(tails(&[line.to_owned()]));
        assert_eq!(Summary::of_report(&report), before);
        let json = json::json(&report).expect("it can be written");
        assert!(json.contains("\"case\": \"heap/tail/1000/push\""), "{json}");
        for text in [
            json,
            text::terminal(&report),
            text::markdown(&report),
            html::page(&report).expect("it can be drawn"),
        ] {
            assert!(text.contains("9.75"), "{text}");
        }
    }
}
