//! The results as Markdown tables that are readable in a terminal: a row per metric of a case, a
//! column per pool.

use std::fmt::Write as _;
use std::fs;
use std::thread;

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::plan::{Entry, Plan, Runs};
use crate::statistics::{Ratio, Verdict, median};

/// Printed below the tables.
const LEGEND: &str = "2.0x: ours is twice as good as this pool, by medians over the rounds; 0.50x: half as good; ≈: \
    the difference is within noise (the interval of 95 % contains 1); a pool named `bare ..` is a yardstick, no peer. \
    Oversubscribed: while one process per core spins.";

/// The origin of the figures: machine, kernel, compiler, commit, date, and load of the last minute.
pub fn origin(shell: &Shell) -> Result<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut models = cpus
        .lines()
        .filter_map(|line| line.strip_prefix("model name"));
    let model = models.next().map_or("unknown processor", |it| {
        it.trim_start_matches([' ', '\t', ':'])
    });
    let read = |command: xshell::Cmd<'_>| command.quiet().read();
    let kernel = read(cmd!(shell, "uname -sr"))?;
    let compiler = read(cmd!(shell, "rustc --version"))?;
    let commit = read(cmd!(shell, "git describe --always --dirty"))?;
    let date = read(cmd!(shell, "date -u").arg("+%Y-%m-%d %H:%M UTC"))?;
    let cores = thread::available_parallelism()?;
    let load = load();
    Ok(format!(
        "{model}, {cores} cores; {kernel}; {compiler}; commit {commit}; {date}; load {load} before"
    ))
}

pub fn load() -> String {
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loads.split(' ').next().unwrap_or("unknown").to_owned()
}

/// All tables, and the number of cases in which ours is ahead of the best peer. `runs` is
/// `[entry][pool]`.
pub fn markdown(plan: &Plan, runs: &[Vec<Runs>]) -> String {
    let entries: Vec<_> = plan.entries.iter().zip(runs).collect();
    let title = |entry: &Entry| {
        let suffix = if entry.oversubscribed {
            ", oversubscribed"
        } else {
            ""
        };
        format!("{}{suffix}", entry.case.group)
    };
    let mut titles: Vec<String> = Vec::new();
    let mut counts = [0; 3];
    for (entry, runs) in &entries {
        if !titles.contains(&title(entry)) {
            titles.push(title(entry));
        }
        if let Some(verdict) = against_best_peer(entry, runs) {
            counts[verdict as usize] += 1;
        }
    }
    let mut text = String::new();
    for name in titles {
        let group: Vec<_> = entries
            .iter()
            .copied()
            .filter(|(it, _)| title(it) == name)
            .collect();
        let mut questions: Vec<&str> = Vec::new();
        for (entry, _) in &group {
            if !questions.contains(&&*entry.case.question) {
                questions.push(&entry.case.question);
            }
        }
        let _ = write!(
            text,
            "\n## {name}\n\n{}\n\n{}",
            questions.join(" "),
            table(&rows(&group))
        );
    }
    let [ahead, within, behind] = counts;
    let cases = ahead + within + behind;
    if cases > 0 {
        let _ = writeln!(
            text,
            "\nAhead of the best peer in {ahead} of {cases} cases, within noise in {within}, behind in {behind}. {LEGEND}"
        );
    }
    text
}

fn rows(group: &[(&Entry, &Vec<Runs>)]) -> Vec<Vec<String>> {
    let mut pools: Vec<&str> = Vec::new();
    for pool in group.iter().flat_map(|(entry, _)| &entry.pools) {
        if !pools.contains(&&**pool) {
            pools.push(pool);
        }
    }
    let head = ["case", "metric"].into_iter().chain(pools.iter().copied());
    let mut rows = vec![head.map(str::to_owned).collect()];
    for (entry, runs) in group {
        let mut metrics: Vec<(&str, &str)> = Vec::new();
        for sample in runs.iter().filter_map(|it| it.rounds.first()).flatten() {
            if !metrics.contains(&(&sample.name, &sample.unit)) {
                metrics.push((&sample.name, &sample.unit));
            }
        }
        for (metric, unit) in metrics {
            let mut row = vec![entry.name(), format!("{metric} {unit}")];
            row.extend(pools.iter().map(|pool| {
                let index = entry.pools.iter().position(|it| it == pool);
                index.map_or_else(String::new, |it| {
                    cell(&runs[it], &runs[0], metric, is_other(pool, it))
                })
            }));
            rows.push(row);
        }
    }
    rows
}

/// Whether the pool is not ours.
fn is_other(pool: &str, index: usize) -> bool {
    index > 0 && !pool.starts_with("ours")
}

fn cell(runs: &Runs, ours: &Runs, metric: &str, compare: bool) -> String {
    if runs.failure.is_some() {
        return "failed".to_owned();
    }
    let Some(middle) = median(values(runs, metric)) else {
        return String::new();
    };
    let ratio = ratio(runs, ours, metric).filter(|_| compare);
    ratio.map_or_else(
        || number(middle),
        |ratio| format!("{} {}", number(middle), factor(ratio)),
    )
}

fn values<'a>(runs: &'a Runs, metric: &'a str) -> impl Iterator<Item = f64> + 'a {
    let samples = runs.rounds.iter().flatten();
    samples
        .filter(move |it| it.name == metric)
        .map(|it| it.value)
}

