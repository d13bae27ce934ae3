//! The lateness of jobs by the system clock.

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

/// A way to push the jobs.
type Pusher = fn(&dyn Queue, &Seen) -> Outcome;

/// Jobs that are later than this are not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// By then the workers wait.
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
            "How late do jobs start that another process has pushed seconds before, 500 per second?",
            &all,
            |run| if run.quick { 100 } else { 2_000 },
            steady,
        ),
        of(
            "sparse",
            "The same with a job every 150 ms, pushed 300 ms before.",
            &all,
            |run| if run.quick { 4 } else { 60 },
            sparse,
        ),
        of(
            "due at once",
            "The time from the call to the start of a job that another process pushes as due at once.",
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
        // Not a multiple of the period of any poll.
        sleep(Duration::from_millis(145 + job * 7 % 11));
    }
    Ok(())
}

fn at_once(queue: &dyn Queue, seen: &Seen) -> Outcome {
    for job in 0..seen.wanted() {
        queue.push(&[Job::after(Duration::ZERO)])?;
        if !seen.wait_for(job + 1, PATIENCE) {
            return Ok(()); // The figures are those of the jobs that were delivered.
        }
        sleep(Duration::from_millis(45 + job as u64 * 7 % 11));
    }
    Ok(())
}
