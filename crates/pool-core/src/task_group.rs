//! Groups: tasks that are waited for, or cancelled, together.
//!
//! A group's tasks are the pool's like any other, in its one queue. The group hears of each end by
//! the handle's waker, takes the value at once, and keeps it for its owner. Its own lock is held
//! neither while a handle is cancelled nor while a waker is called: both may run user code.
//!
//! # Invariants, whenever the lock is free
//! 1. A task of the group is in `handles`, or its value is in `ended`, or it is on its way from one
//!    to the other on the thread that its handle woke; `left` counts all three.
//! 2. While the owner sleeps, `ended` is empty and `left` is not 0.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use sync_shim::waiter::Waiter;
use sync_shim::{Mutex, Parker};

use crate::config::OnFull;
use crate::error::{JoinError, MapError, SubmitError, WaitError};
use crate::foreign::drop_quietly;
use crate::handle::{JoinHandle, PoolRef};
use crate::map::Host;
use crate::pool::WorkerPool;
use crate::task::closures::Closures;
use crate::task::promise::Joined;
use crate::task_builder::{OptionsHost, SpawnWithOptions, TaskBuilder, TaskOptions};

/// Tasks of one pool that belong together: waited for, taken as they end, or cancelled.
///
/// Made by [`WorkerPool::group`]. Tasks may be handed over from anywhere; results are taken in the
/// order of their ends. Dropping it cancels what has not started, and detaches the rest.
///
/// ```
/// use pool_core::Pool;
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
#[doc(alias = "JoinSet")]
#[doc(alias = "WaitGroup")]
#[doc(alias = "ExecutorCompletionService")]
pub struct TaskGroup<T: Send + 'static, P: Host = WorkerPool<Closures>> {
    host: P,
    shared: Arc<Shared<T>>,
}

struct Shared<T>(Mutex<State<T>>);

struct State<T> {
    /// By the order in which they were handed over.
    handles: BTreeMap<u64, JoinHandle<T>>,
    next: u64,
    ended: VecDeque<Joined<T>>,
    /// Tasks whose values were not taken.
    left: usize,
    owners: Vec<Waiter>,
    /// The first error cancels the rest, and what is handed over later.
    cancels_on_error: bool,
    failed: bool,
}

/// Wakes the group when one of its tasks has ended.
struct Ended<T> {
    shared: Arc<Shared<T>>,
    number: u64,
}

impl<T: Send + 'static> Wake for Ended<T> {
    fn wake(self: Arc<Self>) {
        // None: it is out to be cancelled or run, and looked at after that; or the group is gone.
        let handle = self.shared.0.lock().handles.remove(&self.number);
        if let Some(handle) = handle {
            self.shared.watch(self.number, handle);
        }
    }
}

impl<T: Send + 'static> Shared<T> {
    /// Takes a task's value if it is there, or has the group woken when it is.
    fn watch(self: &Arc<Self>, number: u64, mut handle: JoinHandle<T>) {
        let shared = Arc::clone(self);
        let waker = Waker::from(Arc::new(Ended { shared, number }));
        let mut state = self.0.lock();
        // Under the lock, so that the waker finds the handle. This runs no user code.
        match Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => _ = state.handles.insert(number, handle),
            Poll::Ready(value) => {
                drop(state);
                self.keep(value);
            }
        }
    }

    /// A task has ended.
    fn keep(self: &Arc<Self>, value: Joined<T>) {
        let mut state = self.0.lock();
        let fails = value.is_err() && state.cancels_on_error && !state.failed;
        state.failed |= fails;
        state.ended.push_back(value);
        let owners = mem::take(&mut state.owners);
        drop(state);
        owners.into_iter().for_each(Waiter::wake);
        if fails {
            self.cancel();
        }
    }

    /// Has `call` look at a handle, which is out of the group meanwhile: it may run user code.
    fn with_handle<R>(
        self: &Arc<Self>,
        number: u64,
        call: impl FnOnce(&JoinHandle<T>) -> R,
    ) -> Option<R> {
        let handle = self.0.lock().handles.remove(&number)?;
        let result = call(&handle);
        self.watch(number, handle);
        Some(result)
    }

    fn numbers(&self) -> Vec<u64> {
        self.0.lock().handles.keys().copied().collect()
    }

    /// Cancels what has not started, the last ones first: how many.
    fn cancel(self: &Arc<Self>) -> usize {
        let cancels = |&number: &u64| self.with_handle(number, JoinHandle::cancel) == Some(true);
        self.numbers()
            .iter()
            .rev()
            .filter(|number| cancels(number))
            .count()
    }

    /// Takes a value, `None` if there is none and none comes; or leaves a waiter.
    fn take_or_wait(&self, waiter: impl FnOnce() -> Option<Waiter>) -> Poll<Option<Joined<T>>> {
        // A waker's clone is user code: before the lock.
        let waiter = waiter();
        let mut state = self.0.lock();
        if let Some(value) = state.ended.pop_front() {
            state.left -= 1;
            return Poll::Ready(Some(value));
        }
        if state.left == 0 {
            return Poll::Ready(None);
        }
        let known = |one: &Waiter, other: &Waiter| match (one, other) {
            (Waiter::Task(one), Waiter::Task(other)) => one.will_wake(other),
            _ => false,
        };
        let mut unneeded = None;
        if let Some(waiter) = waiter {
            if state.owners.iter().any(|owner| known(owner, &waiter)) {
                unneeded = Some(waiter);
            } else {
                state.owners.push(waiter);
            }
        }
        drop(state);
        drop_quietly(unneeded);
        Poll::Pending
    }
}

