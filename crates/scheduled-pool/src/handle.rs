//! The handles of schedules.

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

/// Waits for a task that was scheduled once, takes its value, or cancels it.
///
/// It is a thread's handle and a [`Future`] at once, on any runtime. Dropping it detaches: the
/// task still runs, and its value is dropped.
///
/// By the time a join returns, the figures of the pool and of the scheduled pool show the end.
///
/// In a process that was forked since, a handle has ended with [`JoinError::Forked`], whatever its
/// state in the parent.
///
/// # On a worker of the same pool
/// A join would hold the worker until the task is due, and for ever if the task then needs that
/// very worker. So the join of a task that has not started is refused there, with
/// [`JoinError::WouldDeadlock`]; the task still runs. A future that is polled there waits
/// as anywhere.
///
/// ```
/// use pool_core::Pool;
/// use scheduled_pool::ScheduledPool;
/// use std::time::Duration;
///
/// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
/// let tea = scheduled.spawn_after(Duration::from_millis(3), || "is ready")?;
/// assert_eq!(tea.join()?, "is ready"); // Or `.await`, on any runtime.
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[must_use = "dropping a handle detaches its task"]
pub struct ScheduledHandle<R>(Handle<R>);

/// Waits for a series to end, reads its figures, or cancels it.
///
/// A thread's handle and a [`Future`] at once. It joins with `Ok` after the last of
/// [`max_runs`](crate::Series::max_runs), or when the task itself has ended the series, which may give a
/// value ([`spawn_self_paced`](crate::ScheduledPool::spawn_self_paced)); with an error if the series ended
/// in any other way. Dropping it detaches: the series goes on.
///
/// On a worker of the same pool a join is refused with [`JoinError::WouldDeadlock`], unless the
/// last run is under way.
///
/// ```
/// use pool_core::Pool;
/// use scheduled_pool::ScheduledPool;
/// use std::time::Duration;
///
/// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
/// let beat = Duration::from_millis(1);
/// let heart = scheduled.spawn_at_fixed_rate(Duration::ZERO, beat, || println!("beat"))?;
/// while heart.runs() < 3 {
///     std::thread::yield_now();
/// }
/// assert!(heart.cancel());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[must_use = "dropping a handle leaves its series running until the release"]
pub struct SeriesHandle<R = ()>(Handle<R>);

struct Handle<R> {
    schedule: Arc<dyn Joinable<R>>,
    pool: PoolHandle,
    epoch: Epoch,
}

