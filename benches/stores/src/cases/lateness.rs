//! How late jobs start, by the machine's clock.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use measure::case::{Case, Run};
use measure::report::Report;

use super::push::BATCH;
use super::seen::Seen;
use super::{case, open};
use crate::contender::{Can, Contender, Outcome, Queue};
use crate::job::{Job, micros, now};

/// How jobs come.
type Pusher = fn(&dyn Queue, &Seen) -> Outcome;

/// What comes later than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// The workers wait by then.
const START: Duration = Duration::from_millis(500);

pub fn cases(contenders: &[Contender]) -> Vec<Case> {
    let durable = [Can::All, Can::AllButLook, Can::Start];
    let all = [Can::All, Can::AllButLook, Can::Start, Can::KeepTime];
    let of = |name: &str, question, can: &[Can], jobs: fn(&Run) -> usize, push: Pusher| {
        let run = move |contender: &Contender, run: &Run| timed(contender, jobs(run), push);
        let name = format!("late/{name}");
        case(name, "Lateness", question, contenders, can, run)
    };
    vec![
        of(
            "500 a second",
            "How late do jobs start that another process has pushed seconds before, 500 each second?",
            &all,
            |run| if run.quick { 100 } else { 2_000 },
            steady,
        ),
        of(
            "sparse",
            "And one each 150 ms, pushed 300 ms before?",
            &all,
            |run| if run.quick { 4 } else { 60 },
            sparse,
        ),
        of(
            "due at once",
            "And one that another process pushes as due at once: from its call to the start?",
            &durable,
            |run| if run.quick { 4 } else { 60 },
            at_once,
        ),
    ]
}

fn timed(contender: &Contender, jobs: usize, push: Pusher) -> Outcome<Report> {
    let place = contender.needs.place()?;
    let queue = open(contender, &place)?;
    let elsewhere = match contender.can {
        Can::KeepTime => Arc::clone(&queue),
        _ => open(contender, &place)?,
    };
    let seen = Seen::new(jobs);
    let workers = queue.work(1, seen.handler())?;
    sleep(START);
    push(&*elsewhere, &seen)?;
    let (_, spent) = seen.wait(PATIENCE)?;
    drop(workers);
    let report = seen.report();
    Ok(report.with(
        "cpu",
        "ms/s",
        spent.cpu.as_secs_f64() * 1e3 / spent.wall.as_secs_f64(),
    ))
}

fn steady(queue: &dyn Queue, seen: &Seen) -> Outcome {
    let first = now() + micros(Duration::from_millis(1_500));
    let each = micros(Duration::from_millis(2));
    let jobs: Vec<Job> = (0..seen.wanted() as u64)
        .map(|job| Job::at(first + job * each))
        .collect();
    for batch in jobs.chunks(BATCH) {
        queue.push(batch)?;
    }
    let last = jobs.last().map_or(0, |job| job.due);
    sleep(Duration::from_micros(last.saturating_sub(now())));
    Ok(())
}

fn sparse(queue: &dyn Queue, seen: &Seen) -> Outcome {
    for job in 0..seen.wanted() as u64 {
        queue.push(&[Job::after(Duration::from_millis(300))])?;
        // At no step of any poll.
        sleep(Duration::from_millis(145 + job * 7 % 11));
    }
    Ok(())
}

fn at_once(queue: &dyn Queue, seen: &Seen) -> Outcome {
    for job in 0..seen.wanted() {
        queue.push(&[Job::after(Duration::ZERO)])?;
        if !seen.wait_for(job + 1, PATIENCE) {
            return Ok(()); // The figures are those of what came.
        }
        sleep(Duration::from_millis(45 + job as u64 * 7 % 11));
    }
    Ok(())
}
