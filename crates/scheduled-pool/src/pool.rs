//! The scheduled pool and its weak handle.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pool_core::internals::PoolHandle;
use pool_core::{Pool, TaskBuilder, Timeout, WaitError};

use crate::base::{Base, Members};
use crate::error::ScheduleError;
use crate::handle::{ScheduledHandle, SeriesHandle};
use crate::owner::Owner;
use crate::request::{First, Request};
use crate::retry::Retry;
use crate::series::Series;
use crate::stats::Stats;
use crate::timer::Core;
use crate::unstarted::Unstarted;

/// Runs tasks in a [`Pool`] after a delay, at a fixed rate, or with a fixed delay between runs.
///
/// Clones are cheap and refer to the same scheduled pool. Dropping the last clone has the effect of a
/// [`release`](ScheduledPool::release) on the pending schedules, but does not release the underlying pool:
/// after the last schedule has ended, only the handle of that pool is dropped.
///
/// Due times follow the pool's clock.
///
/// ```
/// use std::time::Duration;
/// use pool_core::Pool;
/// use scheduled_pool::ScheduledPool;
///
/// let scheduled = ScheduledPool::new(Pool::builder().capacity(2).build()?);
/// let answer = scheduled.spawn_after(Duration::from_millis(5), || 6 * 7)?;
/// let reminder = scheduled.spawn_after(Duration::from_secs(3600), || println!("still unpaid"))?;
/// assert!(reminder.cancel());
/// assert_eq!(answer.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "timer")]
#[doc(alias = "ScheduledThreadPool")]
#[doc(alias = "ScheduledExecutorService")]
pub struct ScheduledPool<P = Pool> {
    pub(crate) owner: Arc<Owner>,
    /// Dropped after the owner, since it may be the last handle of the pool.
    pool: P,
}

impl<P: Base> ScheduledPool<P> {
    pub(crate) fn new_from(core: Arc<Core<Members>>, pool: P, members: Members) -> Self {
        let owner = Arc::new(Owner { core, members });
        Self { owner, pool }
    }

    /// Returns the underlying pool.
    pub fn pool(&self) -> &P {
        &self.pool
    }

    pub(crate) fn core(&self) -> &Arc<Core<Members>> {
        &self.owner.core
    }

    pub(crate) fn members(&self) -> &Members {
        &self.owner.members
    }

    /// The first pool, for questions that all pools of a group answer alike: the clock, a fork, whether the
    /// caller is a worker.
    pub(crate) fn pool_handle(&self) -> &PoolHandle {
        self.members().first()
    }