fn ratio(theirs: &Runs, ours: &Runs, metric: &str) -> Option<Ratio> {
    let pairs: Vec<_> = values(theirs, metric).zip(values(ours, metric)).collect();
    let mut samples = ours.rounds.iter().flatten();
    let better = samples.find(|sample| sample.name == metric)?.better;
    Ratio::of_pairs(&pairs, better).filter(|_| ours.failure.is_none())
}

/// The comparison by the first metric. The best peer is the one with the best figure.
fn against_best_peer(entry: &Entry, runs: &[Runs]) -> Option<Verdict> {
    let metric = &*runs[0].rounds.first()?.first()?.name;
    let others = entry.pools.iter().zip(runs).enumerate();
    let peers = others.filter(|(index, (pool, runs))| {
        is_other(pool, *index) && !pool.starts_with("bare ") && runs.failure.is_none()
    });
    let ratios = peers.filter_map(|(_, (_, peer))| ratio(peer, &runs[0], metric));
    let best = ratios.min_by(|a, b| a.middle.total_cmp(&b.middle))?;
    Some(best.verdict())
}

/// Three significant digits.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        99.95.. => thousands(&format!("{value:.0}")),
        9.995.. => format!("{value:.1}"),
        0.9995.. => format!("{value:.2}"),
        0.000_5.. => format!("{value:.3}"),
        _ => format!("{value:.0e}"),
    }
}

fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn factor(ratio: Ratio) -> String {
    match ratio.middle {
        _ if ratio.verdict() == Verdict::WithinNoise => "≈".to_owned(),
        f64::INFINITY => "∞x".to_owned(),
        // A difference that the interval confirms is not rounded to 1.0.
        it if (it - 1.0).abs() < 0.05 => format!("{it:.3}x"),
        it if it < 0.995 => format!("{it:.2}x"),
        it if it < 9.95 => format!("{it:.1}x"),
        it => format!("{}x", thousands(&format!("{it:.0}"))),
    }
}

/// Rows as a Markdown table with aligned columns. The first row is the header.
pub fn table(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default().max(3)
    };
    let widths: Vec<_> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if index == 0 {
            let lines = widths.iter().map(|width| format!("|-{:-<width$}-", ""));
            let _ = writeln!(text, "{}|", lines.collect::<String>());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::plan::{Choice, cases};
    use measure::report::{Better, Metric};

    use super::*;
    use crate::program::{Outcome, Run};

    const LIST: &str = r#"
{"case":"empty/1p","group":"Empty tasks","question":"What?","pools":["anthill","rayon","bare loop","tokio"]}
{"case":"empty/4p","group":"Empty tasks","question":"What?","pools":["anthill","rayon"]}
"#;

    fn outcome(run: &Run<'_>) -> Outcome {
        let value = match (run.case, run.pool) {
            (_, "tokio") => return Err("it has no bound".to_owned()),
            ("empty/1p", "rayon") => 120.0,
            (_, "rayon") => 20.0,
            (_, "bare loop") => 10.0,
            _ => 40.0,
        };
        let sample = |name: &'static str, value| Metric {
            name: name.into(),
            unit: "ns".into(),
            value,
            better: Better::Lower,
        };
        Ok(vec![sample("wall", value), sample("cpu", 12_345.0)])
    }

    #[test]
    fn a_row_is_a_metric_of_a_case_and_a_column_is_a_pool() {
        let choice = Choice {
            alone: true,
            rounds: 7,
            ..Choice::default()
        };
        let plan = Plan::new(&cases(LIST).expect("well-formed"), &choice);
        let runs = plan.run(|runs| runs.iter().map(outcome).collect());
        let text = markdown(&plan, &runs);
        for part in [
            "\n## Empty tasks\n\nWhat?\n\n| case     | metric  | anthill | rayon    | bare loop | tokio  |\n|----",
            "\n| empty/1p | wall ns | 40.0    | 120 3.0x | 10.0 0.25x | failed |\n",
            "\n| empty/4p | wall ns | 40.0    | 20.0 0.50x |",
            " 12,345 ≈ ",
            "\nAhead of the best peer in 1 of 2 cases, within noise in 0, behind in 1. ",
        ] {
            let squeeze = |text: &str| {
                text.split(' ')
                    .filter(|it| !it.is_empty())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let part = squeeze(&part.replace('-', ""));
            assert!(
                squeeze(&text.replace('-', "")).contains(&part),
                "{part} in\n{text}"
            );
        }
        let widths = text
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.chars().count());
        assert_eq!(
            widths.collect::<std::collections::BTreeSet<_>>().len(),
            1,
            "{text}"
        );
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let numbers = [
            0.0,
            0.000_012,
            0.1234,
            0.999_9,
            12.34,
            99.99,
            999.6,
            1_234_567.0,
            -1234.0,
        ];
        let expected = [
            "0",
            "1e-5",
            "0.123",
            "1.00",
            "12.3",
            "100",
            "1,000",
            "1,234,567",
            "-1,234",
        ];
        assert_eq!(numbers.map(number), expected);
    }

    #[test]
    fn a_difference_within_noise_has_no_factor() {
        let of = |low, middle, high| factor(Ratio { middle, low, high });
        assert_eq!(of(0.9, 2.0, 3.0), "≈");
        assert_eq!(of(1.5, 2.0, 3.0), "2.0x");
        assert_eq!(of(0.4, 0.5, 0.6), "0.50x");
        assert_eq!(of(1.01, 1.02, 1.03), "1.020x");
        assert_eq!(of(50.0, f64::INFINITY, f64::INFINITY), "∞x");
    }
}
