//! `bench --slopes`: the cost of each call of our durable stores over growing numbers of jobs,
//! queues, keys or dead letters, as a table of `docs/benchmarks/stores.md`.
//!
//! A figure's name is `call/size/unit`; a cell of the table has the figures of all sizes.

use std::path::Path;

use anyhow::Result;

use crate::ROOT;
use crate::plan::{Case, Plan, Runs};
use crate::{replace_between, report};

const PAGE: &str = "docs/benchmarks/stores.md";
const BEGIN: &str = "<!-- slopes:begin -->";
const END: &str = "<!-- slopes:end -->";
/// Prefix of the names of the cases.
const PREFIX: &str = "slope/";
/// Prefix of the names of the pools.
const OURS: &str = "ours, ";
/// A figure is marked if it grows to more than this many times its first value,
const FACTOR: f64 = 1.5;
/// and by more than this, because trees are deeper and jobs are spread over more pages. Times are
/// not marked, because they also depend on the machine's load.
const ALLOWED: [(&str, f64); 3] = [("pages", 30.0), ("steps", 200.0), ("script us", 50.0)];

pub fn is_slope(case: &Case) -> bool {
    case.name.starts_with(PREFIX)
}

pub fn write(text: &str) -> Result<()> {
    replace_between(&Path::new(ROOT).join(PAGE), BEGIN, END, text)?;
    println!("bench: written to {PAGE}");
    Ok(())
}

/// The figures of one call of one pool in one unit, by size: the minimum of all rounds, which was
/// disturbed least.
struct Series<'a> {
    column: (&'a str, &'a str),
    call: &'a str,
    figures: Vec<(&'a str, f64)>,
}

fn series<'a>(pool: &'a str, runs: &'a Runs) -> Vec<Series<'a>> {
    let mut all: Vec<Series<'a>> = Vec::new();
    for sample in runs.rounds.first().into_iter().flatten() {
        // Other figures, such as memory, have no slope.
        let [call, size, unit] = sample.name.split('/').collect::<Vec<_>>()[..] else {
            continue;
        };
        let rounds = runs.rounds.iter().flatten();
        let same = rounds.filter(|other| other.name == sample.name);
        let point = (
            size,
            same.map(|sample| sample.value).fold(f64::MAX, f64::min),
        );
        let column = (pool, unit);
        match all
            .iter_mut()
            .find(|it| it.call == call && it.column == column)
        {
            Some(series) => series.figures.push(point),
            None => all.push(Series {
                column,
                call,
                figures: vec![point],
            }),
        }
    }
    all
}

/// A row per case and call, a column per pool and unit.
pub fn table(plan: &Plan, runs: &[Vec<Runs>]) -> String {
    let mut cases = Vec::new();
    for (entry, runs) in plan.entries.iter().zip(runs) {
        let pools = entry.pools.iter().zip(runs);
        let all: Vec<_> = pools.flat_map(|(pool, runs)| series(pool, runs)).collect();
        cases.push((entry.case.name.trim_start_matches(PREFIX), all));
    }
    let mut columns: Vec<(&str, &str)> = Vec::new();
    for series in cases.iter().flat_map(|(_, all)| all) {
        if !columns.contains(&series.column) {
            columns.push(series.column);
        }
    }
    // The units of a pool are adjacent, even if its first case lacks one of them.
    columns.sort_by_key(|(pool, _)| *pool);
    let name = |(pool, unit): &(&str, &str)| format!("{} {unit}", pool.trim_start_matches(OURS));
    let head = ["next to".to_owned(), "call".to_owned()];
    let mut rows = vec![head.into_iter().chain(columns.iter().map(name)).collect()];
    for (name, all) in &cases {
        let sizes = all.iter().max_by_key(|series| series.figures.len());
        let sizes = sizes
            .iter()
            .flat_map(|it| &it.figures)
            .map(|(size, _)| *size);
        let mut label = format!("{} {name}", sizes.collect::<Vec<_>>().join(" / "));
        let mut calls: Vec<&str> = Vec::new();
        for series in all {
            if !calls.contains(&series.call) {
                calls.push(series.call);
            }
        }
        for call in calls {
            let mut row = vec![std::mem::take(&mut label), call.to_owned()];
            row.extend(columns.iter().map(|column| {
                let mut found = all.iter();
                let found = found.find(|it| it.call == call && it.column == *column);
                found.map_or_else(String::new, cell)
            }));
            rows.push(row);
        }
    }
    report::table(&rows)
}

/// `8 / 8 / 9`, in bold if it has grown.
fn cell(series: &Series<'_>) -> String {
    let figures = series
        .figures
        .iter()
        .map(|(_, figure)| format!("{figure:.0}"));
    let text = figures.collect::<Vec<_>>().join(" / ");
    let allowed = ALLOWED.iter().find(|(unit, _)| *unit == series.column.1);
    match (allowed, &series.figures[..]) {
        (Some((_, allowed)), [(_, first), .., (_, last)])
            if *last > first * FACTOR && *last > first + allowed =>
        {
            format!("**{text}**")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Choice, cases};

    fn runs(rounds: &[&[(&str, f64)]]) -> Runs {
        let of_round = |round: &&[(&str, f64)]| {
            let samples = round.iter().map(|(metric, value)| measure::report::Metric {
                name: (*metric).to_owned().into(),
                unit: "".into(),
                value: *value,
                better: measure::report::Better::Lower,
            });
            samples.collect()
        };
        Runs {
            rounds: rounds.iter().map(of_round).collect(),
            failure: None,
        }
    }

    #[test]
    fn a_row_is_a_call_with_contents_and_a_cell_has_all_sizes() {
        let listed = r#"{"case":"slope/jobs","group":"S","question":"?","pools":["ours, A","ours, B"]}
            {"case":"slope/queues","group":"S","question":"?","pools":["ours, A","ours, B"]}"#;
        let cases = cases(listed).expect("well-formed");
        assert!(cases.iter().all(is_slope));
        let plan = Plan::new(
            &cases,
            &Choice {
                alone: true,
                ..Choice::default()
            },
        );
        let jobs = [
            runs(&[
                &[
                    ("push/1/pages", 8.0),
                    ("push/9/pages", 60.0),
                    ("memory", 3.0),
                ],
                &[("push/1/pages", 9.0), ("push/9/pages", 50.0)],
                &[("push/1/pages", 7.0), ("push/9/pages", 40.0)],
            ]),
            runs(&[&[("push/1/us", 100.0), ("push/9/us", 299.0)]]),
        ];
        let queues = [
            runs(&[&[("push/1/pages", 8.0), ("push/5/pages", 8.0)]]),
            runs(&[&[("push/1/us", 1.0), ("push/5/us", 9.0), ("stats/1/us", 2.0)]]),
        ];
        let text = table(&plan, &[jobs.into(), queues.into()]);
        let cells = |line: &str| {
            line.split('|')
                .map(|it| it.trim().to_owned())
                .collect::<Vec<_>>()
        };
        let rows: Vec<_> = text.lines().map(cells).collect();
        assert_eq!(rows[0], ["", "next to", "call", "A pages", "B us", ""]);
        let expected = [
            ["", "1 / 9 jobs", "push", "**7 / 40**", "100 / 299", ""],
            ["", "1 / 5 queues", "push", "8 / 8", "1 / 9", ""],
            ["", "", "stats", "", "2", ""],
        ];
        assert_eq!(rows[2..], expected);
    }
}
