//! What the scheduled pool counts.

use std::time::Duration;

/// One snapshot of a scheduled pool, taken at one instant.
///
/// `scheduled = unended + ended + cancelled + released`, always.
///
/// ```
/// # use pool_core::Pool;
/// # use scheduled_pool::ScheduledPool;
/// # use std::time::Duration;
/// # let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
/// let hour = Duration::from_secs(3600);
/// let reminder = scheduled.spawn_after(hour, || println!("still unpaid"))?;
/// assert_eq!(scheduled.stats().pending, 1);
/// reminder.cancel();
/// let stats = scheduled.stats();
/// assert_eq!((stats.pending, stats.cancelled), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
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
    /// Schedules that ended by themselves: with a value, with a panic, or after their last run.
    pub ended: u64,
    /// Number of cancelled schedules.
    pub cancelled: u64,
    /// Number of schedules that a release ended.
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
