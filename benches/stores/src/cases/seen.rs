//! The jobs that handlers have seen: their number, their lateness, and the resources used from the
//! first to the last.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use measure::meter::{Meter, Spent};
use measure::percentiles::Percentiles;
use measure::report::Report;

use super::float;
use crate::contender::{Handler, Outcome};
use crate::job::Job;

/// The error of a run whose handlers were never called.
const NONE: &str = "no job was delivered";

/// Shared by all workers of a run.
pub struct Seen {
    wanted: usize,
    state: Mutex<State>,
    all: Condvar,
}

#[derive(Default)]
struct State {
    /// In microseconds, in the order of the deliveries.
    lateness: Vec<i64>,
    begin: Option<Meter>,
    spent: Option<Spent>,
}

impl Seen {
    pub fn new(wanted: usize) -> Arc<Self> {
        Arc::new(Self {
            wanted,
            state: Mutex::default(),
            all: Condvar::new(),
        })
    }

    pub fn wanted(&self) -> usize {
        self.wanted
    }

    pub fn handler(self: &Arc<Self>) -> Handler {
        let seen = Arc::clone(self);
        Arc::new(move |text| {
            let Some(late) = Job::lateness(text) else {
                return;
            };
            let mut state = seen.lock();
            state.begin.get_or_insert_with(Meter::start);
            state.lateness.push(late);
            if state.lateness.len() == seen.wanted {
                state.spent = state.begin.map(Meter::stop);
                seen.all.notify_all();
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all jobs or until the limit. Returns the number of jobs and the resources used.
    pub fn wait(&self, limit: Duration) -> Outcome<(usize, Spent)> {
        let state = self.lock();
        let waited = self
            .all
            .wait_timeout_while(state, limit, |state| state.spent.is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let begin = state.begin.ok_or(NONE)?;
        let spent = state.spent.unwrap_or_else(|| begin.stop());
        Ok((state.lateness.len(), spent))
    }

    /// Returns the resources used since the first delivery.
    pub fn since_first(&self) -> Outcome<Spent> {
        Ok(self.lock().begin.ok_or(NONE)?.stop())
    }

    /// Whether `count` jobs are delivered within this time.
    pub fn wait_for(&self, count: usize, limit: Duration) -> bool {
        let begin = std::time::Instant::now();
        while self.lock().lateness.len() < count {
            if begin.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// The lateness, and the number of early jobs.
    pub fn report(&self) -> Report {
        let lateness = self.lock().lateness.clone();
        let early = lateness.iter().filter(|late| **late < 0).count();
        let nanos = lateness
            .iter()
            .map(|late| late.max(&0).cast_unsigned() * 1_000);
        let nanos = Percentiles::new(nanos.collect());
        let share = 100.0 * float(early) / float(lateness.len().max(1));
        Report::new()
            .with("p50", "us", nanos.micros(0.5))
            .with("p99", "us", nanos.micros(0.99))
            .with("max", "us", nanos.micros(1.0))
            .with("early", "%", share)
    }
}
