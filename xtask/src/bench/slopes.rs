//! `bench --slopes`: what each call of our durable stores costs next to more and more jobs, queues, keys or dead
//! letters, as a table of `docs/benchmarks/stores.md`.
//!
//! A figure's name is `call/size/unit`; a cell of the table has the figures of all sizes.

use std::fs;

use anyhow::{Context, Result, bail};
use xshell::Shell;

use super::origin::Origin;
use super::plan::{Case, Plan};
use super::program::Sample;
use super::rounds::Runs;
use super::stores;
use super::tables::Table;
use crate::flags;
use crate::workspace::Workspace;

const PAGE: &str = "docs/benchmarks/stores.md";
const BEGIN: &str = "<!-- slopes:begin -->\n";
const END: &str = "<!-- slopes:end -->";
/// Begins the names of the cases.
const PREFIX: &str = "slope/";
/// Begins the names of the pools.
const OURS: &str = "ours, ";
/// A figure that has grown to more than this many times its first value,
const FACTOR: f64 = 1.5;
/// and by more than this, is marked: trees are deeper, and jobs lie on more pages. Times say what the machine did as
/// well, and are not marked.
const ALLOWED: [(&str, f64); 3] = [("pages", 30.0), ("steps", 200.0), ("script us", 50.0)];

pub(super) fn is_slope(case: &Case) -> bool {
    case.name.starts_with(PREFIX)
}

/// Prints the table, and writes it into the page if it has everything.
pub(super) fn run(workspace: &Workspace, shell: &Shell, flags: &flags::Bench) -> Result<()> {
    let mut origin = Origin::here(shell)?;
    let (plan, runs) = stores::slopes(workspace, shell, flags)?;
    origin.ended();
    let table = table(&plan, &runs);
    println!("\n{}\n\n{}", origin.line(), table.aligned(2));
    let failed = runs.iter().flatten().filter(|runs| runs.failure.is_some());
    let failed = failed.count();
    if failed > 0 {
        bail!("{failed} runs failed");
    }
    if flags.quick || !flags.only.is_empty() || !flags.peer.is_empty() {
        println!("bench: {PAGE} is left as it is: this is a part of its table");
        return Ok(());
    }
    let text = format!(
        "{}; rounds: {}.\n\n{}",
        origin.line(),
        plan.rounds,
        table.markdown()
    );
    let page = replaced(&workspace.read(PAGE)?, &text).with_context(|| {
        format!(
            "{PAGE} lacks the markers `{}` and `{END}`",
            BEGIN.trim_end()
        )
    })?;
    fs::write(workspace.root.join(PAGE), page).context(PAGE)?;
    println!("bench: written to {PAGE}");
    Ok(())
}

/// The page with another text between the markers.
fn replaced(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{text}{END}{after}"))
}

/// One pool's figures of one call in one unit: for each size the least of all rounds, which others disturbed least.
struct Series {
    call: String,
    unit: String,
    figures: Vec<(String, f64)>,
}

/// In the order in which they were printed.
fn series(runs: &Runs) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for sample in runs.rounds.first().into_iter().flatten() {
        let Some([call, size, unit]) = parts(sample) else {
            continue;
        };
        let rounds = runs.rounds.iter().flatten();
        let same = rounds.filter(|other| other.metric == sample.metric);
        let least = same.map(|sample| sample.value).fold(f64::MAX, f64::min);
        let known = all
            .iter_mut()
            .find(|series| series.call == call && series.unit == unit);
        let point = (size.to_owned(), least);
        match known {
            Some(series) => series.figures.push(point),
            None => all.push(Series {
                call: call.to_owned(),
                unit: unit.to_owned(),
                figures: vec![point],
            }),
        }
    }
    all
}

/// Others, as that of memory, are no slopes.
fn parts(sample: &Sample) -> Option<[&str; 3]> {
    let mut parts = sample.metric.split('/');
    let found = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(found)
}

