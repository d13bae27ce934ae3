//! `cargo xtask cmutants`: checks that models and tests detect wrong synchronization.
//!
//! A mutant is a small wrong edit that no other tool makes: an ordering weakened, a notify deleted,
//! a re-check removed, two steps swapped. For each, the loom models of its crate are built in a
//! copy of the tree, and one of them must fail. For mistakes that no model can detect (in code that
//! the models' cfg replaces, or in a guess about time), the mutant names ordinary tests instead or
//! in addition.
//!
//! A timeout does not count as a kill, because it shows that something hangs, and not that a check
//! failed. An ordinary test that would hang has a watchdog, which fails.

mod copy;
mod list;
mod plain;
mod report;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::flags;
use crate::models::{self, Cause, Verdict};
use crate::parallel;
use crate::process::Test;
use crate::workspace::Workspace;
use copy::Copy;
use list::Mutant;
use plain::Outcome;

pub(crate) use copy::write_if_changed;
pub(crate) use list::{check as check_list, load};
pub(crate) use report::recorded;

/// A model or test, by its `crate::test`.
#[derive(Debug)]
enum Watcher {
    Model(String),
    Test(String),
}

impl fmt::Display for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(name) => write!(f, "{name}"),
            Self::Test(name) => write!(f, "test {name}"),
        }
    }
}

/// The result of a mutant.
#[derive(Debug)]
enum Fate {
    /// A model or a test failed.
    Killed { by: Watcher, cause: Cause },
    /// A model or test exceeded its limit, and none failed.
    TimedOut { by: Watcher },
    /// All passed.
    Survived,
    /// The mutant does not compile.
    Broken,
}

/// Tries the mutants and prints the results. Mutants listed as equivalent are tried only with
/// `--all`, and none of them may be killed.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Cmutants) -> Result<()> {
    let begin = Instant::now();
    let mut mutants = list::load(workspace)?;
    let listed: Vec<_> = mutants.iter().map(|mutant| mutant.id.clone()).collect();
    if let Some(only) = &flags.only {
        mutants.retain(|mutant| only.split(',').any(|part| mutant.id.contains(part)));
        ensure!(!mutants.is_empty(), "no mutant id contains `{only}`");
    }
    if flags.new {
        let known = report::recorded(workspace)?;
        mutants.retain(|mutant| !known.contains_key(&mutant.id));
    }
    list::check_texts(workspace, &mutants)?;

    let (run, spared): (Vec<_>, Vec<_>) = mutants
        .iter()
        .partition(|it| flags.all || it.equivalent.is_none());
    let times = baseline(workspace, &run)?;
    let attempt = |copy: &Copy, mutant| {
        let fate = attempt(copy, mutant, &times)?;
        println!("{}: {}", mutant.id, report::verdict(mutant, &fate));
        Ok((mutant, fate))
    };
    let prepare = |job| Copy::make(workspace, job);
    let mut fates = parallel::map(run, flags.jobs.unwrap_or(1), prepare, attempt)?;
    fates.extend(spared.into_iter().map(|mutant| (mutant, Fate::Survived)));

    report::record(workspace, &fates, &listed)?;
    let summary = report::summary(&fates);
    let right = fates
        .iter()
        .all(|(mutant, fate)| report::is_right(mutant, fate));
    ensure!(right, "{summary}");
    println!("{summary}, {:.0} s", begin.elapsed().as_secs_f32());
    Ok(())
}

/// The duration of each model and test on the unchanged code, by its `crate::test`. All must pass.
#[derive(Default)]
struct Times {
    models: HashMap<String, Duration>,
    tests: Vec<(Test, Duration)>,
}

