//! The handle of a scheduled pool.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pool_core::internals::PoolHandle;
use pool_core::{Pool, TaskBuilder, Timeout, WaitError};

use crate::base::{Base, Members};
use crate::error::ScheduleError;
use crate::handle::{ScheduledHandle, SeriesHandle};
use crate::request::{First, Request};
use crate::retry::Retry;
use crate::series::Series;
use crate::stats::Stats;
use crate::timer::Core;
use crate::unstarted::Unstarted;

/// Runs tasks in a [`Pool`] later, at a fixed rate, or with a fixed delay.
///
/// A handle: cloning it is cheap, and clones are the same scheduled pool. When the last one is
/// dropped, nothing more can be scheduled, and what is pending is treated as at a
/// [`release`](ScheduledPool::release), except that the pool under it is not released: only this
/// handle of it is dropped, once every schedule has ended.
///
/// Time is the pool's clock.
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
    /// After the owner, so that it may be the last handle of the pool.
    pool: P,
}

/// Counted by the handles alone.
pub(crate) struct Owner {
    pub(crate) core: Arc<Core<Members>>,
    /// A rebooted pool has a later generation, and is left alone.
    pub(crate) members: Members,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.members.process().is_current() {
            self.core.release(false);
        }
    }
}

impl<P: Base> ScheduledPool<P> {
    pub(crate) fn new_from(core: Arc<Core<Members>>, pool: P, members: Members) -> Self {
        let owner = Arc::new(Owner { core, members });
        Self { owner, pool }
    }

    /// The pool under it, e.g. to submit what is due now.
    pub fn pool(&self) -> &P {
        &self.pool
    }

    pub(crate) fn core(&self) -> &Arc<Core<Members>> {
        &self.owner.core
    }

    pub(crate) fn members(&self) -> &Members {
        &self.owner.members
    }

    /// For what all pools of a group say alike: the clock, a fork, whether the caller is a worker.
    fn pool_handle(&self) -> &PoolHandle {
        self.members().first()
    }

    /// A request of a task without options.
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
    /// It never runs early. Once due it is submitted to the pool, and waits for room in its turn. A
    /// delay too long to express is never. Does not block, but for the start of the timer thread at the first
    /// use. Costs one allocation and O(log n).
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
    /// The task comes back unrun: see [`ScheduleError`].
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

    /// Runs `task` once, at `when`; at once if that has passed, after those that were due before it,
    /// and late by as much. Else as [`spawn_after`](ScheduledPool::spawn_after).
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
    /// println!("it ran {:?} after its time", late.join()?);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The task comes back unrun: see [`ScheduleError`].
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

    /// Runs `task` repeatedly: first `first` from now, then at every `period` from there,
    /// however long a run takes. Runs never overlap; ticks that are missed are dropped (see
    /// [`Missed`](crate::Missed)). A panic ends the series.
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
    /// The task comes back unrun: see [`ScheduleError`]; also for a period of 0.
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
    /// The task comes back unrun: see [`ScheduleError`]; also for a delay of 0.
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

    /// Runs `task` repeatedly, first `first` from now, then as `series` says.
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
    /// heart.join()?; // After the third.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The task comes back unrun: see [`ScheduleError`]; also for a period or a delay of 0.
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

    /// Runs `task` repeatedly, first `first` from now, then as `series` says, until it breaks. Its
    /// handle then joins with `Ok`.
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
    /// The task comes back unrun: see [`ScheduleError`]; also for a period or a delay of 0.
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

    /// Runs `task` first `first` from now, and then whenever it says: a run that continues names the
    /// delay from its end to the next run; one that breaks ends the series, with a value for the handle.
    ///
    /// For polls that slow down; for retries see [`spawn_retrying`](Self::spawn_retrying). A delay of 0 is the next
    /// place in the queue, behind what is due. A panic ends the series.
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
    /// The task comes back unrun: see [`ScheduleError`].
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

