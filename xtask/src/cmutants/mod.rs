//! `cargo xtask cmutants`: checks that models and tests detect wrong synchronization, and wrong
//! statements of SQL and Lua.
//!
//! A mutant is a small wrong edit that no other tool makes: an ordering weakened, a notify deleted,
//! a re-check removed, two steps swapped, a condition of a statement dropped. For each, the loom models of its crate are built in a
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
use std::slice;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::flags;
use crate::models::{self, Cause, Run, Verdict};
use crate::parallel;
use crate::process::Test;
use crate::workspace::Workspace;
use copy::Copy;
use list::Mutant;

pub(crate) use copy::write_if_changed;
pub(crate) use list::{check_texts, load};

/// The result of a mutant.
#[derive(Debug)]
enum Fate {
    /// A model or a test failed, by its `crate::test` or `test crate::test`.
    Killed { by: String, cause: Cause },
    /// A model or test exceeded its limit, and none failed.
    TimedOut { by: String },
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
    if let Some(only) = &flags.only {
        mutants.retain(|mutant| only.split(',').any(|part| mutant.id.contains(part)));
        ensure!(!mutants.is_empty(), "no mutant id contains `{only}`");
    }
    list::check_texts(workspace, &mutants)?;

    let (run, spared): (Vec<_>, Vec<_>) = mutants
        .iter()
        .partition(|it| flags.all || it.equivalent.is_none());
    let sound = baseline(workspace, &run)?;
    let attempt = |copy: &Copy, mutant| {
        let fate = attempt(copy, mutant, &sound).with_context(|| mutant.id.clone())?;
        println!("{}: {}", mutant.id, report::verdict(mutant, &fate));
        Ok((mutant, fate))
    };
    let prepare = |job| Copy::make(workspace, job);
    let mut fates = parallel::map(run, flags.jobs.unwrap_or(1), prepare, attempt)?;
    fates.extend(spared.into_iter().map(|mutant| (mutant, Fate::Survived)));

    let summary = report::summary(&fates);
    let wrong: Vec<_> = fates
        .iter()
        .filter(|it| !report::is_right(it.0, &it.1))
        .map(|(mutant, fate)| format!("{}: {}\n", mutant.id, report::verdict(mutant, fate)))
        .collect();
    ensure!(wrong.is_empty(), "{}{summary}", wrong.concat());
    println!("{summary}, {:.0} s", begin.elapsed().as_secs_f32());
    Ok(())
}

/// The models and tests that must fail, with their durations on the unchanged code, on which all
/// must pass.
#[derive(Default)]
struct Sound {
    models: Vec<(Test, Duration)>,
    tests: Vec<(Test, Duration)>,
}

fn baseline(workspace: &Workspace, mutants: &[&Mutant]) -> Result<Sound> {
    let mut sound = Sound::default();
    if mutants.is_empty() {
        return Ok(sound);
    }
    println!("building and running the models and tests on the unchanged code");
    let copy = Copy::make(workspace, 0)?;
    let report = |run: &Run| println!("sound: {:>6.1} s  {}", run.time.as_secs_f32(), run.test);
    let passed = |run: Run| {
        let passed = matches!(run.verdict, Verdict::Passed(_));
        ensure!(passed, "{} fails on the unchanged code", run.test);
        Ok((run.test, run.time))
    };

    let modelled = mutants.iter().filter(|mutant| mutant.is_modelled());
    let packages: BTreeSet<_> = modelled.map(|mutant| mutant.package.clone()).collect();
    if !packages.is_empty() {
        let mut models = models::build(&copy.tree, &copy.target, &Vec::from_iter(packages))?;
        models.retain(|test| mutants.iter().any(|mutant| mutant.is_watched_by(test)));
        let runs = models::run_all(models, None, None, &copy.logs, report)?.into_iter();
        sound.models = runs.map(passed).collect::<Result<_>>()?;
    }

    let packages = plain::packages(mutants.iter().copied());
    if !packages.is_empty() {
        let mut tests = plain::build(&copy, &packages, None)?;
        tests.retain(|test| mutants.iter().any(|mutant| mutant.is_tested_by(test)));
        for test in tests {
            let run = plain::run(&copy, &test, None)?;
            report(&run);
            sound.tests.push(passed(run)?);
        }
    }
    Ok(sound)
}

/// Generous, because a mutant may explore more, the machine may be busy, and a watchdog needs a
/// minute.
fn limit(sound: Duration) -> Duration {
    Duration::from_secs(120) + 10 * sound
}

/// Tries a mutant until a model or a test fails: models before tests.
fn attempt(copy: &Copy, mutant: &Mutant, sound: &Sound) -> Result<Fate> {
    let _mutated = copy.mutate(mutant)?;
    if mutant.is_modelled() {
        let models = sound.models.iter().map(|(test, _time)| test);
        let models: Vec<_> = models.filter(|it| mutant.is_watched_by(it)).collect();
        for filter in &mutant.models {
            let exists = models.iter().any(|it| it.test.contains(filter));
            ensure!(exists, "no model matches `{filter}`");
        }
        let built = models::build(&copy.tree, &copy.target, slice::from_ref(&mutant.package));
        let is_meant = |test: &Test| mutant.is_watched_by(test);
        let run = |test: &_, limit| models::run(test, None, Some(limit), &copy.logs);
        let fate = first_failure("", built, &sound.models, is_meant, run)?;
        if !matches!(fate, Fate::Survived) {
            return Ok(fate);
        }
    }
    if mutant.tests.is_empty() {
        return Ok(Fate::Survived);
    }
    let is_meant = |test: &Test| mutant.is_tested_by(test);
    let tests = sound.tests.iter().map(|(test, _time)| test);
    let tests: Vec<_> = tests.filter(|test| is_meant(test)).collect();
    for filter in &mutant.tests {
        let exists = tests.iter().any(|test| filter.matches(test));
        ensure!(exists, "no test matches `{filter}`");
    }
    // Builds only the binaries of these tests, because the build takes most of a mutant's time.
    let built = plain::build(copy, &plain::packages([mutant]), Some(&tests));
    let run = |test: &_, limit| plain::run(copy, test, Some(limit));
    first_failure("test ", built, &sound.tests, is_meant, run)
}

/// Runs models or tests, the fastest first, until one fails.
fn first_failure(
    kind: &str,
    built: Result<Vec<Test>>,
    sound: &[(Test, Duration)],
    is_meant: impl Fn(&Test) -> bool,
    run: impl Fn(&Test, Duration) -> Result<Run>,
) -> Result<Fate> {
    let Ok(mut tests) = built else {
        return Ok(Fate::Broken);
    };
    tests.retain(is_meant);
    let times = sound.iter().map(|(test, time)| (test.to_string(), *time));
    let times: HashMap<_, _> = times.collect();
    let time = |test: &Test| times.get(&test.to_string()).copied().unwrap_or_default();
    tests.sort_by_key(time);

    let mut fate = Fate::Survived;
    for test in tests {
        let by = format!("{kind}{test}");
        match run(&test, limit(time(&test)))?.verdict {
            Verdict::Failed(cause) => return Ok(Fate::Killed { by, cause }),
            Verdict::TimedOut => fate = Fate::TimedOut { by },
            Verdict::Passed(_) => {}
        }
    }
    Ok(fate)
}