impl<T: Send + 'static, P: Host> TaskGroup<T, P> {
    /// An empty group of that pool's tasks; see [`WorkerPool::group`].
    pub fn of(host: &P) -> Self {
        let state = State {
            handles: BTreeMap::new(),
            next: 0,
            ended: VecDeque::new(),
            left: 0,
            owners: Vec::new(),
            cancels_on_error: false,
            failed: false,
        };
        Self {
            host: host.clone(),
            shared: Arc::new(Shared(Mutex::new(state))),
        }
    }

    /// From now on the first task that ends without a value cancels those that have not started,
    /// and those that are handed over later.
    #[doc(alias = "errgroup")]
    pub fn cancel_on_error(self) -> Self {
        self.shared.0.lock().cancels_on_error = true;
        self
    }

    /// Hands a task over, as the pool's [`spawn`](WorkerPool::spawn) does.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.spawn_with(task, self.host.on_full())
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

    fn spawn_with<F>(&self, task: F, on_full: OnFull) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.adopt(self.host.spawn_on(task, on_full)?);
        Ok(())
    }

    /// A task has been accepted.
    fn adopt(&self, handle: JoinHandle<T>) {
        let mut state = self.shared.0.lock();
        let number = state.next;
        state.next += 1;
        state.left += 1;
        let failed = state.failed;
        drop(state);
        if failed {
            handle.cancel();
        }
        self.shared.watch(number, handle);
    }

    /// Sets a single task of the group up: its name, a token that cancels it, a time by which it is
    /// to be started. See [`TaskBuilder`], whose `spawn` and its kin a group has.
    pub fn task(&self) -> TaskBuilder<'_, Self> {
        TaskBuilder::of(self)
    }

    /// Tasks whose values were not taken.
    pub fn len(&self) -> usize {
        self.shared.0.lock().left
    }

    /// Whether every task's value was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels the tasks that have not started: how many. They end with
    /// [`JoinError::Cancelled`]. Those that run are asked to stop; see
    /// [`current`](crate::current).
    pub fn cancel(&self) -> usize {
        self.shared.cancel()
    }

    /// Blocks until a task has ended, and takes its value. `None` if there is no task left.
    ///
    /// On a worker of the same pool it runs tasks of the group that have not started, as
    /// [`JoinHandle::join`] does; one that may not be run there is given up with
    /// [`JoinError::WouldDeadlock`].
    pub fn next(&self) -> Option<Result<T, JoinError>> {
        let next = self.next_until(None);
        next.unwrap_or_else(|_| unreachable!("a wait without a limit has an outcome"))
    }

    /// As [`next`](Self::next), but waits at most until then by the pool's clock, and runs nothing
    /// in place.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`].
    pub fn next_deadline(
        &self,
        deadline: Instant,
    ) -> Result<Option<Result<T, JoinError>>, WaitError> {
        self.next_until(Some(deadline))
    }

    fn next_until(&self, deadline: Option<Instant>) -> Result<Option<Joined<T>>, WaitError> {
        let pool = self.host.pool_handle();
        if pool.is_forked() {
            return Ok(Some(Err(JoinError::Forked)));
        }
        let helps = deadline.is_none() && pool.0.is_own_worker();
        let parker = Parker::of_thread();
        loop {
            let waiter = || Some(Waiter::Thread(parker.clone()));
            if let Poll::Ready(next) = self.shared.take_or_wait(waiter) {
                return Ok(next);
            }
            if helps && self.help() {
                continue;
            }
            match deadline {
                None => parker.park(),
                Some(when) if pool.clock().park_until(&parker, when) => {}
                Some(_) => {
                    return match self.shared.take_or_wait(|| None) {
                        Poll::Ready(next) => Ok(next),
                        Poll::Pending => Err(WaitError::TimedOut),
                    };
                }
            }
        }
    }

    /// Runs a task of the group that has not started, or gives it up. `false` if there is none.
    fn help(&self) -> bool {
        for number in self.shared.numbers() {
            match self.shared.with_handle(number, JoinHandle::help) {
                Some(Some(true)) => return true,
                Some(Some(false)) => {
                    // It runs all the same, and its value is dropped.
                    let handle = self.shared.0.lock().handles.remove(&number);
                    if handle.is_some() {
                        self.shared.keep(Err(JoinError::WouldDeadlock));
                        return true;
                    }
                }
                Some(None) | None => {}
            }
        }
        false
    }

    /// Blocks until every task has ended, those that are handed over meanwhile too. Their values are
    /// dropped here.
    ///
    /// # Errors
    /// The first error, once all have ended.
    pub fn wait(&self) -> Result<(), JoinError> {
        let mut first = Ok(());
        while let Some(ended) = self.next() {
            first = first.and(ended.map(drop));
        }
        first
    }

    /// As [`wait`](Self::wait), but at most until then by the pool's clock. What has ended by then
    /// was taken.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`]; tasks are left. Inside, the first error.
    pub fn wait_deadline(&self, deadline: Instant) -> Result<Result<(), JoinError>, WaitError> {
        let mut first = Ok(());
        while let Some(ended) = self.next_deadline(deadline)? {
            first = first.and(ended.map(drop));
        }
        Ok(first)
    }

    /// As [`next`](Self::next), for a future's `poll`. Runs nothing in place.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        if self.host.pool_handle().is_forked() {
            return Poll::Ready(Some(Err(JoinError::Forked)));
        }
        let waiter = || Some(Waiter::Task(context.waker().clone()));
        self.shared.take_or_wait(waiter)
    }

    /// As [`next`](Self::next), as a future. Dropped, it has taken nothing.
    pub fn next_async(&self) -> impl Future<Output = Option<Result<T, JoinError>>> + Send + '_ {
        poll_fn(|context| self.poll_next(context))
    }

    /// As [`wait`](Self::wait), as a future.
    ///
    /// # Errors
    /// The first error, once all have ended.
    pub async fn wait_async(&self) -> Result<(), JoinError> {
        let mut first = Ok(());
        while let Some(ended) = self.next_async().await {
            first = first.and(ended.map(drop));
        }
        first
    }
}

