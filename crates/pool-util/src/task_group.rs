//! Groups: tasks that are waited for, or cancelled, together.
//!
//! A group's tasks are the pool's like any other, in its one queue. A task that was submitted yields
//! `None` where a spawned one yields its value, and of its good end nothing is kept. A task's end goes to the group
//! as it is shown ([`Listener`](crate::task::promise::Listener)), on the thread that ended it, and lies there
//! for the group's owner. That runs no user code: what is some (owners' wakers, the cancelling of the rest) is left
//! to be called as a handle's waker is.
//!
//! A [`TaskGroup`] adds the type of the values and the host to a [`Group`], which waits, and which has in [`shared`]
//! what the tasks' ends reach.

mod members;
mod shared;
mod tally;
mod waits;

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use std::{fmt, mem};

use pool_core::internals::{
    Admit, Ignored, Joined, OptionsHost, SpawnWithOptions, SubmitWithOptions, TaskOptions,
};
use pool_core::{
    Accepts, Closures, JoinError, OnFull, SubmitError, TaskBuilder, WaitError, WorkerPool,
};
use sync_shim::Timeout;
use sync_shim::foreign::drop_quietly;

use self::shared::Fails;
use self::tally::Tally;
use self::waits::Group;
use crate::{MapError, PoolExt};

