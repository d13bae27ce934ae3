//! Public snapshot of a pool's statistics.

use crate::config::Capacity;
use crate::sched::state::State;

/// Snapshot of a pool's statistics at one instant.
///
/// When no task is in flight,
/// `submitted = completed + panicked + cancelled + expired + released + discarded`. While tasks are in
/// flight the left side is larger. `refused` is not part of the equation, because refused tasks were
/// returned to their callers.
///
/// ```
/// use pool_core::Pool;
///
/// let pool = Pool::builder().capacity(2).build()?;
/// pool.spawn(|| 42)?.join()?;
/// let stats = pool.stats();
/// assert_eq!((stats.submitted, stats.completed, stats.panicked), (1, 1, 0));
/// assert_eq!(stats.peak_live, 1);
/// println!("{} wait for room, {} are queued", stats.waiting, stats.queued);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Maximum number of live workers.
    pub capacity: Capacity,
    /// Number of live workers: `busy + idle`.
    pub live: usize,
    /// Number of workers that run a task or other user code: a start hook, a thread gate, the waker
    /// of a future.
    pub busy: usize,
    /// Number of other live workers: searching, parked, or ending (for example, in their stop
    /// hook).
    pub idle: usize,
    /// Number of ended workers whose threads have not been joined yet; they may still run
    /// destructors of thread-locals. At most `peak_live`, or eight if that is more.
    pub ending: usize,
    /// Number of accepted tasks that have not ended.
    pub in_flight: usize,
    /// Number of accepted tasks that have not started. A task that is cancelled or joined in place
    /// leaves this figure immediately.
    pub queued: usize,
    /// Number of permits held, plus tasks that wait behind their key (`Keyed` of `pool-util`).
    /// They hold room but are not in flight.
    pub reserved: usize,
    /// Number of threads and futures that wait for room, plus due tasks of a scheduled pool, and mappings and scopes.
    pub waiting: usize,
    /// Tasks accepted since the pool was built. A task that waits behind its key counts when it
    /// starts. An item of a mapping, or a task of a scope, counts only if it panics.
    pub submitted: u64,
    /// Tasks that returned normally.
    pub completed: u64,
    /// Tasks that panicked, including items of mappings and tasks of scopes.
    pub panicked: u64,
    /// Tasks cancelled before they started.
    pub cancelled: u64,
    /// Tasks that were not started [in time](crate::TaskBuilder::start_before).
    pub expired: u64,
    /// Accepted tasks that `release_now` removed before they started.
    pub released: u64,
    /// Tasks that a full pool discarded, see [`OnFull`](crate::OnFull).
    pub discarded: u64,
    /// Calls that were refused: their task was returned, or they got no permit. A full pool refuses
    /// without the lock, so this counter may be slightly newer than the other fields.
    pub refused: u64,
    /// Threads started since the pool was built.
    pub threads_started: u64,
    /// Threads that have ended.
    pub threads_retired: u64,
    /// Thread starts that the operating system refused.
    pub thread_failures: u64,
    /// Peak number of live workers.
    pub peak_live: usize,
    /// Panics of hooks, and of the clock between the pieces of a mapping or a scope.
    pub hook_panics: u64,
}

impl Stats {
    /// Sums the statistics of two pools.
    ///
    /// The snapshots are of different instants, so the sum is exact only at rest. `peak_live` is an
    /// upper bound, because the pools may have had their peaks at different times.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            capacity: self.capacity.plus(other.capacity),
            live: self.live + other.live,
            busy: self.busy + other.busy,
            idle: self.idle + other.idle,
            ending: self.ending + other.ending,
            in_flight: self.in_flight + other.in_flight,
            queued: self.queued + other.queued,
            reserved: self.reserved + other.reserved,
            waiting: self.waiting + other.waiting,
            submitted: self.submitted + other.submitted,
            completed: self.completed + other.completed,
            panicked: self.panicked + other.panicked,
            cancelled: self.cancelled + other.cancelled,
            expired: self.expired + other.expired,
            released: self.released + other.released,
            discarded: self.discarded + other.discarded,
            refused: self.refused + other.refused,
            threads_started: self.threads_started + other.threads_started,
            threads_retired: self.threads_retired + other.threads_retired,
            thread_failures: self.thread_failures + other.thread_failures,
            peak_live: self.peak_live + other.peak_live,
            hook_panics: self.hook_panics + other.hook_panics,
        }
    }
}

impl<J> State<J> {
    pub(crate) fn stats(&self, hook_panics: u64) -> Stats {
        let idle = self.searching + self.idle.len() + self.leaving;
        let counts = &self.counts;
        Stats {
            capacity: Capacity::from_bound(self.capacity),
            live: self.live,
            busy: self.live - idle,
            idle,
            ending: self.ending.len(),
            in_flight: self.unfinished(),
            queued: self.queued(),
            reserved: self.reserved,
            waiting: self.wait_queue.len(),
            submitted: counts.submitted,
            completed: counts.completed,
            panicked: counts.panicked,
            cancelled: counts.cancelled,
            expired: counts.expired,
            released: counts.released,
            discarded: counts.discarded,
            refused: counts.refused,
            threads_started: counts.started,
            threads_retired: counts.retired,
            thread_failures: counts.start_failures,
            peak_live: counts.peak_live,
            hook_panics,
        }
    }
}
