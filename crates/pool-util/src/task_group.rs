//! Groups: tasks that are joined or cancelled together.
//!
//! The tasks of a group are ordinary tasks in the pool's queue. The thread that ends a task reports the end
//! to the group ([`Listener`](pool_core::internals::Listener)), which stores it for an owner. A submitted
//! task that completes leaves nothing in the group. Reporting runs no user code: wakers of owners, and the
//! cancelling of other tasks, are called later, where the waker of a handle would be.
//!
//! A [`TaskGroup`] adds the type of the values and the pool to a [`Group`]. The [`Group`] implements the
//! waits over the state in [`shared`], which the ends of tasks update.

mod members;
mod panics;
mod shared;
mod waits;

use std::any::Any;
use std::convert::identity;
use std::future::Future;
use std::marker::PhantomData;
use std::task::{Context, Poll};
use std::time::Instant;
use std::{fmt, mem};

use pool_core::internals::{
    Admit, Ignored, Joined, OptionsHost, PriorityHost, RawHandle, SpawnWithOptions,
    SubmitWithOptions, TaskOptions, refuse,
};
use pool_core::{
    Accepts, Closures, JoinError, OnFull, SubmitError, TaskBuilder, WaitError, WorkerPool,
};
use sync_shim::Timeout;

use self::shared::{Ended, Fails};
use self::waits::Group;
use crate::{MapError, PoolExt};

/// Group of tasks of one pool that are joined as they end, waited for, or cancelled together. Returned by
/// [`PoolExt::group`].
///
/// Any thread can add tasks. Values are returned in the order in which the tasks end. Dropping the group
/// cancels the tasks that have not started, and detaches the running ones, which are asked to stop.
///
/// A group that was [cancelled](Self::cancel) stays cancelled. Further tasks, and those that wait for room, are
/// returned in [`SubmitError::Cancelled`], so a loop that adds tasks ends.
///
/// ```
/// use pool_core::Pool;
/// use pool_util::PoolExt;
///
/// let pool = Pool::builder().capacity(4).build()?;
/// let group = pool.group();
/// for n in 1..=10_u64 {
///     group.spawn(move || n * n)?;
/// }
/// let mut sum = 0;
/// while let Some(square) = group.next() {
///     sum += square?;
/// }
/// assert_eq!(sum, 385);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// Modelled on tokio's `JoinSet` and Java's `ExecutorCompletionService`.
#[doc(alias = "join_all")]
#[doc(alias = "JoinSet")]
#[doc(alias = "WaitGroup")]
#[doc(alias = "ExecutorCompletionService")]
pub struct TaskGroup<T: Send + 'static, P: PoolExt = WorkerPool<Closures>> {
    host: P,
    group: Group,
    of: PhantomData<fn() -> T>,
}

