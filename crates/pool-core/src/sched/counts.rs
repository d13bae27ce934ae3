//! Totals since the pool was built.

use crate::task::run::Outcome;

/// Monotonic counters. Changed under the pool's lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) panicked: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
    pub(crate) released: u64,
    pub(crate) discarded: u64,
    pub(crate) refused: u64,
    pub(crate) started: u64,
    pub(crate) retired: u64,
    pub(crate) start_failures: u64,
    pub(crate) peak_live: usize,
}

impl Counts {
    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Completed => self.completed += 1,
            Outcome::Panicked => self.panicked += 1,
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::Expired => self.expired += 1,
            Outcome::Released => self.released += 1,
            Outcome::Discarded => self.discarded += 1,
            // Counted before, by the section that withdrew or passed on the task; otherwise it would count twice.
            Outcome::Withdrawn | Outcome::PassedOn => {}
        }
    }
}