/// Tasks of one pool that belong together: waited for, taken as they end, or cancelled.
///
/// Made by [`WorkerPool::group`]. Tasks may be handed over from anywhere; results are taken in the
/// order of their ends. Dropping it cancels what has not started, and detaches the rest.
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
/// From tokio's `JoinSet`, and Java's `ExecutorCompletionService`.
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
    /// An empty group of that pool's tasks; see [`WorkerPool::group`].
    pub fn of(host: &P) -> Self {
        Self {
            host: host.clone(),
            group: Group::of(host.admit().pool_handle()),
            of: PhantomData,
        }
    }

    /// From now on the first task that ends without a value (it panicked, or was cancelled) cancels those
    /// that have not started. Those that are handed over later end at once, cancelled, and the pool does not
    /// count them. A task's own `Err` is a value:
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

    /// Until then, by the pool's clock, the tasks may take: what has not started by that time is
    /// [cancelled](Self::cancel), and what runs is asked to stop, once. It is done by the waits
    /// ([`next`](Self::next), [`wait`](Self::wait) and their futures), which then go on: without one at that time,
    /// by the first that comes later. A future that has been polled, and a wait that runs tasks in place, leave
    /// it to the clock's thread, which calls wakers.
    ///
    /// ```
    /// use pool_core::{JoinError, Pool, current};
    /// use pool_util::PoolExt;
    /// use std::time::{Duration, Instant};
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let soon = Instant::now() + Duration::from_millis(1);
    /// let group = pool.group().cancel_at(soon);
    /// group.spawn(|| while !current().is_cancelled() { std::thread::yield_now() })?;
    /// // It was asked to stop, and did; or it had not started.
    /// assert!(matches!(group.wait(), Ok(()) | Err(JoinError::Cancelled)));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "timeout")]
    pub fn cancel_at(mut self, deadline: Instant) -> Self {
        self.group.cancel_at(deadline);
        self
    }

    /// Hands a task over, as the pool's [`spawn`](WorkerPool::spawn) does.
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
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.spawn_with(task, self.host.admit().on_full())
    }

    /// As [`spawn`](Self::spawn), but refuses at a full pool.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_spawn<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.spawn_with(task, OnFull::Refuse)
    }

    /// As [`spawn`](Self::spawn), but waits at most that long, or until that instant.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_timeout<F>(
        &self,
        task: F,
        timeout: impl Into<Timeout>,
    ) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.spawn_with(task, OnFull::Wait(self.deadline(timeout)))
    }

    /// As [`spawn`](Self::spawn), as a future that waits for room: of the group once it is ready. Dropped
    /// before that, it takes the task back, or leaves it to run as none of the group's if it was just
    /// accepted.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_async<F>(&self, task: F) -> impl Future<Output = Result<(), SubmitError<F>>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.adopt_async(task, false)
    }

    pub(crate) fn spawn_with<F>(&self, task: F, on_full: OnFull) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.adopt(task, None, on_full, false)
    }

    /// Hands a task over that yields no value: what it returns is dropped on the worker, as a part of
    /// the task. Waits as the pool's [`submit`](WorkerPool::submit) does.
    ///
    /// It is one of the group's like any other: [`wait`](Self::wait) waits for it, [`len`](Self::len)
    /// counts it until it has ended, a [`cancel`](Self::cancel), a deadline and the group's drop take it
    /// back, and if it panics or is cancelled that is an error of the group. But
    /// [`next`](Self::next) has nothing to say of its good end, and nothing of it is kept. An `Err` that
    /// it returns is dropped as well: [`spawn`](Self::spawn) what may fail.
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
    /// Costs one allocation, as a spawned task does: it can be cancelled.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit<F, V>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> V + Send + 'static,
    {
        self.submit_with(task, None, self.host.admit().on_full())
    }

    /// As [`submit`](Self::submit), but refuses at a full pool.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_submit<F, V>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> V + Send + 'static,
    {
        self.submit_with(task, None, OnFull::Refuse)
    }

    /// As [`submit`](Self::submit), but waits at most that long, or until that instant.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
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

    /// As [`submit`](Self::submit), as a future that waits for room: of the group once it is ready, as
    /// [`spawn_async`](Self::spawn_async) says.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_async<F, V>(
        &self,
        task: F,
    ) -> impl Future<Output = Result<(), SubmitError<F>>> + Send
    where
        F: FnOnce() -> V + Send + 'static,
    {
        let submitted = self.adopt_async(Ignored(task), true);
        async move { submitted.await.map_err(|refused| refused.map(|it| it.0)) }
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
        let submitted = self.adopt(Ignored(task), options, on_full, true);
        submitted.map_err(|refused| refused.map(|it| it.0))
    }

    /// Hands a task over, and takes it into the group.
    fn adopt<C>(
        &self,
        task: C,
        options: Option<TaskOptions>,
        on_full: OnFull,
        is_submitted: bool,
    ) -> Result<(), SubmitError<C>>
    where
        Closures: Accepts<C>,
    {
        if self.group.shared.ends_at_once() {
            drop_quietly(task);
            return Ok(());
        }
        let accepted = match options {
            None => self.host.admit().spawn_task(task, None, on_full),
            Some(options) => self.host.admit().spawn_task(task, Some(options), on_full),
        };
        self.group.shared.adopt(accepted?.into_raw(), is_submitted);
        Ok(())
    }

    /// As [`adopt`](Self::adopt), as a future that waits for room.
    fn adopt_async<C>(
        &self,
        task: C,
        is_submitted: bool,
    ) -> impl Future<Output = Result<(), SubmitError<C>>> + Send + use<'_, C, T, P>
    where
        Closures: Accepts<C>,
    {
        let accepted = Arc::clone(self.host.admit()).spawn_task_async(task, None);
        async move {
            if self.group.shared.ends_at_once() {
                drop_quietly(accepted);
                return Ok(());
            }
            let handle = accepted.await?.into_raw();
            self.group.shared.adopt(handle, is_submitted);
            Ok(())
        }
    }

    /// Sets a single task of the group up: its name, a token that cancels it, a time by which it is
    /// to be started. See [`TaskBuilder`], whose `spawn` and its kin a group has.
    pub fn task(&self) -> TaskBuilder<'_, Self> {
        TaskBuilder::of(self)
    }

    /// Tasks that have not ended, and those whose values were not taken.
    pub fn len(&self) -> usize {
        self.group.len()
    }

    /// Whether every task has ended, and its value was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels the tasks that have not started: how many. They end with
    /// [`JoinError::Cancelled`]. Those that run are asked to stop; see
    /// [`current`](crate::current).
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

    /// Blocks until a task has ended, and takes its value. `None` if there is no task left. A
    /// [submitted](Self::submit) one's end is passed over, unless it is an error.
    ///
    /// On a worker of the same pool it runs tasks of the group that have not started, as
    /// [`JoinHandle::join`](crate::JoinHandle::join) does; one that may not be run there is given up with
    /// [`JoinError::WouldDeadlock`].
    ///
    /// In a forked child the first call says [`JoinError::Forked`], and later ones `None`.
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

    /// The value of a task that has ended, if there is one. Never waits.
    pub fn try_next(&self) -> Option<Joined<T>> {
        Some(self.group.try_next()?.take())
    }

    /// As [`next`](Self::next), but waits at most that long, or until that instant, by the pool's
    /// clock, and runs nothing in place. A duration too long to express as an instant is no limit.
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

    /// Blocks until every task has ended, those that are handed over meanwhile too. Their values are
    /// dropped here, a task's own `Err` among them: [`try_wait`](TaskGroup::try_wait).
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
    /// group.wait()?; // For these ten, not for the pool's other tasks.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The first error, once all have ended. [`JoinError::Forked`] in a forked child.
    ///
    /// # Panics
    /// As the first value's destructor that did, once all have ended.
    #[doc(alias = "join_all")]
    pub fn wait(&self) -> Result<(), JoinError> {
        self.group.wait(Self::until())
    }

    /// As [`wait`](Self::wait), but at most that long, or until that instant, by the pool's clock.
    /// What has ended by then was taken.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`]; tasks are left. Inside, the first error.
    ///
    /// # Panics
    /// As [`wait`](Self::wait), also when the time is up.
    pub fn wait_timeout(
        &self,
        timeout: impl Into<Timeout>,
    ) -> Result<Result<(), JoinError>, WaitError> {
        self.group.wait_until(Self::until(), self.deadline(timeout))
    }

    fn deadline(&self, timeout: impl Into<Timeout>) -> Option<Instant> {
        timeout.into().deadline(self.host.admit().clock())
    }

    /// When a wait that drops the values is to be woken.
    fn until() -> shared::Until {
        if mem::needs_drop::<T>() {
            shared::Until::Next
        } else {
            shared::Until::End
        }
    }

    /// As [`next`](Self::next), for a future's `poll`. Runs nothing in place. If it is pending, the waker is kept
    /// until there is a value: [`next_async`](Self::next_async) takes it back when it is dropped.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        let next = self.group.poll_next(context);
        next.map(|next| next.map(shared::Ended::take))
    }

    /// As [`next`](Self::next), as a future. Dropped, it has taken nothing, and leaves nothing behind.
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

    /// As [`wait`](Self::wait), as a future.
    ///
    /// # Errors
    /// The first error, once all have ended. [`JoinError::Forked`] in a forked child.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn wait_async(&self) -> impl Future<Output = Result<(), JoinError>> + Send + '_ {
        self.group.wait_async(Self::until())
    }
}