/// A row for each case and call, a column for each pool and unit.
fn table(plan: &Plan, runs: &[Vec<Runs>]) -> Table {
    let mut columns: Vec<(&str, String)> = Vec::new();
    let mut cases = Vec::new();
    for (entry, runs) in plan.entries.iter().zip(runs) {
        let pools = entry.pools.iter().map(String::as_str);
        let of_pools: Vec<_> = pools.zip(runs.iter().map(series)).collect();
        for (pool, all) in &of_pools {
            for series in all {
                if !columns
                    .iter()
                    .any(|(of, unit)| of == pool && *unit == series.unit)
                {
                    columns.push((pool, series.unit.clone()));
                }
            }
        }
        cases.push((entry.case.name.trim_start_matches(PREFIX), of_pools));
    }
    // The units of a pool next to each other, though its first case may lack one of them.
    columns.sort_by_key(|(pool, _)| *pool);
    let mut head = vec!["next to".to_owned(), "call".to_owned()];
    head.extend(
        columns
            .iter()
            .map(|(pool, unit)| format!("{} {unit}", pool.trim_start_matches(OURS))),
    );
    let mut rows = Vec::new();
    for (name, of_pools) in cases {
        let longest = of_pools
            .iter()
            .map(|(_, all)| all)
            .max_by_key(|all| all.len());
        let mut label = longest.and_then(|all| all.first()).map(|series| {
            let sizes: Vec<&str> = series.figures.iter().map(|(size, _)| &**size).collect();
            format!("{} {name}", sizes.join(" / "))
        });
        let mut calls: Vec<&str> = Vec::new();
        for series in longest.into_iter().flatten() {
            if !calls.contains(&&*series.call) {
                calls.push(&series.call);
            }
        }
        for call in calls {
            let mut row = vec![label.take().unwrap_or_default(), call.to_owned()];
            row.extend(columns.iter().map(|(pool, unit)| {
                let mut all = of_pools.iter().filter(|(of, _)| of == pool);
                let mut all = all.next().into_iter().flat_map(|(_, all)| all);
                let found = all.find(|series| series.call == call && series.unit == *unit);
                found.map_or_else(String::new, cell)
            }));
            rows.push(row);
        }
    }
    Table { head, rows }
}

/// `8 / 8 / 9`; in bold if it has grown.
fn cell(series: &Series) -> String {
    let figures: Vec<String> = series
        .figures
        .iter()
        .map(|(_, figure)| format!("{figure:.0}"))
        .collect();
    let text = figures.join(" / ");
    if has_grown(series) {
        format!("**{text}**")
    } else {
        text
    }
}

fn has_grown(series: &Series) -> bool {
    let Some((_, allowed)) = ALLOWED.iter().find(|(unit, _)| *unit == series.unit) else {
        return false;
    };
    match &series.figures[..] {
        [(_, first), .., (_, last)] => *last > first * FACTOR && *last > first + allowed,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Choice, cases};
    use super::*;

    fn runs(rounds: &[&[(&str, f64)]]) -> Runs {
        let of_round = |round: &&[(&str, f64)]| {
            let samples = round.iter().map(|(metric, value)| Sample {
                metric: (*metric).to_owned(),
                unit: String::new(),
                value: *value,
                better: super::super::statistics::Better::Lower,
            });
            samples.collect()
        };
        Runs {
            rounds: rounds.iter().map(of_round).collect(),
            failure: None,
        }
    }

    #[test]
    fn a_row_is_a_call_next_to_contents_and_a_cell_has_all_sizes() {
        let listed = r#"{"case":"slope/jobs","group":"S","question":"?","pools":["ours, A","ours, B"]}
            {"case":"slope/queues","group":"S","question":"?","pools":["ours, A","ours, B"]}"#;
        let cases = cases(listed).expect("well-formed");
        assert!(cases.iter().all(is_slope));
        let choice = Choice {
            alone: true,
            ..Choice::default()
        };
        let plan = Plan::new(&cases, &choice);
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
        let table = table(&plan, &[jobs.into(), queues.into()]);
        assert_eq!(table.head, ["next to", "call", "A pages", "B us"]);
        let expected = [
            ["1 / 9 jobs", "push", "**7 / 40**", "100 / 299"],
            ["1 / 5 queues", "push", "8 / 8", "1 / 9"],
            ["", "stats", "", "2"],
        ];
        assert_eq!(table.rows, expected);
    }

    #[test]
    fn only_what_stands_between_the_markers_is_replaced() {
        let page = format!("a\n{BEGIN}old\n{END}\nb");
        let expected = format!("a\n{BEGIN}new\n{END}\nb");
        assert_eq!(replaced(&page, "new\n"), Some(expected));
        assert_eq!(replaced("no markers", "new"), None);
    }
}
