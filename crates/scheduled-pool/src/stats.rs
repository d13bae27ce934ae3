//! What the scheduled pool counts.

use std::time::Duration;

/// One snapshot of a scheduled pool, taken at one instant.
///
/// `scheduled = unended + ended + cancelled + released`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Schedules whose time has not come.
    pub pending: usize,
    /// Schedules that have not ended: pending, waiting for room in the pool, accepted by it, or
    /// running.
    pub unended: usize,
    /// Schedules accepted so far; a series is one.
    pub scheduled: u64,
    /// Those that ended by themselves: with a value, with a panic, or after their last run.
    pub ended: u64,
    /// Those that were cancelled.
    pub cancelled: u64,
    /// Those that a release ended.
    pub released: u64,
    /// Runs that have ended, those that panicked included.
    pub runs: u64,
    /// Runs that panicked.
    pub panicked: u64,
    /// Ticks of series at which the run before had not ended.
    pub missed: u64,
    /// How often a due task found the pool without a worker, and the operating system refused to
    /// start one. The task was offered again.
    pub thread_failures: u64,
    /// From when a task was due to when it began to run: the longest so far.
    pub max_lateness: Duration,
}