/// Of tasks that may fail.
impl<T: Send + 'static, E: Send + 'static, P: PoolExt> TaskGroup<Result<T, E>, P> {
    /// As [`cancel_on_error`](Self::cancel_on_error), and a task that returns `Err` has failed, too.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    /// use pool_util::MapError;
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let group = pool.group().cancel_on_failure();
    /// group.spawn(|| "12".parse::<u32>())?;
    /// group.spawn(|| "no".parse::<u32>())?;
    /// group.spawn(|| unreachable!("it is cancelled, or was never taken"))
    ///     .map_err(|refused| refused.without_task())?;
    /// assert!(matches!(group.try_wait(), Err(MapError::Failed(_))));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// From Go's `errgroup`.
    #[doc(alias = "errgroup")]
    pub fn cancel_on_failure(self) -> Self {
        let is_err = |value: &dyn Any| {
            let result = value.downcast_ref::<Result<T, E>>();
            result.is_some_and(Result::is_err)
        };
        self.group.shared.set_fails(Fails::Values(is_err));
        self
    }

    /// As [`wait`](Self::wait), and a task's own `Err` is an error.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    /// use pool_util::MapError;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group();
    /// group.spawn(|| anyhow::Ok(std::fs::metadata("Cargo.toml")?.len()))?;
    /// group.try_wait().map_err(MapError::into_error)?; // `anyhow::Error`, or a boxed error.
    /// # anyhow::Ok(())
    /// ```
    ///
    /// # Errors
    /// The first, once all have ended.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn try_wait(&self) -> Result<(), MapError<E>> {
        let mut tally = Tally::new();
        while let Some(ended) = self.group.next() {
            tally.add(|| judge(ended.take::<Result<T, E>>()).map(drop));
        }
        tally.outcome()
    }

    /// As [`try_wait`](Self::try_wait), as a future.
    ///
    /// # Errors
    /// The first, once all have ended.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub async fn try_wait_async(&self) -> Result<(), MapError<E>> {
        let mut tally = Tally::new();
        while let Some(ended) = self.group.next_async().await {
            tally.add(|| judge(ended.take::<Result<T, E>>()).map(drop));
        }
        tally.outcome()
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

impl<F, T, P> SpawnWithOptions<F> for TaskGroup<T, P>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
    P: PoolExt,
{
    type Spawned = Result<(), SubmitError<F>>;

    fn spawn_with_options(&self, task: F, options: TaskOptions, on_full: OnFull) -> Self::Spawned {
        self.adopt(task, Some(options), on_full, false)
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

/// What a task that may fail came to.
pub(crate) fn judge<T, E>(ended: Joined<Result<T, E>>) -> Result<T, MapError<E>> {
    match ended {
        Ok(result) => result.map_err(MapError::Failed),
        Err(JoinError::Panicked(panicked)) => Err(MapError::Panicked(panicked)),
        Err(JoinError::Forked) => Err(MapError::Refused(SubmitError::Forked(()))),
        Err(JoinError::WouldDeadlock | JoinError::Discarded) => {
            Err(MapError::Refused(SubmitError::Full(())))
        }
        Err(_) => Err(MapError::Refused(SubmitError::Released(()))),
    }
}

#[cfg(all(test, not(anthill_loom)))]
impl<T: Send + 'static> TaskGroup<T> {
    fn shared(&self) -> &shared::Shared {
        &self.group.shared
    }
}