impl<T: Send + 'static, P: PoolExt> TaskGroup<T, P> {
    /// Creates an empty group for tasks of `host`; see [`PoolExt::group`].
    pub fn of(host: &P) -> Self {
        Self {
            host: host.clone(),
            group: Group::of(host.admit().pool_handle()),
            of: PhantomData,
        }
    }

    /// [Cancels](Self::cancel) the group when the first task panics or is cancelled.
    ///
    /// An `Err` returned by a task does not cancel the group: see
    /// [`cancel_on_failure`](Self::cancel_on_failure).
    ///
    /// ```
    /// use pool_core::{JoinError, Pool};
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(1).queue_depth(1).build()?;
    /// let group = pool.group().cancel_on_error();
    /// group.spawn(|| panic!("out of ink"))?;
    /// _ = group.spawn(|| println!("perhaps not"));
    /// assert!(matches!(group.wait(), Err(JoinError::Panicked(_))));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn cancel_on_error(self) -> Self {
        self.group.shared.set_fails(Fails::Errors);
        self
    }

    /// Sets a deadline, by the pool's clock, at which the group is [cancelled](Self::cancel).
    ///
    /// The first task sets an alarm for that time. If the clock has no thread for alarms, the waits
    /// ([`next`](Self::next), [`wait`](Self::wait) and their async versions) and the calls that add tasks cancel
    /// the group once the time has passed.
    ///
    /// ```
    /// use pool_core::{Clock, JoinError, ManualClock, Pool, current};
    /// use pool_util::PoolExt;
    /// use std::time::Duration;
    ///
    /// const MINUTE: Duration = Duration::from_secs(60);
    /// let clock = ManualClock::new(); // For tests.
    /// let pool = Pool::builder().capacity(1).clock(clock.clone()).build()?;
    /// let group = pool.group().cancel_at(clock.now() + MINUTE);
    /// group.spawn(|| while !current().is_cancelled() { std::thread::yield_now() })?;
    /// clock.advance(MINUTE);
    /// // The task was asked to stop, or had not started.
    /// assert!(matches!(group.wait(), Ok(()) | Err(JoinError::Cancelled)));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "timeout")]
    pub fn cancel_at(mut self, deadline: Instant) -> Self {
        self.group.cancel_at(deadline);
        self
    }

    /// Adds a task that returns a value. Waits at a full pool as [`WorkerPool::spawn`] does; a failure of the group ends that
    /// wait, unless the task gets the room of the one that has failed.
    ///
    /// The group keeps the ended task, with its value, until [`next`](Self::next) or [`wait`](Self::wait) takes
    /// it: about 190 bytes plus the captures or the value. For tasks that nobody takes, use
    /// [`submit`](Self::submit), which leaves nothing in the group.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group();
    /// for word in ["one", "three"] {
    ///     group.spawn(move || word.len())?;
    /// }
    /// group.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the task unrun: see [`SubmitError`]. [`Cancelled`](SubmitError::Cancelled) if the group was
    /// cancelled, has failed, or its deadline has passed, also during the wait for room.
    pub fn spawn<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.adopt(task, None, self.host.admit().on_full(), false, identity)
    }

    /// Like [`spawn`](Self::spawn), but returns an error at a full pool.
    ///
    /// # Errors
    /// Returns the task unrun: see [`SubmitError`].
    pub fn try_spawn<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.adopt(task, None, OnFull::Refuse, false, identity)
    }

    /// Like [`spawn`](Self::spawn), but waits for room at most for a duration, or until an instant.
    ///
    /// # Errors
    /// Returns the task unrun: see [`SubmitError`].
    pub fn spawn_timeout<F>(
        &self,
        task: F,
        timeout: impl Into<Timeout>,
    ) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.adopt(
            task,
            None,
            OnFull::Wait(self.deadline(timeout)),
            false,
            identity,
        )
    }

    /// Async version of [`spawn`](Self::spawn). The task belongs to the group once the future is ready.
    ///
    /// Dropping the future before that drops the task. If the pool has just accepted the task, it is cancelled
    /// like a task of a dropped group: it is asked to stop if it has started.
    ///
    /// # Errors
    /// Returns the task unrun: see [`SubmitError`].
    pub fn spawn_async<F>(&self, task: F) -> impl Future<Output = Result<(), SubmitError<F>>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.adopt_async(task, false, identity)
    }

    pub(crate) fn spawn_with<F>(&self, task: F, on_full: OnFull) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.adopt(task, None, on_full, false, identity)
    }

    /// Adds a task without a value. Waits at a full pool as [`WorkerPool::submit`] does.
    ///
    /// The task's return value is dropped on the worker as a part of the task, even if it is an `Err`: use
    /// [`spawn`](Self::spawn) for tasks that may fail. [`next`](Self::next) does not return a task that
    /// completes, and the group stores no outcome for it. A panic and a cancellation are errors of the
    /// group, as for spawned tasks.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    ///
    /// let pool = Pool::builder().capacity(4).build()?;
    /// let (group, sum) = (pool.group::<()>(), Arc::new(AtomicU32::new(0)));
    /// for n in 1..=100 {
    ///     let sum = Arc::clone(&sum);
    ///     group.submit(move || sum.fetch_add(n, Relaxed))?;
    /// }
    /// group.wait()?;
    /// assert_eq!(sum.load(Relaxed), 5050);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Cost
    /// One allocation, as for a spawned task, because the group can cancel the task.
    ///
    /// # Errors
    /// Returns the task unrun: see [`SubmitError`].
    pub fn submit<F, V>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> V + Send + 'static,
    {
        self.submit_with(task, None, self.host.admit().on_full())
    }

    /// Like [`submit`](Self::submit), but returns an error at a full pool.
    ///
    /// # Errors
    /// Returns the task unrun: see [`SubmitError`].
    pub fn try_submit<F, V>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> V + Send + 'static,
    {
        self.submit_with(task, None, OnFull::Refuse)
    }

    /// Like [`submit`](Self::submit), but waits for room at most for a duration, or until an instant.
    ///
    /// # Errors
    /// Returns the task unrun: see [`SubmitError`].
    pub fn submit_timeout<F, V>(
        &self,
        task: F,
        timeout: impl Into<Timeout>,
    ) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> V + Send + 'static,
    {
        self.submit_with(task, None, OnFull::Wait(self.deadline(timeout)))
    }

    /// Async version of [`submit`](Self::submit). Dropping the future has the same effect as for
    /// [`spawn_async`](Self::spawn_async).
    ///
    /// # Errors
    /// Returns the task unrun: see [`SubmitError`].
    pub fn submit_async<F, V>(
        &self,
        task: F,
    ) -> impl Future<Output = Result<(), SubmitError<F>>> + Send
    where
        F: FnOnce() -> V + Send + 'static,
    {
        self.adopt_async(Ignored(task), true, |task| task.0)
    }

    fn submit_with<F, V>(
        &self,
        task: F,
        options: Option<TaskOptions>,
        on_full: OnFull,
    ) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> V + Send + 'static,
    {
        self.adopt(Ignored(task), options, on_full, true, |task| task.0)
    }

    /// Adds a task. `back` converts a refused one.
    fn adopt<C, D>(
        &self,
        task: C,
        options: Option<TaskOptions>,
        on_full: OnFull,
        is_submitted: bool,
        back: fn(C) -> D,
    ) -> Result<(), SubmitError<D>>
    where
        Closures: Accepts<C>,
    {
        if let Err(refused) = self.refuses(options.as_ref(), on_full) {
            return give_back(refused, task, back);
        }
        let pools = self.host.admit();
        let handle = pools.handle_with::<P::Runner, _>(task, self.linked(options));
        match self.group.admit(pools, handle, on_full, is_submitted) {
            Ok(()) => Ok(()),
            Err((refused, handle)) => take_back(refused, handle, back),
        }
    }

    /// Refuses a task before its cell is allocated.
    fn refuses(&self, options: Option<&TaskOptions>, on_full: OnFull) -> Result<(), SubmitError> {
        let pools = self.host.admit();
        if self.group.refuses() {
            pools.count_unoffered();
            return Err(SubmitError::Cancelled(()));
        }
        pools.refuses_with(options, on_full)
    }

    /// Links the tokens of a task, each of which ends its wait for room, with the group's.
    fn linked(&self, options: Option<TaskOptions>) -> Option<TaskOptions> {
        let mut options = options?;
        if options.token.is_some() {
            options.cancelled_by(self.group.shared.token());
        }
        Some(options)
    }

    fn adopt_async<C, D>(
        &self,
        task: C,
        is_submitted: bool,
        back: fn(C) -> D,
    ) -> impl Future<Output = Result<(), SubmitError<D>>> + Send + use<'_, C, D, T, P>
    where
        Closures: Accepts<C>,
    {
        let pools = self.host.admit();
        let handle = pools.handle_with::<P::Runner, _>(task, None);
        async move {
            match self.group.admit_async(pools, handle, is_submitted).await {
                Ok(()) => Ok(()),
                Err((refused, handle)) => take_back(refused, handle, back),
            }
        }
    }

    /// Returns a builder for a task with options: a name, a token that cancels the task, a latest start.
    pub fn task(&self) -> TaskBuilder<'_, Self> {
        TaskBuilder::of(self)
    }

    /// Returns the number of tasks that have not ended, plus the number of ended tasks that were not taken.
    pub fn len(&self) -> usize {
        self.group.len()
    }

    /// Returns whether all tasks have ended and were taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels the tasks that have not started, and returns their number. They end with
    /// [`JoinError::Cancelled`]. Running tasks are asked to stop: see [`current`](pool_core::current). The group
    /// takes no further tasks: they are returned in [`SubmitError::Cancelled`].
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(1).queue_depth(2).start_paused(true).build()?;
    /// let group = pool.group();
    /// group.spawn(|| ())?;
    /// group.spawn(|| ())?;
    /// assert_eq!(group.cancel(), 2); // Neither had started.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "abort_all")]
    #[doc(alias = "shutdown")]
    pub fn cancel(&self) -> usize {
        self.group.cancel()
    }

    /// Blocks until a task has ended, and returns its value or error. Returns `None` if no task is left. Skips
    /// [submitted](Self::submit) tasks that completed.
    ///
    /// On a worker of the same pool, it runs tasks of the group that have not started, as
    /// [`JoinHandle::join`](pool_core::JoinHandle::join) does. A task that cannot be run there is detached,
    /// and [`JoinError::WouldDeadlock`] is returned for it.
    ///
    /// In a forked child the first call returns [`JoinError::Forked`], and later calls return `None`.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group();
    /// group.spawn(|| "one".len())?;
    /// group.spawn(|| "three".len())?;
    /// let mut sum = 0;
    /// while let Some(length) = group.next() { // As they end.
    ///     sum += length?;
    /// }
    /// assert_eq!(sum, 8);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn next(&self) -> Option<Result<T, JoinError>> {
        Some(self.group.next()?.take())
    }

    /// Returns the value or error of a task that has ended, if there is one. Never waits.
    pub fn try_next(&self) -> Option<Joined<T>> {
        Some(self.group.try_next()?.take())
    }

    /// Like [`next`](Self::next), but waits at most for a duration, or until an instant, by the pool's clock.
    /// Runs no task in place. A duration too long to express as an instant is no limit.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`].
    pub fn next_timeout(
        &self,
        timeout: impl Into<Timeout>,
    ) -> Result<Option<Result<T, JoinError>>, WaitError> {
        let next = self
            .group
            .next_until(self.deadline(timeout), shared::Until::Next)?;
        Ok(next.map(shared::Ended::take))
    }

    /// Blocks until all tasks have ended, including tasks that are added during the wait.
    ///
    /// Drops their values on the calling thread. A value that is an `Err` is dropped as well; use
    /// [`wait_ok`](TaskGroup::wait_ok) to get it.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group::<()>();
    /// for number in 0..10 {
    ///     group.submit(move || println!("{number}"))?;
    /// }
    /// group.wait()?; // Waits for these ten, not for other tasks of the pool.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The first error, after all tasks have ended. [`JoinError::Forked`] in a forked child.
    ///
    /// # Panics
    /// If the destructor of a value panics, with the first such panic, after all tasks have ended.
    #[doc(alias = "join_all")]
    pub fn wait(&self) -> Result<(), JoinError> {
        returned(self.group.wait(Self::until(), None))
    }

    /// Like [`wait`](Self::wait), but waits at most for a duration, or until an instant, by the pool's clock.
    /// Tasks that have ended by then are taken, and the group keeps their first error for the next wait.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if tasks are left. The inner result is that of [`wait`](Self::wait).
    ///
    /// # Panics
    /// Like [`wait`](Self::wait), even if the time is up.
    pub fn wait_timeout(
        &self,
        timeout: impl Into<Timeout>,
    ) -> Result<Result<(), JoinError>, WaitError> {
        let deadline = self.deadline(timeout);
        let waited = self.group.wait_until(Self::until(), deadline, None);
        waited.map(returned)
    }

    fn deadline(&self, timeout: impl Into<Timeout>) -> Option<Instant> {
        timeout.into().deadline(self.host.admit().clock())
    }

    /// The ends that wake a wait which drops the values.
    fn until() -> shared::Until {
        if mem::needs_drop::<T>() {
            shared::Until::Next
        } else {
            shared::Until::End
        }
    }

    /// Like [`next`](Self::next), for a future's `poll`. On a worker of the same pool it runs tasks of the group that
    /// have not started, as `next` does.
    ///
    /// The group keeps the waker of a pending poll until a task ends. [`next_async`](Self::next_async)
    /// removes the waker when it is dropped.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        let next = self.group.poll_next(context);
        next.map(|next| next.map(shared::Ended::take))
    }

    /// Async version of [`next`](Self::next), also in what a poll does on a worker of the same pool. Dropping the
    /// future loses no value.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use pool_core::Pool;
    /// # use pool_util::PoolExt;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group();
    /// group.spawn_async(|| 42).await?;
    /// assert_eq!(group.next_async().await.transpose()?, Some(42));
    /// assert!(group.next_async().await.is_none());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn next_async(&self) -> impl Future<Output = Option<Result<T, JoinError>>> + Send + '_ {
        let next = self.group.next_async();
        async move { Some(next.await?.take()) }
    }

    /// Async version of [`wait`](Self::wait). If the future is dropped, the group keeps the first error of the
    /// tasks that it has taken for the next wait.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    ///
    /// # Panics
    /// Like [`wait`](Self::wait).
    pub fn wait_async(&self) -> impl Future<Output = Result<(), JoinError>> + Send + '_ {
        let waited = self.group.wait_async(Self::until(), None);
        async { returned(waited.await) }
    }
}

