//! The handle of a schedule.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use delay_queue::epoch::Epoch;
use pool_core::internals::{Joined, PoolHandle, join, poll};
use pool_core::{JoinError, Timeout};

use crate::error::ResetError;
use crate::schedule::Joinable;

/// Handle of a scheduled task or series: waits for its end, returns its value, moves or cancels it.
///
/// The handle can be joined by a thread or awaited as a [`Future`] on any runtime. Dropping it
/// detaches the schedule: the task still runs, a series goes on, and the value is dropped.
///
/// A series joins with `Ok` after its last run ([`max_runs`](crate::Series::max_runs)), or when its
/// task breaks, with the value that it breaks with
/// ([`spawn_self_paced`](crate::ScheduledPool::spawn_self_paced)). Any other end is an error.
///
/// When a join returns, the statistics of the pool and of the scheduled pool already include the end.
///
/// In a forked child every handle of the parent is finished, with [`JoinError::Forked`].
///
/// # On a worker of the same pool
/// A join would hold the worker until the task is due, and deadlock if the task then needs that same
/// worker. A join of a schedule whose last run has not started therefore fails there with
/// [`JoinError::WouldDeadlock`], and so does a poll; the task still runs. A handle that a worker has created can be
/// awaited on any other thread.
///
/// ```
/// use pool_core::Pool;
/// use scheduled_pool::ScheduledPool;
/// use std::time::Duration;
///
/// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
/// let tea = scheduled.spawn_after(Duration::from_millis(3), || "is ready")?;
/// assert_eq!(tea.join()?, "is ready"); // Or `.await`, on any runtime.
///
/// let beat = Duration::from_millis(1);
/// let heart = scheduled.spawn_at_fixed_rate(Duration::ZERO, beat, || println!("beat"))?;
/// while heart.runs() < 3 {
///     std::thread::yield_now();
/// }
/// assert!(heart.cancel());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[must_use = "dropping a handle detaches its task or series"]
pub struct ScheduledHandle<R> {
    schedule: Arc<dyn Joinable<R>>,
    pool: PoolHandle,
    epoch: Epoch,
}

/// The handle of a series, whose value is `()` unless its task breaks with one.
pub type SeriesHandle<R = ()> = ScheduledHandle<R>;

