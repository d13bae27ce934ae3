//! Pushes while a worker waits: the queue has to find out whether to wake it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use measure::case::{Case, Run};
use measure::meter::Meter;
use measure::report::Report;

use super::{case, float, open, per_job};
use crate::contender::{Can, Contender, Outcome, Queue};
use crate::job::Job;

const CLIENTS: u32 = 16;
const MANY_TASKS: u32 = 1_000;
pub const BATCH: usize = 100;
/// Short enough that a sleeping process must be woken, and long enough that no job is due.
const DELAY: Duration = Duration::from_mins(1);

pub fn cases(contenders: &[Contender]) -> Vec<Case> {
    let group = "Pushes";
    let can = [Can::All, Can::AllButLook, Can::Push];
    let each = case(
        "push/one by one".to_owned(),
        group,
        "How many jobs do 16 clients push, one per call, while a worker waits?",
        contenders,
        &can,
        |contender, run| {
            pushed(contender, run, |queue, until| {
                Ok(queue.push_each(CLIENTS, DELAY, until)? as usize)
            })
        },
    );
    let hundreds = case(
        "push/in hundreds".to_owned(),
        group,
        "The same with one client that pushes a hundred per call.",
        contenders,
        &can,
        |contender, run| {
            pushed(contender, run, |queue, until| {
                let mut count = 0;
                while Instant::now() < until {
                    queue.push(&vec![Job::after(DELAY); BATCH])?;
                    count += BATCH;
                }
                Ok(count)
            })
        },
    );
    let ours = contenders.iter().filter(|it| it.name.starts_with("ours,"));
    let ours: Vec<_> = ours.copied().collect();
    let by_tasks = |tasks: u32, question| {
        case(
            format!("push/by {tasks} tasks"),
            group,
            question,
            &ours,
            &can[..1],
            move |contender, run| {
                pushed(contender, run, |queue, until| {
                    Ok(queue.push_each_async(tasks, DELAY, until)? as usize)
                })
            },
        )
    };
    let few = by_tasks(
        CLIENTS,
        "The same as one by one, with async tasks instead of threads.",
    );
    let many = by_tasks(MANY_TASKS, "The same with many tasks.");
    vec![each, hundreds, few, many]
}

fn pushed(
    contender: &Contender,
    run: &Run,
    push: impl Fn(&dyn Queue, Instant) -> Outcome<usize>,
) -> Outcome<Report> {
    let (warm, long) = if run.quick { (20, 100) } else { (300, 2_500) };
    let mut place = contender.needs.place()?;
    drop(open(contender, &place)?);
    let before = place.settled_counts()?;
    let queue = open(contender, &place)?;
    let waiting = open(contender, &place)?;
    let workers = match contender.can {
        Can::Push => None,
        _ => Some(waiting.work(1, std::sync::Arc::new(|_: &str| ()))?),
    };
    sleep(Duration::from_millis(warm)); // The worker has claimed, and sleeps.
    let warmed = push(&*queue, Instant::now() + Duration::from_millis(warm))?;
    let meter = Meter::start();
    let count = push(&*queue, Instant::now() + Duration::from_millis(long))?;
    let spent = meter.stop();
    drop((workers, waiting, queue));
    let counts = place.settled_counts()?.since(before);
    let jobs = float(count);
    let report = Report::new()
        .rate("rate", "jobs/s", jobs / spent.wall.as_secs_f64())
        .with("cpu", "us/job", spent.cpu.as_secs_f64() * 1e6 / jobs);
    Ok(per_job(report, counts, jobs + float(warmed)))
}
