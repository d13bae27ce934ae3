//! A worker that waits for a job due in an hour.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use measure::case::{Case, Run};
use measure::meter::Meter;
use measure::report::Report;

use super::{case, open};
use crate::contender::{Can, Contender, Outcome};
use crate::job::Job;

pub fn cases(contenders: &[Contender]) -> Vec<Case> {
    let idle = case(
        "idle/an hour ahead".to_owned(),
        "Idle",
        "What does a process cost that waits for a job due in an hour? (Measured for a minute.)",
        contenders,
        &[Can::All, Can::AllButLook, Can::KeepTime],
        idle,
    );
    vec![idle.together()]
}

fn idle(contender: &Contender, run: &Run) -> Outcome<Report> {
    let (settle, long) = if run.quick {
        (200, 300)
    } else {
        (5_000, 66_000)
    };
    let mut place = contender.needs.place()?;
    let queue = open(contender, &place)?;
    queue.push(&[Job::after(Duration::from_hours(1))])?;
    let workers = queue.work(1, Arc::new(|_: &str| ()))?;
    sleep(Duration::from_millis(settle));
    let before = place.counts()?;
    let meter = Meter::start();
    sleep(Duration::from_millis(long));
    let spent = meter.stop();
    let counts = place.counts()?.since(before);
    drop((workers, queue));
    let seconds = spent.wall.as_secs_f64();
    let report = Report::new().with("cpu", "ms/s", spent.cpu.as_secs_f64() * 1e3 / seconds);
    Ok(match counts.queries {
        Some(queries) => report.with("queries", "/s", queries / seconds),
        None => report,
    })
}
