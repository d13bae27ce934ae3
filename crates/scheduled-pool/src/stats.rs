//! Statistics of a scheduled pool.

use std::time::Duration;

/// A consistent snapshot of a scheduled pool's statistics.
///
/// In every snapshot `scheduled = unended + ended + cancelled + released`.
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
    /// Number of schedules that are not due yet.
    pub pending: usize,
    /// Number of schedules that have not ended: pending, waiting for room in the pool, queued in it, or
    /// running.
    pub unended: usize,
    /// Number of accepted schedules. A series counts once.
    pub scheduled: u64,
    /// Number of schedules that ended by themselves: with a value, with a panic, or after the last run.
    pub ended: u64,
    /// Number of cancelled schedules.
    pub cancelled: u64,
    /// Number of schedules ended by a release.
    pub released: u64,
    /// Number of ended runs, including runs that panicked.
    pub runs: u64,
    /// Number of runs that panicked.
    pub panicked: u64,
    /// Number of missed ticks: the previous run of the series had not ended.
    pub missed: u64,
    /// Number of times that a due task found the pool without a worker and the operating system failed to
    /// start one. The timer retries such a task.
    pub thread_failures: u64,
    /// Longest delay from a due time to the start of the run.
    pub max_lateness: Duration,
}
