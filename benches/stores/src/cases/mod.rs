//! The cases: the cost of a durable queue, and the lateness of its jobs.

mod delayed;
mod idle;
mod lateness;
mod outbox;
mod push;
mod seen;
mod work;

use std::error::Error;
use std::sync::Arc;

use measure::case::{self, Case, Run};
use measure::report::Report;

use crate::contender::{Can, Contender, Outcome, Queue};
use crate::place::{Counts, Place};

/// The cases that have a contender whose server is available.
pub fn all(contenders: &[Contender]) -> Vec<Case> {
    let mut cases = push::cases(contenders);
    cases.extend(outbox::cases(contenders));
    cases.extend(work::cases(contenders));
    cases.extend(lateness::cases(contenders));
    cases.extend(idle::cases(contenders));
    cases.extend(delayed::cases(contenders));
    cases.retain(|case| !case.pools.is_empty());
    cases
}

/// A case of the contenders that support it, also in the quick version.
fn case(
    name: String,
    group: &'static str,
    question: &'static str,
    contenders: &[Contender],
    can: &[Can],
    run: impl Fn(&Contender, &Run) -> Outcome<Report> + 'static,
) -> Case {
    let able = contenders.iter().copied();
    let able = able.filter(|it| can.contains(&it.can) && it.needs.are_there());
    let able: Vec<Contender> = able.collect();
    let names: Vec<&'static str> = able.iter().map(|it| it.name).collect();
    let run = move |asked: &Run| -> case::Outcome {
        let contender = able.iter().find(|it| it.name == asked.pool);
        let contender = contender.ok_or("the contender does not support this case")?;
        run(contender, asked).map_err(|fault| -> Box<dyn Error> { fault })
    };
    Case::new(name, group, question, &names, run).quick(true, &names)
}

/// Opens the queue once more, as another process would.
fn open(contender: &Contender, place: &Place) -> Outcome<Arc<dyn Queue>> {
    Ok(Arc::from((contender.open)(&place.address())?))
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn float(count: usize) -> f64 {
    count as f64
}

/// Adds the server's counters divided by `jobs`.
fn per_job(mut report: Report, counts: Counts, jobs: f64) -> Report {
    let Counts {
        queries,
        syncs,
        log,
    } = counts;
    let figures = [
        ("queries", "/job", queries),
        ("syncs", "/job", syncs),
        ("log", "bytes/job", log),
    ];
    for (name, unit, count) in figures {
        if let Some(count) = count {
            report = report.with(name, unit, count / jobs);
        }
    }
    report
}