    /// A request without options.
    fn plain(&self) -> Request<'_> {
        Request::new(&self.owner, None)
    }

    /// Returns a builder that sets the options of a single task or series: its name, and tokens that
    /// cancel it. [`TaskBuilderExt`](crate::TaskBuilderExt) has the calls that schedule it.
    pub fn task(&self) -> TaskBuilder<'_, Self> {
        TaskBuilder::of(self)
    }

    /// Runs `task` once, `delay` from now.
    ///
    /// The task never runs early. When it is due the timer submits it to the pool, where it waits for room
    /// in first-in, first-out order. A delay too long to express means never. Does not block, but the first
    /// call starts the timer thread. Costs one allocation and O(log n).
    ///
    /// ```
    /// use pool_core::Pool;
    /// use scheduled_pool::ScheduledPool;
    /// use std::time::Duration;
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let answer = scheduled.spawn_after(Duration::from_millis(1), || 42)?;
    /// assert_eq!(answer.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`ScheduleError`].
    #[doc(alias = "timer")]
    #[doc(alias = "set_timeout")]
    #[doc(alias = "execute_after")]
    #[doc(alias = "schedule")]
    pub fn spawn_after<F, R>(
        &self,
        delay: Duration,
        task: F,
    ) -> Result<ScheduledHandle<R>, ScheduleError<F>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.plain().once(First::After(delay), task)
    }

    /// Runs `task` once, at `when`. A task whose time has passed is due at once, behind schedules with an
    /// earlier time, and counts as late. Otherwise like [`spawn_after`](ScheduledPool::spawn_after).
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # use scheduled_pool::ScheduledPool;
    /// # use std::time::Duration;
    /// # let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// use std::time::Instant;
    ///
    /// let when = Instant::now() + Duration::from_millis(1);
    /// let late = scheduled.spawn_at(when, move || when.elapsed())?;
    /// println!("the task ran {:?} late", late.join()?);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`ScheduleError`].
    pub fn spawn_at<F, R>(
        &self,
        when: Instant,
        task: F,
    ) -> Result<ScheduledHandle<R>, ScheduleError<F>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.plain().once(First::At(when), task)
    }

    /// Runs `task` repeatedly: first `first` from now, then once per `period`, counted from due time to due
    /// time. Runs never overlap, and missed ticks are skipped (see [`Missed`](crate::Missed)). A panic ends
    /// the series.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # use scheduled_pool::ScheduledPool;
    /// # use std::time::Duration;
    /// # let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let hour = Duration::from_secs(3600);
    /// let renewal = scheduled.spawn_at_fixed_rate(hour, hour, || println!("renew"))?;
    /// assert!(renewal.next_due().is_some());
    /// drop(renewal); // The series goes on until the release.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the task if it is rejected (see [`ScheduleError`]), also for a period of 0.
    #[doc(alias = "interval")]
    #[doc(alias = "execute_at_fixed_rate")]
    #[doc(alias = "set_interval")]
    #[doc(alias = "scheduleAtFixedRate")]
    pub fn spawn_at_fixed_rate<F>(
        &self,
        first: Duration,
        period: Duration,
        task: F,
    ) -> Result<SeriesHandle, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.spawn_series(first, &Series::at_fixed_rate(period), task)
    }

    /// Runs `task` repeatedly: first `first` from now, then `delay` after the end of each
    /// run. A panic ends the series.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # use scheduled_pool::ScheduledPool;
    /// # use std::time::Duration;
    /// # let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let hour = Duration::from_secs(3600);
    /// let sweep = scheduled.spawn_with_fixed_delay(hour, hour, || println!("sweep"))?;
    /// assert_eq!((sweep.runs(), scheduled.pending()), (0, 1));
    /// assert!(sweep.cancel());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the task if it is rejected (see [`ScheduleError`]), also for a delay of 0.
    #[doc(alias = "execute_with_fixed_delay")]
    #[doc(alias = "scheduleWithFixedDelay")]
    pub fn spawn_with_fixed_delay<F>(
        &self,
        first: Duration,
        delay: Duration,
        task: F,
    ) -> Result<SeriesHandle, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.spawn_series(first, &Series::with_fixed_delay(delay), task)
    }

    /// Runs `task` repeatedly: first `first` from now, then as `series` specifies.
    ///
    /// ```
    /// use std::num::NonZeroU64;
    /// use std::time::Duration;
    /// use pool_core::Pool;
    /// use scheduled_pool::{ScheduledPool, Series};
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let mut beats = 0;
    /// let thrice = Series::at_fixed_rate(Duration::from_millis(1))
    ///     .max_runs(NonZeroU64::new(3).expect("it is not 0"));
    /// let heart = scheduled.spawn_series(Duration::ZERO, &thrice, move || {
    ///     beats += 1;
    ///     println!("beat {beats}");
    /// })?;
    /// heart.join()?; // After the third run.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the task if it is rejected (see [`ScheduleError`]), also for a period or a delay of 0.
    pub fn spawn_series<F>(
        &self,
        first: Duration,
        series: &Series,
        task: F,
    ) -> Result<SeriesHandle, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.plain().series(first, series, task)
    }

    /// Runs `task` repeatedly until it breaks: first `first` from now, then as `series` specifies. After a
    /// break the handle joins with `Ok`.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::time::Duration;
    /// use pool_core::Pool;
    /// use scheduled_pool::{ScheduledPool, Series};
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let mut fuse = 3;
    /// let each_tick = Series::at_fixed_rate(Duration::from_millis(1));
    /// let countdown = scheduled.spawn_series_until(Duration::ZERO, &each_tick, move || {
    ///     println!("{fuse}");
    ///     fuse -= 1;
    ///     if fuse == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    /// })?;
    /// countdown.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the task if it is rejected (see [`ScheduleError`]), also for a period or a delay of 0.
    pub fn spawn_series_until<F>(
        &self,
        first: Duration,
        series: &Series,
        task: F,
    ) -> Result<SeriesHandle, ScheduleError<F>>
    where
        F: FnMut() -> ControlFlow<()> + Send + 'static,
    {
        self.plain().series(first, series, task)
    }

    /// Runs `task` repeatedly at its own pace. The first run is `first` from now. Each run returns the delay
    /// from its end to the next run, or breaks with the value of the handle.
    ///
    /// Suits polling with growing delays; for retries see [`spawn_retrying`](Self::spawn_retrying). With a
    /// delay of 0 the next run follows the runs that are already due. A panic ends the series.
    ///
    /// ```
    /// use std::ops::ControlFlow::{Break, Continue};
    /// use std::time::Duration;
    /// use pool_core::Pool;
    /// use scheduled_pool::ScheduledPool;
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let mut delay = Duration::from_millis(1);
    /// let mut looks = 0;
    /// let status = scheduled.spawn_self_paced(Duration::ZERO, move || {
    ///     looks += 1;
    ///     if looks == 3 {
    ///         return Break("finished");
    ///     }
    ///     delay *= 2;
    ///     Continue(delay)
    /// })?;
    /// assert_eq!(status.join()?, "finished");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`ScheduleError`].
    pub fn spawn_self_paced<F, R>(
        &self,
        first: Duration,
        task: F,
    ) -> Result<SeriesHandle<R>, ScheduleError<F>>
    where
        F: FnMut() -> ControlFlow<R, Duration> + Send + 'static,
        R: Send + 'static,
    {
        self.plain().self_paced(first, task)
    }

    /// Runs `task` now, and again after a back-off while it fails. The handle returns the value, or the last
    /// error when `policy` gives up.
    ///
    /// Between two attempts the task holds no worker. It is a series: the handle counts the attempts
    /// ([`runs`](SeriesHandle::runs)) and cancels them, a panic ends them, and so does a
    /// [`release`](Self::release), unless the builder's
    /// [`continue_series`](crate::Builder::continue_series) is set. For permanent
    /// errors, let the value be a `Result` as well, and return `Ok(Err(..))`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pool_core::Pool;
    /// use scheduled_pool::{Retry, ScheduledPool};
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let policy = Retry::exponential(Duration::from_millis(1)).max_attempts(5.try_into()?);
    /// let mut attempts = 0;
    /// let fetched = scheduled.spawn_retrying(&policy, move || {
    ///     attempts += 1;
    ///     if attempts < 3 { Err("not yet") } else { Ok("the page") }
    /// })?;
    /// assert_eq!(fetched.join()?, Ok("the page")); // Or `Err` after the fifth attempt.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`ScheduleError`].
    #[doc(alias = "retry")]
    #[doc(alias = "backoff")]
    pub fn spawn_retrying<F, T, E>(
        &self,
        policy: &Retry,
        task: F,
    ) -> Result<SeriesHandle<Result<T, E>>, ScheduleError<F>>
    where
        F: FnMut() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.plain().retrying(policy, task)
    }

    /// Returns the number of schedules that are not due yet. They are not in flight: [`wait_idle`](Self::wait_idle)
    /// and the pool's `wait_idle` ignore them.
    pub fn pending(&self) -> usize {
        self.stats().pending
    }

    /// Returns a consistent snapshot of the statistics.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # use scheduled_pool::ScheduledPool;
    /// # use std::time::Duration;
    /// # let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// scheduled.spawn_after(Duration::ZERO, || ())?.join()?;
    /// let stats = scheduled.stats();
    /// assert_eq!((stats.scheduled, stats.ended, stats.pending), (1, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.core().stats()
    }

    /// Returns whether the scheduled pool, or the pool under it, is released.
    pub fn is_released(&self) -> bool {
        !self.core().state.lock().is_open()
    }

    /// Releases the scheduled pool, which then rejects tasks. Returns `false` if it is already released.
    /// Does not block.
    ///
    /// Pending tasks with one run still run when they are due. Series, and tasks that would never be due,
    /// end with [`Released`](pool_core::JoinError::Released). The builder's `run_pending` and
    /// `continue_series` change this. The pool stays open until every schedule has ended; then the thread
    /// that ends the last one releases the pool: in this call, in a cancel, or on a worker. To keep the
    /// pool open, drop the scheduled pool instead.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use scheduled_pool::ScheduledPool;
    /// use std::time::Duration;
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let pending = scheduled.spawn_after(Duration::from_millis(1), || "still runs")?;
    /// assert!(scheduled.release());
    /// assert!(scheduled.spawn_after(Duration::ZERO, || ()).is_err());
    /// assert_eq!(pending.join()?, "still runs");
    /// scheduled.wait_released()?; // Now the pool is released as well.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "shutdown")]
    pub fn release(&self) -> bool {
        // In a forked child a thread that does not exist there may hold the lock.
        self.pool_handle().process().is_current() && self.core().release(true)
    }

    /// Releases the scheduled pool, ends all schedules that are not running, and calls the pool's
    /// `release_now`. Returns the ended schedules with their tasks, and the number of the pool's own tasks
    /// that had not started; these are dropped on this thread.
    ///
    /// All handles end with [`Released`](pool_core::JoinError::Released). A run in progress is the last of
    /// its series, which is not returned. The call asks the run to stop, as
    /// [`Pool::release_now`](pool_core::Pool::release_now) does, and does not wait for it.
    #[doc(alias = "shutdownNow")]
    pub fn release_now(&self) -> Unstarted {
        if !self.pool_handle().process().is_current() {
            return Unstarted::default();
        }
        let schedules = self.core().release_now();
        // "A reboot": a later generation stays open.
        let is_ours = self.members().are_the_same();
        let tasks = is_ours.then(|| self.pool.release_all_now());
        Unstarted::new(schedules, tasks.unwrap_or(0))
    }

    /// Blocks until the scheduled pool is released (by any handle of it or of the pool), every schedule has
    /// ended, the timer thread has exited, and the pool has ended.
    ///
    /// # Errors
    /// [`WouldDeadlock`](WaitError::WouldDeadlock) on one of the pool's workers, and the errors of the
    /// pool's `wait_released`. With [`Rebooted`](WaitError::Rebooted), too, every schedule has ended; the
    /// call does not wait for the rebooted pool.
    #[doc(alias = "awaitTermination")]
    pub fn wait_released(&self) -> Result<(), WaitError> {
        self.wait(None)
    }

    /// Like [`wait_released`](ScheduledPool::wait_released), with a timeout.
    ///
    /// # Errors
    /// The errors of `wait_released`, and [`TimedOut`](WaitError::TimedOut).
    pub fn wait_released_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), WaitError> {
        self.wait(timeout.into().deadline(&**self.pool_handle().clock()))
    }

    pub(crate) fn may_wait(&self) -> Result<(), WaitError> {
        if self.pool_handle().is_own_worker() {
            return Err(WaitError::WouldDeadlock);
        }
        self.pool_handle().process().check(WaitError::Forked)
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.may_wait()?;
        if !self.core().wait_released(deadline) {
            return Err(WaitError::TimedOut);
        }
        self.members().wait_for_end(deadline)
    }

    /// Returns a weak handle, for example for a task that schedules itself again.
    pub fn downgrade(&self) -> WeakScheduledPool<P> {
        WeakScheduledPool {
            owner: Arc::downgrade(&self.owner),
            pool: self.pool.weak(),
        }
    }
}

impl<P: Clone> Clone for ScheduledPool<P> {
    fn clone(&self) -> Self {
        Self {
            owner: Arc::clone(&self.owner),
            pool: self.pool.clone(),
        }
    }
}

impl<P: Base> fmt::Debug for ScheduledPool<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduledPool")
            .field("pool", &self.pool.label())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// A weak handle, which does not keep the scheduled pool open. Returned by [`ScheduledPool::downgrade`].
pub struct WeakScheduledPool<P: Base = Pool> {
    owner: Weak<Owner>,
    pool: P::Weak,
}

impl<P: Base> WeakScheduledPool<P> {
    /// Returns the scheduled pool if a handle of it still exists.
    pub fn upgrade(&self) -> Option<ScheduledPool<P>> {
        Some(ScheduledPool {
            owner: self.owner.upgrade()?,
            pool: P::strong(&self.pool)?,
        })
    }
}

impl<P: Base> Clone for WeakScheduledPool<P> {
    fn clone(&self) -> Self {
        Self {
            owner: Weak::clone(&self.owner),
            pool: self.pool.clone(),
        }
    }
}

impl<P: Base> fmt::Debug for WeakScheduledPool<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakScheduledPool(..)")
    }
}