    /// Runs `task` now, and again after a back-off as long as it fails. The handle has its value, or the last
    /// error once `policy` gives up.
    ///
    /// Between two attempts the task holds no worker. It is a series: the handle counts the attempts
    /// ([`runs`](SeriesHandle::runs)) and cancels them, a panic ends them, and so does a
    /// [`release`](Self::release), unless the builder's
    /// [`continue_series`](crate::Builder::continue_series) says otherwise. For an error that no retry
    /// cures, let the value be a `Result`, too: return `Ok(Err(..))`.
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
    /// The task comes back unrun: see [`ScheduleError`].
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

    /// Schedules whose time has not come. They are not in flight: [`wait_idle`](Self::wait_idle) ignores
    /// them, and so does the pool's.
    pub fn pending(&self) -> usize {
        self.stats().pending
    }

    /// All figures, at one instant.
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

    /// Whether nothing can be scheduled any more: it was released, or the pool was.
    pub fn is_released(&self) -> bool {
        !self.core().state.lock().is_open()
    }

    /// Takes no more schedules. `false` if that was done before. Does not block.
    ///
    /// Tasks scheduled once still run, at their time; those that never would, and the series, end
    /// with [`Released`](pool_core::JoinError::Released) (the builder's `run_pending` and
    /// `continue_series` say otherwise). The pool stays open until all schedules have ended; then it
    /// is released too, by the call that ends the last one: this one, a cancel, or a worker's.
    /// To keep the pool, drop the scheduled pool instead.
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
    /// scheduled.wait_released()?; // And now the pool is released, too.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "shutdown")]
    pub fn release(&self) -> bool {
        // In a forked child nothing is left to release, and the lock may be held.
        self.pool_handle().process().is_current() && self.core().release(true)
    }

    /// Takes no more schedules, ends all that have not started, and releases the pool with
    /// `release_now`. The schedules come back, with what they were to run; and how many tasks that were
    /// the pool's own never started, which are dropped on this thread.
    ///
    /// The handles of all end with [`Released`](pool_core::JoinError::Released). A series ends too; a
    /// run that is under way is its last, and it does not come back. Does not wait for it, and asks it to
    /// stop, as [`Pool::release_now`](pool_core::Pool::release_now) does.
    #[doc(alias = "shutdownNow")]
    pub fn release_now(&self) -> Unstarted {
        if !self.pool_handle().process().is_current() {
            return Unstarted::default();
        }
        let schedules = self.core().release_now();
        // "A reboot": a later generation is left open.
        let is_ours = self.members().are_the_same();
        let tasks = is_ours.then(|| self.pool.release_all_now());
        Unstarted::new(schedules, tasks.unwrap_or(0))
    }

    /// Waits until it is released (by any handle, of it or of the pool), every schedule has ended, the timer thread is
    /// gone, and the pool has ended.
    ///
    /// # Errors
    /// [`WouldDeadlock`](WaitError::WouldDeadlock) on one of the pool's workers, and what the
    /// pool's `wait_released` says: [`Rebooted`](WaitError::Rebooted) if the pool was, since it was
    /// released. Every schedule has ended then, too; the pool that was rebooted is not waited for.
    #[doc(alias = "awaitTermination")]
    pub fn wait_released(&self) -> Result<(), WaitError> {
        self.wait(None)
    }

    /// Waits as [`wait_released`](ScheduledPool::wait_released) does, at most for so long.
    ///
    /// # Errors
    /// Those, and [`TimedOut`](WaitError::TimedOut).
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

    /// A handle that keeps nothing open, e.g. for a task that schedules itself again.
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

/// A scheduled pool's handle that keeps nothing open. See [`ScheduledPool::downgrade`].
pub struct WeakScheduledPool<P: Base = Pool> {
    owner: Weak<Owner>,
    pool: P::Weak,
}

impl<P: Base> WeakScheduledPool<P> {
    /// The scheduled pool, if another handle still keeps it.
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