impl<R: Send + 'static> ScheduledHandle<R> {
    pub(crate) fn new(schedule: Arc<dyn Joinable<R>>, pool: PoolHandle, epoch: Epoch) -> Self {
        Self {
            schedule,
            pool,
            epoch,
        }
    }

    /// Blocks until the schedule has ended.
    ///
    /// # Errors
    /// The reason why there is no value: a run panicked, the schedule was cancelled or released, or
    /// the caller is a worker of the same pool.
    pub fn join(self) -> Result<R, JoinError> {
        self.wait(None)
            .unwrap_or_else(|| unreachable!("a wait without a limit has an outcome"))
    }

    /// Blocks until the schedule has ended or the timeout has passed on the pool's clock.
    ///
    /// # Errors
    /// Returns the handle if the timeout passed first. The schedule is not affected.
    pub fn join_timeout(self, timeout: impl Into<Timeout>) -> Result<Result<R, JoinError>, Self> {
        let deadline = timeout.into().deadline(&**self.pool.clock());
        self.wait(deadline).ok_or(self)
    }

    /// Takes the value if the schedule has ended. Never blocks.
    ///
    /// # Errors
    /// Returns the handle if the schedule has not ended.
    pub fn try_join(self) -> Result<Result<R, JoinError>, Self> {
        let joined = match self.check() {
            Ok(()) => self.schedule.take_or_wait(None),
            Err(forked) => Some(Err(forked)),
        };
        joined.ok_or(self)
    }

    /// Returns whether the schedule has ended, so that a join returns at once.
    pub fn is_finished(&self) -> bool {
        self.check().is_err() || self.schedule.is_ended()
    }

    /// Cancels the schedule: no run starts after this call. Returns `false` if a task with one run
    /// has started, or if the schedule has ended or was cancelled or released before. O(log n).
    ///
    /// If no run is in progress, the closure is dropped on this thread before the call returns, its
    /// entry in the heap or in the pool's wait queue is removed, and the handle ends with
    /// [`JoinError::Cancelled`]. A run in progress is not interrupted: the series ends after it, and
    /// the worker drops the closure.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pool_core::{JoinError, Pool};
    /// use scheduled_pool::ScheduledPool;
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let hour = Duration::from_secs(3600);
    /// let reminder = scheduled.spawn_after(hour, || "still unpaid")?;
    /// assert!(reminder.cancel()); // It was paid.
    /// assert!(matches!(reminder.join(), Err(JoinError::Cancelled)));
    ///
    /// let sweep = scheduled.spawn_with_fixed_delay(hour, hour, || println!("sweep"))?;
    /// assert!(sweep.cancel());
    /// assert!(!sweep.cancel()); // Already cancelled.
    /// assert_eq!(scheduled.pending(), 0);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) -> bool {
        self.check().is_ok() && self.schedule.cancel()
    }

    /// Moves the next run to `delay` from now, earlier or later than before. A series at a fixed rate
    /// counts its later ticks from the new time. Does not block. O(log n).
    ///
    /// If the run is due already, the call fails with [`Due`](ResetError::Due); otherwise the run
    /// starts at the new time, not before.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pool_core::Pool;
    /// use scheduled_pool::ScheduledPool;
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let hour = Duration::from_secs(3600);
    /// let hang_up = scheduled.spawn_after(hour, || "idle for too long")?;
    /// hang_up.reset_after(hour)?; // The peer has sent something.
    /// hang_up.reset_after(Duration::ZERO)?; // The peer has closed the connection.
    /// assert_eq!(hang_up.join()?, "idle for too long");
    ///
    /// let sweep = scheduled.spawn_with_fixed_delay(hour, hour, || println!("sweep"))?;
    /// sweep.reset_after(Duration::ZERO)?; // Now, and then hourly again.
    /// # while sweep.runs() == 0 {
    /// #     std::thread::yield_now();
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ResetError`]: the run was not moved. During a run of a series the error is
    /// [`Due`](ResetError::Due).
    #[doc(alias = "debounce")]
    pub fn reset_after(&self, delay: Duration) -> Result<(), ResetError> {
        self.reset(self.epoch.after(self.pool.clock().now(), delay))
    }

    /// Moves the next run to `when`, as [`reset_after`](Self::reset_after) does. A time in the past
    /// means now.
    ///
    /// # Errors
    /// See [`reset_after`](Self::reset_after).
    pub fn reset_at(&self, when: Instant) -> Result<(), ResetError> {
        self.reset(self.epoch.nanos(when))
    }

    fn reset(&self, due: u64) -> Result<(), ResetError> {
        self.pool.process().check(ResetError::Forked)?;
        self.schedule.reset(due)
    }

    /// Returns the number of ended runs, including runs that panicked.
    pub fn runs(&self) -> u64 {
        self.schedule.runs()
    }

    /// Returns the number of ticks that a series missed, because the previous run had not ended.
    pub fn missed(&self) -> u64 {
        self.schedule.missed()
    }

    /// Returns when the next run is due; in the past while it waits for room. `None` during a run,
    /// after the end, and for a time too far away to express.
    pub fn next_due(&self) -> Option<Instant> {
        self.epoch.instant(self.schedule.next_due()?)
    }

    /// A forked child may inherit the locks of the schedule and the timer from threads that do not
    /// exist there.
    fn check(&self) -> Result<(), JoinError> {
        self.pool.process().check(JoinError::Forked)
    }

    /// Refuses to hold a worker of the pool until the task is due.
    fn may_wait(&self) -> Result<(), JoinError> {
        if !self.schedule.is_ended() && self.pool.is_own_worker() && !self.schedule.is_last_run() {
            return Err(JoinError::WouldDeadlock);
        }
        Ok(())
    }

    /// Returns `None` if the deadline passed first.
    fn wait(&self, deadline: Option<Instant>) -> Option<Joined<R>> {
        if let Err(refused) = self.check().and_then(|()| self.may_wait()) {
            return Some(Err(refused));
        }
        join(&*self.schedule, &**self.pool.clock(), deadline)
    }
}

impl<R> Drop for ScheduledHandle<R> {
    fn drop(&mut self) {
        if self.pool.process().is_current() {
            self.schedule.detach();
        }
    }
}

impl<R: Send + 'static> Future for ScheduledHandle<R> {
    type Output = Result<R, JoinError>;

    /// Ready once the schedule has ended. On a worker of the same pool as [`join`](Self::join). Polling again after that returns [`JoinError::Taken`].
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.check()?;
        self.may_wait()?;
        poll(&*self.schedule, context)
    }
}

impl<R: Send + 'static> fmt::Debug for ScheduledHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduledHandle")
            .field("finished", &self.is_finished())
            .field("next_due", &self.next_due())
            .field("runs", &self.runs())
            .finish()
    }
}
