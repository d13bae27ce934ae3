//! Claims, runs and acknowledges due jobs.

use std::thread::sleep;
use std::time::{Duration, Instant};

use measure::case::{Case, Run};
use measure::meter::Spent;
use measure::report::Report;

use super::push::BATCH;
use super::seen::Seen;
use super::{case, float, open, per_job};
use crate::contender::{Can, Contender, LOOK_EVERY, Outcome, Queue};
use crate::job::Job;

/// The end of a measurement.
#[derive(Clone, Copy)]
enum End {
    /// The start of the last handler.
    LastStart,
    /// The last acknowledgement in the store.
    LastAcknowledgement,
}

pub fn cases(contenders: &[Contender]) -> Vec<Case> {
    let of = |workers: u32| {
        case(
            format!("work/{workers}"),
            "Claims and acknowledgements",
            "How fast do workers process due jobs, each set up as in its own process?",
            contenders,
            &[Can::All, Can::AllButLook, Can::Work],
            move |contender, run| worked(contender, run, workers, End::LastStart),
        )
    };
    let handlers = case(
        "handlers".to_owned(),
        "Async handlers",
        "How fast does one worker with a hundred handlers process due jobs, up to the last acknowledgement in the store?",
        contenders,
        &[Can::Handle],
        |contender, run| worked(contender, run, 1, End::LastAcknowledgement),
    );
    vec![of(1), of(4), handlers]
}

fn worked(contender: &Contender, run: &Run, workers: u32, end: End) -> Outcome<Report> {
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
    let limit = Duration::from_secs(limit);
    let (count, spent) = match end {
        End::LastStart => seen.wait(limit)?,
        End::LastAcknowledgement => acknowledged(&*queue, &seen, limit)?,
    };
    drop((working, queue));
    let counts = place.settled_counts()?.since(before);
    let count = float(count);
    let report = Report::new()
        .rate("rate", "jobs/s", count / spent.wall.as_secs_f64())
        .with("cpu", "us/job", spent.cpu.as_secs_f64() * 1e6 / count);
    Ok(per_job(report, counts, count))
}

/// Waits until the store has no unacknowledged job, or until the limit. Returns the number of
/// acknowledged jobs, and the resources used since the first handler.
fn acknowledged(queue: &dyn Queue, seen: &Seen, limit: Duration) -> Outcome<(usize, Spent)> {
    let begin = Instant::now();
    seen.wait(limit)?;
    loop {
        let left = queue.left()?;
        let spent = seen.since_first()?;
        if left == 0 || begin.elapsed() > limit {
            return Ok((seen.wanted().saturating_sub(left), spent));
        }
        sleep(LOOK_EVERY);
    }
}