impl<R: Send + 'static> ScheduledHandle<R> {
    pub(crate) fn new(schedule: Arc<dyn Joinable<R>>, pool: PoolHandle, epoch: Epoch) -> Self {
        Self(Handle {
            schedule,
            pool,
            epoch,
        })
    }

    /// Blocks until the task has ended.
    ///
    /// # Errors
    /// Why there is no value: the task panicked, was cancelled, or was released unrun; or the
    /// caller may not wait.
    pub fn join(self) -> Result<R, JoinError> {
        self.0
            .wait(None)
            .unwrap_or_else(|| unreachable!("a wait without a limit has an outcome"))
    }

    /// Blocks until the task has ended, at most for so long by the pool's clock.
    ///
    /// # Errors
    /// The handle again, if the time was up; the task goes on.
    pub fn join_timeout(self, timeout: impl Into<Timeout>) -> Result<Result<R, JoinError>, Self> {
        let deadline = timeout.into().deadline(&**self.0.pool.clock());
        self.0.wait(deadline).ok_or(self)
    }

    /// Takes the value if the task has ended. Never blocks.
    ///
    /// # Errors
    /// The handle again, if it has not.
    pub fn try_join(self) -> Result<Result<R, JoinError>, Self> {
        self.0.look().ok_or(self)
    }

    /// Whether a join would return at once.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Cancels the task if it has not started: `true` if so. O(log n).
    ///
    /// What it captured is dropped at once, on this thread, its entry in the heap or in the pool's
    /// wait queue is removed, and the handle ends with [`JoinError::Cancelled`]. A task that
    /// runs is not interrupted.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use scheduled_pool::ScheduledPool;
    /// use std::time::Duration;
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// use pool_core::JoinError;
    ///
    /// let reminder = scheduled.spawn_after(Duration::from_secs(3600), || "still unpaid")?;
    /// assert!(reminder.cancel()); // It was paid.
    /// assert_eq!(scheduled.pending(), 0);
    /// assert!(matches!(reminder.join(), Err(JoinError::Cancelled)));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) -> bool {
        self.0.cancel()
    }

    /// Gives the task another time, `delay` from now, earlier or later than it had. Does not block.
    /// O(log n).
    ///
    /// Either this call is first, and the task runs at the new time and not before; or its time has
    /// come, and the answer is [`Due`](ResetError::Due).
    ///
    /// ```
    /// use std::time::Duration;
    /// use pool_core::Pool;
    /// use scheduled_pool::ScheduledPool;
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let hour = Duration::from_secs(3600);
    /// let hang_up = scheduled.spawn_after(hour, || "idle for too long")?;
    /// hang_up.reset_after(hour)?; // There was a sign of life.
    /// hang_up.reset_after(Duration::ZERO)?; // They have said good-bye.
    /// assert_eq!(hang_up.join()?, "idle for too long");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Why it keeps the time that it has: see [`ResetError`].
    #[doc(alias = "debounce")]
    pub fn reset_after(&self, delay: Duration) -> Result<(), ResetError> {
        self.0.reset_after(delay)
    }

    /// As [`reset_after`](Self::reset_after), to a point of time. One that has passed is now.
    ///
    /// # Errors
    /// Those.
    pub fn reset_at(&self, when: Instant) -> Result<(), ResetError> {
        self.0.reset_at(when)
    }

    /// When the task is due, or was; `None` once it runs, and if it is never.
    pub fn due(&self) -> Option<Instant> {
        self.0.next_due()
    }
}

impl<R: Send + 'static> SeriesHandle<R> {
    pub(crate) fn new(schedule: Arc<dyn Joinable<R>>, pool: PoolHandle, epoch: Epoch) -> Self {
        Self(Handle {
            schedule,
            pool,
            epoch,
        })
    }

    /// Blocks until the series has ended.
    ///
    /// # Errors
    /// Why it ended before it had all its runs: a run panicked, it was cancelled, or a release
    /// ended it; or the caller may not wait.
    pub fn join(self) -> Result<R, JoinError> {
        self.0
            .wait(None)
            .unwrap_or_else(|| unreachable!("a wait without a limit has an outcome"))
    }

    /// Blocks until the series has ended, at most for so long by the pool's clock.
    ///
    /// # Errors
    /// The handle again, if the time was up; the series goes on.
    pub fn join_timeout(self, timeout: impl Into<Timeout>) -> Result<Result<R, JoinError>, Self> {
        let deadline = timeout.into().deadline(&**self.0.pool.clock());
        self.0.wait(deadline).ok_or(self)
    }

    /// Says how the series has ended. Never blocks.
    ///
    /// # Errors
    /// The handle again, if it has not.
    pub fn try_join(self) -> Result<Result<R, JoinError>, Self> {
        self.0.look().ok_or(self)
    }

    /// Whether a join would return at once.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Ends the series: no run starts from now on. `false` if it has ended, or was cancelled or
    /// released before. O(log n).
    ///
    /// If no run is under way the closure is dropped at once, on this thread. A run is not
    /// interrupted; the series ends when it does, and the closure is dropped there.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # use scheduled_pool::ScheduledPool;
    /// # use std::time::Duration;
    /// # let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let hour = Duration::from_secs(3600);
    /// let sweep = scheduled.spawn_with_fixed_delay(hour, hour, || println!("sweep"))?;
    /// assert!(sweep.cancel());
    /// assert!(!sweep.cancel()); // It was done before.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.0.cancel()
    }

    /// Gives the next run another time, `delay` from now, earlier or later than it had. Does not block.
    /// O(log n). Ticks of a fixed rate are counted from there.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # use scheduled_pool::ScheduledPool;
    /// # use std::time::Duration;
    /// # let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let hour = Duration::from_secs(3600);
    /// let sweep = scheduled.spawn_with_fixed_delay(hour, hour, || println!("sweep"))?;
    /// sweep.reset_after(Duration::ZERO)?; // Now, and then hourly again.
    /// # while sweep.runs() == 0 {
    /// #     std::thread::yield_now();
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// Why it keeps the time that it has: see [`ResetError`]. [`Due`](ResetError::Due) during a run, too.
    pub fn reset_after(&self, delay: Duration) -> Result<(), ResetError> {
        self.0.reset_after(delay)
    }

    /// As [`reset_after`](Self::reset_after), to a point of time. One that has passed is now.
    ///
    /// # Errors
    /// Those.
    pub fn reset_at(&self, when: Instant) -> Result<(), ResetError> {
        self.0.reset_at(when)
    }

    /// Runs that have ended, those that panicked included.
    pub fn runs(&self) -> u64 {
        self.0.runs()
    }

    /// Ticks missed so far: the run before had not ended.
    pub fn missed(&self) -> u64 {
        self.0.missed()
    }

    /// When the next run is due; past while it waits for room. `None` during a run, after the
    /// end, and if it is never.
    pub fn next_due(&self) -> Option<Instant> {
        self.0.next_due()
    }
}

