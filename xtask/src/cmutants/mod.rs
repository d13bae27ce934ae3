//! `cargo xtask cmutants`: does a model notice when the synchronization is wrong?
//!
//! A mutant is a small wrong edit of the kind that no other tool makes: an ordering weakened, a
//! notify deleted, a re-check removed, two steps swapped. For each, the loom models of its crate
//! are built in a copy of the tree, and one of them must fail. A time-out is not a kill: it says
//! that something hangs, not that a model saw why.

mod copy;
mod list;
mod report;

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::flags;
use crate::models::{self, Cause, ModelTest, Verdict};
use crate::parallel;
use crate::workspace::Workspace;
use copy::Copy;
use list::Mutant;

pub(crate) use list::check as check_list;

/// How a mutant fared.
#[derive(Debug)]
enum Fate {
    /// A model failed.
    Killed { model: String, cause: Cause },
    /// A model ran past its limit, and none failed.
    TimedOut { model: String },
    /// All models passed.
    Survived,
    /// It is listed as equivalent and was not run.
    Equivalent,
    /// It does not compile.
    Broken,
}

/// Tries the mutants and reports.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Cmutants) -> Result<()> {
    let begin = Instant::now();
    let mut mutants = list::load(workspace)?;
    list::check_texts(workspace, &mutants)?;
    let listed: Vec<_> = mutants.iter().map(|mutant| mutant.id.clone()).collect();
    if let Some(only) = &flags.only {
        mutants.retain(|mutant| mutant.id.contains(only));
        ensure!(!mutants.is_empty(), "no mutant's id contains `{only}`");
    }
    if flags.list {
        for mutant in &mutants {
            println!("{}: {} in {}", mutant.id, mutant.kind, mutant.file);
        }
        return Ok(());
    }

    let is_run = |mutant: &Mutant| flags.all || mutant.equivalent.is_none();
    let run: Vec<_> = mutants.iter().filter(|mutant| is_run(mutant)).collect();
    let times = baseline(workspace, &run)?;
    let attempt = |copy: &Copy, mutant| {
        let fate = if is_run(mutant) {
            attempt(copy, mutant, &times)?
        } else {
            Fate::Equivalent
        };
        println!("{}: {}", mutant.id, report::verdict(mutant, &fate));
        Ok((mutant, fate))
    };
    let fates = parallel::map(
        mutants.iter().collect(),
        flags.jobs.unwrap_or(1),
        |job| Copy::make(workspace, job),
        attempt,
    )?;

    report::write(workspace, &fates, &listed)?;
    let summary = report::summary(&fates, begin.elapsed());
    let right = fates
        .iter()
        .all(|(mutant, fate)| report::is_right(mutant, fate));
    ensure!(right, "{summary}");
    println!("{summary}");
    Ok(())
}

/// How long each model takes on sound code, by its `crate::test`. All must pass.
type Times = HashMap<String, Duration>;

fn baseline(workspace: &Workspace, mutants: &[&Mutant]) -> Result<Times> {
    if mutants.is_empty() {
        return Ok(Times::new());
    }
    println!("building and running the models on sound code");
    let packages: BTreeSet<_> = mutants
        .iter()
        .map(|mutant| mutant.package.clone())
        .collect();
    let copy = Copy::make(workspace, 0)?;
    let mut tests = models::build(&copy.tree, &copy.target, &Vec::from_iter(packages))?;
    tests.retain(|test| mutants.iter().any(|mutant| mutant.is_watched_by(test)));
    let runs = models::run_all(tests, None, None, &copy.logs, |run| {
        println!("sound: {:>6.1} s  {}", run.time.as_secs_f32(), run.test);
    })?;
    runs.into_iter()
        .map(|run| match run.verdict {
            Verdict::Passed(_) => Ok((run.test.to_string(), run.time)),
            _ => bail!("{} fails on sound code", run.test),
        })
        .collect()
}

/// Tries one mutant: until a model fails, the quickest first.
fn attempt(copy: &Copy, mutant: &Mutant, times: &Times) -> Result<Fate> {
    let _mutated = copy.mutate(mutant)?;
    let packages = [mutant.package.clone()];
    let Ok(mut tests) = models::build(&copy.tree, &copy.target, &packages) else {
        return Ok(Fate::Broken);
    };
    for filter in &mutant.models {
        let exists = tests.iter().any(|test| test.test.contains(filter));
        ensure!(exists, "mutant {}: no model matches `{filter}`", mutant.id);
    }
    tests.retain(|test| mutant.is_watched_by(test));
    let time = |test: &ModelTest| times.get(&test.to_string()).copied().unwrap_or_default();
    tests.sort_by_key(time);

    let mut fate = Fate::Survived;
    for test in tests {
        // Generous: a mutant may explore more, and the machine may be busy.
        let limit = Duration::from_mins(1) + 10 * time(&test);
        let run =
            models::run(&test, None, Some(limit), &copy.logs).with_context(|| mutant.id.clone())?;
        let model = test.to_string();
        match run.verdict {
            Verdict::Failed(cause) => return Ok(Fate::Killed { model, cause }),
            Verdict::TimedOut => fate = Fate::TimedOut { model },
            Verdict::Passed(_) => {}
        }
    }
    Ok(fate)
}
