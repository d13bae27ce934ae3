//! A claim that finds no due job behind many delayed ones.

use std::time::{Duration, Instant};

use measure::case::{Case, Run};
use measure::percentiles::Percentiles;
use measure::report::Report;

use super::{case, open};
use crate::contender::{Can, Contender, Outcome};
use crate::job::{Job, micros, now};

/// Jobs pushed per call.
const LOADED: u64 = 1_000;

pub fn cases(contenders: &[Contender]) -> Vec<Case> {
    let of = |jobs: u64| {
        case(
            format!("delayed/{jobs}"),
            "Delayed jobs in front",
            "How long does a claim take that finds no due job among this many delayed ones?",
            contenders,
            &[Can::All],
            move |contender, run| looked(contender, run, jobs),
        )
    };
    let ours: Vec<Contender> = contenders
        .iter()
        .copied()
        .filter(|it| it.name.starts_with("ours"))
        .collect();
    let mut million = case(
        "delayed/1000000".to_owned(),
        "Delayed jobs in front",
        "The same among a million, for our stores only.",
        &ours,
        &[Can::All],
        |contender, run| looked(contender, run, 1_000_000),
    );
    million.quick = false;
    vec![of(1_000), of(200_000), million]
}

fn looked(contender: &Contender, run: &Run, jobs: u64) -> Outcome<Report> {
    let (jobs, looks) = if run.quick {
        (jobs.min(1_000), 10)
    } else {
        (jobs, 300)
    };
    let mut place = contender.needs.place()?;
    let loaded = open(contender, &place)?;
    let hour = now() + micros(Duration::from_hours(1));
    for batch in 0..jobs / LOADED {
        let batch: Vec<Job> = (0..LOADED)
            .map(|job| Job::at(hour + batch * LOADED + job))
            .collect();
        loaded.push(&batch)?;
    }
    drop(loaded);
    place.settled_counts()?;
    let queue = open(contender, &place)?;
    for _ in 0..5 {
        queue.look()?;
    }
    let mut nanos = Vec::new();
    for _ in 0..looks {
        let begin = Instant::now();
        queue.look()?;
        nanos.push(micros(begin.elapsed()) * 1_000);
    }
    let took = Percentiles::new(nanos);
    Ok(Report::new()
        .with("p50", "us", took.micros(0.5))
        .with("p99", "us", took.micros(0.99)))
}