// The errors of large tasks: functions of their own, so that the calls that move a task have no second place for it.

#[cold]
fn give_back<C, D>(refused: SubmitError, task: C, back: fn(C) -> D) -> Result<(), SubmitError<D>> {
    refuse(refused, back(task))
}

#[cold]
fn take_back<C, D>(
    refused: SubmitError,
    handle: RawHandle,
    back: fn(C) -> D,
) -> Result<(), SubmitError<D>>
where
    Closures: Accepts<C>,
{
    give_back(refused, handle.into_refused::<Closures, C>(), back)
}

/// Converts the outcome of a wait.
fn returned(first: Option<Ended>) -> Result<(), JoinError> {
    first.map_or(Ok(()), Ended::drop_value)
}

/// Groups of tasks that return a `Result`.
impl<T: Send + 'static, E: Send + 'static, P: PoolExt> TaskGroup<Result<T, E>, P> {
    /// Like [`cancel_on_error`](Self::cancel_on_error), and a task that returns `Err` cancels the group as well.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    /// use pool_util::MapError;
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let group = pool.group().cancel_on_failure();
    /// for number in ["12", "no", "13"] {
    ///     // Refused as `Cancelled` once the second task has failed.
    ///     if group.spawn(move || number.parse::<u32>()).is_err() { break }
    /// }
    /// assert!(matches!(group.wait_ok(), Err(MapError::Failed(_))));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// Modelled on Go's `errgroup`.
    #[doc(alias = "errgroup")]
    pub fn cancel_on_failure(self) -> Self {
        self.group.shared.set_fails(Fails::Values(Self::is_err));
        self
    }

