//! Claims, runs and acknowledges due jobs.

use std::time::Duration;

use measure::case::{Case, Run};
use measure::report::Report;

use super::push::BATCH;
use super::seen::Seen;
use super::{case, float, open, per_job};
use crate::contender::{Can, Contender, Outcome};
use crate::job::Job;

pub fn cases(contenders: &[Contender]) -> Vec<Case> {
    let of = |workers: u32| {
        case(
            format!("work/{workers}"),
            "Claims and acknowledgements",
            "How fast do workers process due jobs, each set up as in its own process?",
            contenders,
            &[Can::All, Can::AllButLook, Can::Work],
            move |contender, run| worked(contender, run, workers),
        )
    };
    let handlers = case(
        "handlers".to_owned(),
        "Async handlers",
        "How fast does one worker with a hundred handlers process due jobs?",
        contenders,
        &[Can::Handle],
        |contender, run| worked(contender, run, 1),
    );
    vec![of(1), of(4), handlers]
}

fn worked(contender: &Contender, run: &Run, workers: u32) -> Outcome<Report> {
    let (jobs, limit) = if run.quick { (1_000, 10) } else { (30_000, 6) };
    let mut place = contender.needs.place()?;
    let loaded = open(contender, &place)?;
    for _ in 0..jobs / BATCH {
        loaded.push(&vec![Job::after(Duration::ZERO); BATCH])?;
    }
    drop(loaded);
    let before = place.settled_counts()?;
    let queue = open(contender, &place)?;
    let seen = Seen::new(jobs);
    let working = queue.work(workers, seen.handler())?;
    let (count, spent) = seen.wait(Duration::from_secs(limit))?;
    drop((working, queue));
    let counts = place.settled_counts()?.since(before);
    let count = float(count);
    let report = Report::new()
        .rate("rate", "jobs/s", count / spent.wall.as_secs_f64())
        .with("cpu", "us/job", spent.cpu.as_secs_f64() * 1e6 / count);
    Ok(per_job(report, counts, count))
}
