//! `cargo xtask loom`: runs every model to its end, and compares the models with the table.
//!
//! A model can become worthless unnoticed: a thread is spawned too late, or a wait is removed, and
//! it explores a tenth of the executions. So `docs/models.tsv` has a line for each model with its
//! bound and a number of iterations. A model fails below half of that number, and a missing or
//! unlisted model is an error. The number is not exact: changes of the code move it a little, so
//! `--update` keeps it until it has doubled or halved.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::flags;
use crate::models::{self, Completed, Run, Verdict};
use crate::workspace::Workspace;

/// Relative to the root.
const TABLE: &str = "docs/models.tsv";
const HEADER: &str = "model\tbound\titerations";
/// For one model at its own bound. A model that needs more is too slow for ci.
const LIMIT: Duration = Duration::from_secs(600);

/// Builds and runs the models.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Loom) -> Result<()> {
    ensure!(
        flags.bound.is_none() || !flags.update,
        "the table contains each model at its own bound: --update excludes --bound"
    );
    let begin = Instant::now();
    let target = models::target(workspace);
    let packages = workspace.crates_with("loom")?;
    println!("building the models of {}", packages.join(", "));
    let mut tests = models::build(&workspace.root, &target, &packages)?;
    if let Some(filter) = &flags.only {
        tests.retain(|test| test.to_string().contains(filter));
        ensure!(!tests.is_empty(), "no model matches `{filter}`");
    }

    let bound = flags.bound.as_ref();
    // A bound from the command line may take a day.
    let limit = bound.is_none().then_some(LIMIT);
    let runs = models::run_all(tests, bound, limit, &target.join("logs"), report)?;
    let passed = |run: &&Run| matches!(run.verdict, Verdict::Passed(_));
    let (passed, count) = (runs.iter().filter(passed).count(), runs.len());
    ensure!(
        passed == count,
        "{} of {count} model tests failed",
        count - passed
    );

    let ran = table_of(&runs)?;
    let total: u64 = ran.values().sum();
    let (count, seconds) = (ran.len(), begin.elapsed().as_secs());
    if flags.bound.is_none() {
        settle(workspace, &ran, flags)?;
    }
    println!("loom: {count} models completed in {total} iterations, {seconds} s");
    Ok(())
}

fn report(run: &Run) {
    let seconds = run.time.as_secs_f32();
    match &run.verdict {
        Verdict::Passed(models) => {
            for Completed {
                name,
                bound,
                iterations,
            } in models
            {
                println!("{iterations:>10} iterations, bound {bound}, {seconds:>6.1} s  {name}");
            }
        }
        Verdict::Failed(cause) => println!("{}\nFAILED ({cause}): {}", run.output, run.test),
        Verdict::TimedOut => println!("{}\nTIMED OUT: {}", run.output, run.test),
    }
}

/// Iterations by model and bound.
type Table = BTreeMap<(String, String), u64>;

fn table_of(runs: &[Run]) -> Result<Table> {
    let mut table = Table::new();
    for run in runs {
        let Verdict::Passed(models) = &run.verdict else {
            continue;
        };
        for it in models {
            let twin = table.insert((it.name.clone(), it.bound.clone()), it.iterations);
            ensure!(twin.is_none(), "two models are called `{}`", it.name);
        }
    }
    Ok(table)
}

/// Compares with the committed table, or updates it.
fn settle(workspace: &Workspace, ran: &Table, flags: &flags::Loom) -> Result<()> {
    let path = workspace.root.join(TABLE);
    let mut table = parse(&workspace.read(TABLE)?)?;
    if !flags.update {
        let complaints = compare(&table, ran, flags.only.is_none());
        for complaint in &complaints {
            println!("{complaint}");
        }
        let count = complaints.len();
        ensure!(
            count == 0,
            "{count} models differ from {TABLE}; if this is intended, pass --update"
        );
        return Ok(());
    }
    update(&mut table, ran, flags.only.is_none());
    fs::write(path, print(&table)).context(TABLE)
}

/// Writes a line for each model that `ran`, and removes their lines with other bounds. Removes
/// models that did not run only if the `whole` table ran.
fn update(table: &mut Table, ran: &Table, whole: bool) {
    let names: BTreeSet<_> = ran.keys().map(|(name, _)| name).collect();
    table.retain(|key, _| ran.contains_key(key) || !whole && !names.contains(&key.0));
    for (key, &iterations) in ran {
        let committed = table.entry(key.clone()).or_insert(iterations);
        if lost(*committed, iterations) || lost(iterations, *committed) {
            *committed = iterations;
        }
    }
}