    fn is_err(value: &dyn Any) -> bool {
        let result = value.downcast_ref::<Result<T, E>>();
        result.is_some_and(Result::is_err)
    }

    fn returned(first: Option<Ended>) -> Result<(), MapError<E>> {
        first.map_or(Ok(()), |ended| {
            judge(ended.take::<Result<T, E>>()).map(drop)
        })
    }

    /// Like [`wait`](Self::wait), and also returns an `Err` that a task returned.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    /// use pool_util::MapError;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group();
    /// group.spawn(|| anyhow::Ok(std::fs::metadata("Cargo.toml")?.len()))?;
    /// group.wait_ok().map_err(MapError::into_error)?; // `anyhow::Error`, or a boxed error.
    /// # anyhow::Ok(())
    /// ```
    ///
    /// # Errors
    /// The first error, after all tasks have ended.
    ///
    /// # Panics
    /// Like [`wait`](Self::wait).
    pub fn wait_ok(&self) -> Result<(), MapError<E>> {
        Self::returned(self.group.wait(shared::Until::Next, Some(Self::is_err)))
    }

    /// Async version of [`wait_ok`](Self::wait_ok). A dropped future leaves the tasks that it has not taken, and the first error of
    /// those that it has, to the next wait.
    ///
    /// # Errors
    /// Those of [`wait_ok`](Self::wait_ok).
    ///
    /// # Panics
    /// Like [`wait`](Self::wait).
    pub async fn wait_ok_async(&self) -> Result<(), MapError<E>> {
        let next = shared::Until::Next;
        Self::returned(self.group.wait_async(next, Some(Self::is_err)).await)
    }
}