impl<T: Send + 'static, P: Host> Drop for TaskGroup<T, P> {
    fn drop(&mut self) {
        if self.host.pool_handle().is_forked() {
            // The lock may be held by a thread that is not there.
            mem::forget(Arc::clone(&self.shared));
            return;
        }
        self.cancel();
        let mut state = self.shared.0.lock();
        let rest = (mem::take(&mut state.handles), mem::take(&mut state.ended));
        drop(state);
        drop_quietly(rest);
    }
}

impl<T: Send + 'static, P: Host> fmt::Debug for TaskGroup<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup")
            .field("left", &self.len())
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static, P: Host> OptionsHost for TaskGroup<T, P> {
    fn usual(&self) -> OnFull {
        self.host.on_full()
    }
    fn after(&self, timeout: Duration) -> Option<Instant> {
        self.host.pool_handle().clock().after(timeout)
    }
}

impl<F, T, P> SpawnWithOptions<F> for TaskGroup<T, P>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
    P: Host,
{
    type Handle = ();

    fn spawn_with_options(
        &self,
        task: F,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError<F>> {
        self.adopt(self.host.spawn_with_options_on(task, options, on_full)?);
        Ok(())
    }
}

/// The value of the first of these that succeeds; see [`WorkerPool::invoke_any`].
///
/// # Errors
/// The last error, if none succeeds; or why one was refused.
pub fn invoke_any<P, I, F, T, E>(host: &P, tasks: I) -> Result<Option<T>, MapError<E>>
where
    P: Host,
    I: IntoIterator<Item = F>,
    F: FnOnce() -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let group = TaskGroup::of(host);
    let mut failed = None;
    for task in tasks {
        if let Err(refused) = group.spawn_with(task, OnFull::Wait(None)) {
            failed = Some(MapError::Refused(refused.without_task()));
            break;
        }
        // Enough are on their way if one has succeeded.
        let ended = group.shared.take_or_wait(|| None);
        if let Poll::Ready(Some(ended)) = ended {
            match judge(ended) {
                Ok(value) => return Ok(Some(value)),
                Err(error) => failed = Some(error),
            }
        }
    }
    while let Some(ended) = group.next() {
        match judge(ended) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(None), Err)
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
        Err(JoinError::Released | JoinError::Cancelled | JoinError::Expired | JoinError::Taken) => {
            Err(MapError::Refused(SubmitError::Released(())))
        }
    }
}

/// Tasks that belong together.
impl WorkerPool<Closures> {
    /// An empty group, for tasks that are waited for, taken as they end, or cancelled together.
    #[doc(alias = "JoinSet")]
    pub fn group<T: Send + 'static>(&self) -> TaskGroup<T> {
        TaskGroup::of(self)
    }

    /// Runs tasks until one of them succeeds: its value. Those that have not started then are
    /// cancelled, those that run are not interrupted. `None` if there are no tasks.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let tries = ["no", "7", "also no"].map(|text| move || text.parse::<u32>());
    /// assert_eq!(pool.invoke_any(tries)?, Some(7));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The last error, if none succeeds; or why the pool refused one. From Java's
    /// `ExecutorService.invokeAny`.
    #[doc(alias = "invokeAny")]
    #[doc(alias = "select_ok")]
    pub fn invoke_any<I, F, T, E>(&self, tasks: I) -> Result<Option<T>, MapError<E>>
    where
        I: IntoIterator<Item = F>,
        F: FnOnce() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self::invoke_any(self, tasks)
    }
}