/// Whether fewer than half of the iterations are left.
fn lost(before: u64, after: u64) -> bool {
    after < before.div_ceil(2)
}

/// Returns the differences. Models that did not run are missing only if the `whole` table ran.
fn compare(table: &Table, ran: &Table, whole: bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for ((name, bound), iterations) in ran {
        match table.get(&(name.clone(), bound.clone())) {
            None => complaints.push(format!(
                "not in {TABLE}; its line is: {name}\t{bound}\t{iterations}"
            )),
            Some(committed) if lost(*committed, *iterations) => complaints.push(format!(
                "lost coverage: {name} (bound {bound}): {iterations} iterations, less than half of {committed}"
            )),
            Some(_) => {}
        }
    }
    let missing = table.keys().filter(|key| whole && !ran.contains_key(key));
    complaints.extend(missing.map(|(name, bound)| format!("missing: {name} (bound {bound})")));
    complaints
}

fn parse(text: &str) -> Result<Table> {
    let mut lines = text.lines();
    let has_header = lines.next() == Some(HEADER);
    ensure!(has_header, "{TABLE} does not begin with `{HEADER}`");
    let rows = lines.map(|line| {
        let place = || format!("{TABLE}: {line}");
        let [name, bound, iterations] = line.split('\t').collect::<Vec<_>>()[..] else {
            bail!("not three columns: {}", place());
        };
        let key = (name.to_owned(), bound.to_owned());
        Ok((key, iterations.parse().with_context(place)?))
    });
    rows.collect()
}

fn print(table: &Table) -> String {
    let mut text = format!("{HEADER}\n");
    for ((name, bound), iterations) in table {
        let _ = writeln!(text, "{name}\t{bound}\t{iterations}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, u64)]) -> Table {
        let row = |&(name, iterations): &(&str, _)| ((name.to_owned(), "2".to_owned()), iterations);
        rows.iter().map(row).collect()
    }

    #[test]
    fn a_printed_table_is_parsed_to_the_same_table() {
        let table = table(&[("a", 1), ("b c", 225)]);
        assert_eq!(parse(&print(&table)).expect("it was printed"), table);
        for row in ["a\t2\n", "a\t2\tx"] {
            assert!(parse(&format!("{HEADER}\n{row}")).is_err(), "{row}");
        }
        assert!(parse("").is_err());
    }

    #[test]
    fn less_than_half_of_the_iterations_a_new_and_a_missing_model_are_complaints() {
        let committed = table(&[("fewer", 11), ("half", 11), ("more", 10), ("missing", 1)]);
        let ran = table(&[("fewer", 5), ("half", 6), ("more", 90), ("new", 1)]);
        let complaints = compare(&committed, &ran, true);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(complaints[0].starts_with("lost coverage: fewer"));
        assert!(complaints[1].ends_with("new\t2\t1"));
        assert!(complaints[2].starts_with("missing: missing"));
        // A partial run misses no model.
        let part = table(&[("more", 10)]);
        assert!(compare(&committed, &part, false).is_empty());
    }

    #[test]
    fn an_update_adds_new_models_and_keeps_numbers_that_have_moved_a_little() {
        let committed = [
            ("fewer", 11),
            ("gone", 7),
            ("less", 11),
            ("more", 10),
            ("twice", 10),
        ];
        let ran = table(&[
            ("fewer", 5),
            ("less", 6),
            ("more", 20),
            ("new", 1),
            ("twice", 21),
        ]);
        let mut expected = table(&[
            ("fewer", 5),
            ("less", 11),
            ("more", 10),
            ("new", 1),
            ("twice", 21),
        ]);
        let mut updated = table(&committed);
        update(&mut updated, &ran, true);
        assert_eq!(updated, expected);

        let mut updated = table(&committed);
        let other_bound = ("fewer".to_owned(), "3".to_owned());
        updated.insert(other_bound, 99);
        update(&mut updated, &ran, false);
        expected.extend(table(&[("gone", 7)]));
        assert_eq!(updated, expected);
    }
}