impl<T: Send + 'static, P: PoolExt> fmt::Debug for TaskGroup<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup")
            .field("left", &self.len())
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static, P: PoolExt> OptionsHost for TaskGroup<T, P> {
    fn usual(&self) -> OnFull {
        self.host.admit().on_full()
    }
    fn after(&self, timeout: Timeout) -> Option<Instant> {
        self.deadline(timeout)
    }
}

impl<T: Send + 'static, P: PoolExt> PriorityHost for TaskGroup<T, P> {}

impl<F, T, P> SpawnWithOptions<F> for TaskGroup<T, P>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
    P: PoolExt,
{
    type Spawned = Result<(), SubmitError<F>>;

    fn spawn_with_options(&self, task: F, options: TaskOptions, on_full: OnFull) -> Self::Spawned {
        self.adopt(task, Some(options), on_full, false, identity)
    }
}

impl<F, V, T, P> SubmitWithOptions<F> for TaskGroup<T, P>
where
    F: FnOnce() -> V + Send + 'static,
    T: Send + 'static,
    P: PoolExt,
{
    type Submitted = Result<(), SubmitError<F>>;

    fn submit_with_options(
        &self,
        task: F,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Self::Submitted {
        self.submit_with(task, Some(options), on_full)
    }
}

/// Converts the outcome of a task that returns a `Result`.
pub(crate) fn judge<T, E>(ended: Joined<Result<T, E>>) -> Result<T, MapError<E>> {
    match ended {
        Ok(result) => result.map_err(MapError::Failed),
        Err(JoinError::Panicked(panicked)) => Err(MapError::Panicked(panicked)),
        Err(JoinError::Forked) => Err(MapError::Refused(SubmitError::Forked(()))),
        Err(JoinError::WouldDeadlock | JoinError::Discarded) => {
            Err(MapError::Refused(SubmitError::Full(())))
        }
        Err(JoinError::Cancelled) => Err(MapError::Refused(SubmitError::Cancelled(()))),
        Err(_) => Err(MapError::Refused(SubmitError::Released(()))),
    }
}

#[cfg(all(test, not(anthill_loom)))]
impl<T: Send + 'static> TaskGroup<T> {
    fn shared(&self) -> &shared::Shared {
        &self.group.shared
    }
}