impl<R: Send + 'static> Handle<R> {
    /// In a forked child the locks of the schedule and the timer may be held by threads that are not
    /// there.
    fn check(&self) -> Result<(), JoinError> {
        self.pool.process().check(JoinError::Forked)
    }

    /// `None` if the time was up.
    fn wait(&self, deadline: Option<Instant>) -> Option<Joined<R>> {
        if let Err(forked) = self.check() {
            return Some(Err(forked));
        }
        if !self.schedule.is_ended() && self.pool.is_own_worker() && !self.schedule.is_last_run() {
            return Some(Err(JoinError::WouldDeadlock));
        }
        join(&*self.schedule, &**self.pool.clock(), deadline)
    }

    /// `None` if it has not ended.
    fn look(&self) -> Option<Joined<R>> {
        match self.check() {
            Ok(()) => self.schedule.take_or_wait(None),
            Err(forked) => Some(Err(forked)),
        }
    }

    fn is_finished(&self) -> bool {
        self.check().is_err() || self.schedule.is_ended()
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Joined<R>> {
        self.check()?;
        poll(&*self.schedule, context)
    }

    fn cancel(&self) -> bool {
        self.check().is_ok() && self.schedule.cancel()
    }

    fn reset_after(&self, delay: Duration) -> Result<(), ResetError> {
        let now = self.pool.clock().now();
        self.reset(self.epoch.after(now, delay))
    }

    fn reset_at(&self, when: Instant) -> Result<(), ResetError> {
        self.reset(self.epoch.nanos(when))
    }

    fn reset(&self, due: u64) -> Result<(), ResetError> {
        self.pool.process().check(ResetError::Forked)?;
        self.schedule.reset(due)
    }

    fn next_due(&self) -> Option<Instant> {
        self.epoch.instant(self.schedule.next_due()?)
    }

    fn runs(&self) -> u64 {
        self.schedule.runs()
    }

    fn missed(&self) -> u64 {
        self.schedule.missed()
    }

    fn debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("finished", &self.is_finished())
            .field("next_due", &self.next_due())
            .field("runs", &self.runs())
            .finish()
    }
}

impl<R> Drop for Handle<R> {
    fn drop(&mut self) {
        if self.pool.process().is_current() {
            self.schedule.detach();
        }
    }
}

impl<R: Send + 'static> Future for ScheduledHandle<R> {
    type Output = Result<R, JoinError>;

    /// Ready once the task has ended; polled again after that, it is ready with
    /// [`JoinError::Taken`].
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

impl<R: Send + 'static> Future for SeriesHandle<R> {
    type Output = Result<R, JoinError>;

    /// Ready once the series has ended; polled again after that, it is ready with
    /// [`JoinError::Taken`].
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

impl<R: Send + 'static> fmt::Debug for ScheduledHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug("ScheduledHandle", f)
    }
}

impl<R: Send + 'static> fmt::Debug for SeriesHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug("SeriesHandle", f)
    }
}
