//! Figures of a queue in this process.

use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};

/// Written by the pump only.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) turns: AtomicU64,
    pub(crate) taken: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            turns: zero(),
            taken: zero(),
            stale: zero(),
            timed_out: zero(),
            errors: zero(),
            refused: zero(),
        }
    }
}

impl Counters {
    pub(crate) fn count(counter: &AtomicU64, by: usize) {
        // Relaxed: a statistic; no other memory is read because of it.
        counter.fetch_add(by as u64, Relaxed);
    }

    pub(crate) fn stats(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Relaxed); // As above.
        Stats {
            turns: read(&self.turns),
            taken: read(&self.taken),
            stale: read(&self.stale),
            timed_out: read(&self.timed_out),
            errors: read(&self.errors),
            refused: read(&self.refused),
        }
    }
}

/// This process's figures of a queue. They are not a consistent snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Turns (calls that settle and claim) that the store has answered.
    pub turns: u64,
    /// Jobs started in this process.
    pub taken: u64,
    /// Leases found to be lost.
    pub stale: u64,
    /// Attempts that exceeded the [`attempt_timeout`](crate::Builder::attempt_timeout) or their
    /// [time limit](crate::JobPolicy::time_limit).
    pub timed_out: u64,
    /// Calls of the pump that failed.
    pub errors: u64,
    /// Settles that the store has rejected permanently:
    /// [`SettleError::Refused`](crate::SettleError::Refused).
    pub refused: u64,
}
