//! One snapshot of a pool, as its users see it.

use crate::capacity::Capacity;
use crate::sched::state::State;

/// One snapshot of a pool, taken at one instant.
///
/// At rest, `submitted = completed + panicked + cancelled + expired + released + discarded`; while
/// tasks are in flight the left side is larger. `refused` stands apart: those tasks went back to
/// their owners.
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
    /// Workers there may be.
    pub capacity: Capacity,
    /// Workers there are: `busy + idle`.
    pub live: usize,
    /// Workers that run a task, or other code of yours on their way: a start hook, a thread gate,
    /// the waker of a future that they have served.
    pub busy: usize,
    /// The others: searching, parked, or on their way out (in their stop hook, for example).
    pub idle: usize,
    /// Threads of workers that have ended, and that have not been joined yet: they may still run
    /// the destructors of thread-locals. At most as many as `peak_live`, or eight if that is more.
    pub ending: usize,
    /// Accepted tasks that have not ended.
    pub in_flight: usize,
    /// Accepted tasks that have not started. A task leaves this figure at once when it is
    /// cancelled, or joined in place.
    pub queued: usize,
    /// Permits that are out, and tasks that wait behind their key ([`Keyed`](crate::Keyed)): they
    /// hold room like tasks in flight, and are none yet.
    pub reserved: usize,
    /// Threads and futures in the wait queue for room, and due tasks of a scheduled pool.
    pub waiting: usize,
    /// Tasks accepted since the pool was built; one that waits behind its key counts when it starts.
    pub submitted: u64,
    /// Tasks that ran to their end.
    pub completed: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Tasks cancelled before they started.
    pub cancelled: u64,
    /// Tasks that no worker came to [in time](crate::TaskBuilder::start_before).
    pub expired: u64,
    /// Accepted tasks that `release_now` took out before they started.
    pub released: u64,
    /// Tasks that a full pool discarded, as [`OnFull`](crate::OnFull) says.
    pub discarded: u64,
    /// Calls that got their task back, or no permit. A full pool refuses without the lock, so this alone may be
    /// of a moment later than the rest.
    pub refused: u64,
    /// Threads started since the pool was built.
    pub threads_started: u64,
    /// Threads that have ended.
    pub threads_retired: u64,
    /// Threads that the operating system refused.
    pub thread_failures: u64,
    /// Most live workers there have been at once.
    pub peak_live: usize,
    /// Panics of hooks, and of the clock between the pieces of a mapping or a scope.
    pub hook_panics: u64,
}

impl Stats {
    /// The figures of two pools as one's: their sums.
    ///
    /// Two snapshots are not of one instant, so the sum is exact only at rest; and `peak_live` is
    /// an upper bound, for each pool may have had its peak at another time.
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
