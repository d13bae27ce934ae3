//! Rows of an application and their jobs, in one transaction each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use measure::case::{Case, Run};
use measure::meter::Meter;
use measure::percentiles::Percentiles;
use measure::report::Report;

use super::{case, float, open};
use crate::contender::{Can, Contender, Outcome};
use crate::job::{Job, now};

/// By then the jobs of the last commits have started.
const PATIENCE: Duration = Duration::from_millis(500);

pub fn cases(contenders: &[Contender]) -> Vec<Case> {
    let of = |clients, question| {
        case(
            format!("outbox/{clients}"),
            "Outbox",
            question,
            contenders,
            &[Can::Transact],
            move |contender, run| committed(contender, run, clients),
        )
    };
    vec![
        of(
            16,
            "What do 16 clients commit who insert a row and push a job that is due at once, in one transaction each? And how \
                long after its commit does the job start?",
        ),
        of(1, "And one client, which leaves the machine some time?"),
    ]
}

fn committed(contender: &Contender, run: &Run, clients: u32) -> Outcome<Report> {
    let (warm, long) = if run.quick { (20, 100) } else { (500, 3_000) };
    let place = contender.needs.place()?;
    let queue = open(contender, &place)?;
    let waiting = open(contender, &place)?;
    let started: Arc<Mutex<HashMap<String, u64>>> = Arc::default();
    let handler = {
        let started = Arc::clone(&started);
        move |text: &str| {
            let mut started = started.lock().unwrap_or_else(PoisonError::into_inner);
            started.insert(text.to_owned(), now());
        }
    };
    let workers = waiting.work(1, Arc::new(handler))?;
    sleep(Duration::from_millis(warm)); // The worker has claimed, and sleeps.
    queue.transact(clients, Instant::now() + Duration::from_millis(warm))?;
    let meter = Meter::start();
    let commits = queue.transact(clients, Instant::now() + Duration::from_millis(long))?;
    let spent = meter.stop();
    sleep(PATIENCE);
    drop((workers, waiting, queue));
    let count = float(commits.len());
    let report = Report::new()
        .rate("rate", "commits/s", count / spent.wall.as_secs_f64())
        .with("cpu", "us/commit", spent.cpu.as_secs_f64() * 1e6 / count);
    let started = started.lock().unwrap_or_else(PoisonError::into_inner);
    if started.is_empty() {
        return Ok(report); // Only rows.
    }
    let late = commits.iter().filter_map(|(Job { text, .. }, at)| {
        let started = started.get(text)?;
        Some(started.saturating_sub(*at) * 1_000)
    });
    let late = Percentiles::new(late.collect());
    let share = 100.0
        * float(
            commits
                .iter()
                .filter(|(job, _)| started.contains_key(&job.text))
                .count(),
        )
        / count;
    Ok(report
        .with("start p50", "us", late.micros(0.5))
        .with("start p99", "us", late.micros(0.99))
        .with("started", "%", share))
}