fn baseline(workspace: &Workspace, mutants: &[&Mutant]) -> Result<Times> {
    let mut times = Times::default();
    if mutants.is_empty() {
        return Ok(times);
    }
    println!("building and running the models and tests on the unchanged code");
    let copy = Copy::make(workspace, 0)?;

    let modelled = mutants.iter().filter(|mutant| mutant.is_modelled());
    let packages: BTreeSet<_> = modelled.map(|mutant| mutant.package.clone()).collect();
    if !packages.is_empty() {
        let mut models = models::build(&copy.tree, &copy.target, &Vec::from_iter(packages))?;
        models.retain(|test| mutants.iter().any(|mutant| mutant.is_watched_by(test)));
        let runs = models::run_all(models, None, None, &copy.logs, |run| {
            println!("sound: {:>6.1} s  {}", run.time.as_secs_f32(), run.test);
        })?;
        for run in runs {
            let passed = matches!(run.verdict, Verdict::Passed(_));
            ensure!(passed, "{} fails on the unchanged code", run.test);
            times.models.insert(run.test.to_string(), run.time);
        }
    }

    let packages = plain::packages(mutants.iter().copied());
    if !packages.is_empty() {
        let mut tests = plain::build(&copy, &packages, None)?;
        tests.retain(|test| mutants.iter().any(|mutant| mutant.is_tested_by(test)));
        for test in tests {
            let (outcome, time) = plain::run(&copy, &test, None)?;
            ensure!(
                outcome == Outcome::Passed,
                "{test} fails on the unchanged code"
            );
            println!("sound: {:>6.1} s  {test}", time.as_secs_f32());
            times.tests.push((test, time));
        }
    }
    Ok(times)
}

/// Generous, because a mutant may explore more, the machine may be busy, and a watchdog needs a
/// minute.
fn limit(sound: Duration) -> Duration {
    Duration::from_secs(120) + 10 * sound
}

/// Tries a mutant until a model or a test fails: models before tests, the fastest first.
fn attempt(copy: &Copy, mutant: &Mutant, times: &Times) -> Result<Fate> {
    let _mutated = copy.mutate(mutant)?;
    let mut fate = Fate::Survived;
    if mutant.is_modelled() {
        fate = attempt_models(copy, mutant, &times.models)?;
    }
    if matches!(fate, Fate::Survived) && !mutant.tests.is_empty() {
        fate = attempt_tests(copy, mutant, &times.tests)?;
    }
    Ok(fate)
}

fn attempt_models(copy: &Copy, mutant: &Mutant, times: &HashMap<String, Duration>) -> Result<Fate> {
    let packages = [mutant.package.clone()];
    let Ok(mut tests) = models::build(&copy.tree, &copy.target, &packages) else {
        return Ok(Fate::Broken);
    };
    for filter in &mutant.models {
        let exists = tests.iter().any(|test| test.test.contains(filter));
        ensure!(exists, "mutant {}: no model matches `{filter}`", mutant.id);
    }
    tests.retain(|test| mutant.is_watched_by(test));
    let time = |test: &Test| times.get(&test.to_string()).copied().unwrap_or_default();
    tests.sort_by_key(time);

    let mut fate = Fate::Survived;
    for test in tests {
        let run = models::run(&test, None, Some(limit(time(&test))), &copy.logs)
            .with_context(|| mutant.id.clone())?;
        let by = Watcher::Model(test.to_string());
        match run.verdict {
            Verdict::Failed(cause) => return Ok(Fate::Killed { by, cause }),
            Verdict::TimedOut => fate = Fate::TimedOut { by },
            Verdict::Passed(_) => {}
        }
    }
    Ok(fate)
}

fn attempt_tests(copy: &Copy, mutant: &Mutant, times: &[(Test, Duration)]) -> Result<Fate> {
    let sound = times.iter().map(|(test, _time)| test);
    let sound: Vec<_> = sound.filter(|test| mutant.is_tested_by(test)).collect();
    for filter in &mutant.tests {
        let exists = sound.iter().any(|test| filter.matches(test));
        ensure!(exists, "mutant {}: no test matches `{filter}`", mutant.id);
    }
    // Builds only the binaries of these tests, because the build takes most of a mutant's time.
    let Ok(mut tests) = plain::build(copy, &plain::packages([mutant]), Some(&sound)) else {
        return Ok(Fate::Broken);
    };
    tests.retain(|test| mutant.is_tested_by(test));
    let names: HashMap<_, _> = times
        .iter()
        .map(|(test, time)| (test.to_string(), *time))
        .collect();
    let time = |test: &Test| names.get(&test.to_string()).copied().unwrap_or_default();
    tests.sort_by_key(time);

    let mut fate = Fate::Survived;
    for test in tests {
        let (outcome, _time) =
            plain::run(copy, &test, Some(limit(time(&test)))).with_context(|| mutant.id.clone())?;
        let by = Watcher::Test(test.to_string());
        match outcome {
            Outcome::Failed(cause) => return Ok(Fate::Killed { by, cause }),
            Outcome::TimedOut => fate = Fate::TimedOut { by },
            Outcome::Passed => {}
        }
    }
    Ok(fate)
}
