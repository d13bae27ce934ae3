//! The builder of a single task: its options, and the calls that submit or spawn it with them.
//!
//! Not for: tasks without options. [`WorkerPool::submit`] and the other calls of a pool do not pay for
//! options.
//!
//! An option is a field of [`TaskOptions`] and a setter of [`TaskBuilder`]. Its effect on the accepted
//! task is in [`TaskRecord`](crate::task::options::TaskRecord). The host decides how a task is accepted: a
//! host implements [`SpawnWithOptions`] and [`SubmitWithOptions`], or takes the builder apart
//! ([`TaskBuilder::into_parts`]).

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use sync_shim::Timeout;

use crate::cancel::CancelToken;
use crate::config::OnFull;
use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::runner::{Accepts, Runner};
use crate::error::SubmitError;
use crate::face::pool::WorkerPool;
use crate::sched::ready::Priority;
use crate::task::handle::JoinHandle;
use crate::task::options::TaskOptions;

/// Sets the options of a single task (name, cancel tokens, start deadline, priority), then submits or
/// spawns it. Returned by [`WorkerPool::task`] and by the `task` calls of groups, scopes and scheduled
/// pools.
///
/// ```
/// use pool_core::{CancelToken, Pool};
///
/// let pool = Pool::builder().capacity(2).build()?;
/// let shutdown = CancelToken::new();
/// let import = pool
///     .task()
///     .name("import")
///     .cancelled_by(&shutdown)
///     .spawn(|| pool_core::current().name().map(str::to_owned))?;
/// assert_eq!(import.join()?.as_deref(), Some("import"));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// The options of a task cost one allocation. On a pool, a submitted task with options is in another
/// one if it captures more than 40 bytes (without options: 56), and a spawned task always is.
#[must_use = "a task builder does nothing until its task is submitted or spawned"]
pub struct TaskBuilder<'p, P> {
    host: &'p P,
    options: TaskOptions,
}

impl<'p, P> TaskBuilder<'p, P> {
    /// Returns a builder of a task for `host`.
    pub fn of(host: &'p P) -> Self {
        Self {
            host,
            options: TaskOptions::default(),
        }
    }

    /// Returns the host and the options, for a host whose calls are in another crate.
    #[doc(hidden)]
    pub fn into_parts(self) -> (&'p P, TaskOptions) {
        (self.host, self.options)
    }

    /// Sets the task's name, for reports of its panic, task hooks, and
    /// [`current`](crate::current).
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// Adds a token that cancels the task. Any of several tokens cancels it.
    ///
    /// A cancelled task that has not started is never run. It keeps its place in the queue (and, in a
    /// scheduled pool, its due time) until a worker dequeues and drops it; then its handle ends with
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled). A running task is asked to stop:
    /// [`current`](crate::current)`().is_cancelled()` returns `true`, and the run of a series is
    /// its last. A call that waits for room fails with [`SubmitError::Cancelled`].
    pub fn cancelled_by(mut self, token: &CancelToken) -> Self {
        self.options.cancelled_by(token);
        self
    }
}

impl<P: OptionsHost> TaskBuilder<'_, P> {
    /// Sets the time by which a worker must have started the task.
    ///
    /// A task that has not started at `when`, by the pool's clock, is never run: its handle ends with
    /// [`JoinError::Expired`](crate::JoinError::Expired), and [`Stats::expired`](crate::Stats::expired)
    /// counts it when a worker dequeues it. A blocking call waits for room until `when` at the latest;
    /// an async call is not limited by it.
    pub fn start_before(mut self, when: Instant) -> Self {
        self.options.start_before = Some(when);
        self
    }

    /// Sets the task's priority among queued tasks, in a pool built with
    /// [`priorities`](crate::Builder::priorities). Other pools refuse a task whose priority is not
    /// `Normal`, with [`NoPriorities`](crate::SubmitError::NoPriorities).
    ///
    /// ```
    /// use pool_core::{Pool, Priority};
    ///
    /// let pool = Pool::builder().capacity(1).queue_depth(10).priorities(true).start_paused(true);
    /// let pool = pool.build()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// for (priority, text) in [(Priority::Low, "later"), (Priority::High, "now")] {
    ///     let sender = sender.clone();
    ///     pool.task().priority(priority).submit(move || sender.send(text))?;
    /// }
    /// pool.resume();
    /// assert_eq!([receiver.recv()?, receiver.recv()?], ["now", "later"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn priority(mut self, priority: Priority) -> Self
    where
        P: PriorityHost,
    {
        self.options.priority = priority;
        self
    }

    /// Submits the task, without a handle: see [`WorkerPool::submit`]. A scope returns `()`, since it
    /// never rejects a task.
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`SubmitError`].
    pub fn submit<T>(self, task: T) -> P::Submitted
    where
        P: SubmitWithOptions<T>,
    {
        let on_full = self.host.usual();
        self.host.submit_with_options(task, self.options, on_full)
    }

    /// Submits the task unless the pool is full: see [`WorkerPool::try_submit`].
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`SubmitError`].
    pub fn try_submit<T>(self, task: T) -> Result<(), SubmitError<T>>
    where
        P: SubmitWithOptions<T, Submitted = Result<(), SubmitError<T>>>,
    {
        self.host
            .submit_with_options(task, self.options, OnFull::Refuse)
    }

    /// Submits the task, and waits for room until the timeout has passed: see
    /// [`WorkerPool::submit_timeout`].
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`SubmitError`].
    pub fn submit_timeout<T>(
        self,
        task: T,
        timeout: impl Into<Timeout>,
    ) -> Result<(), SubmitError<T>>
    where
        P: SubmitWithOptions<T, Submitted = Result<(), SubmitError<T>>>,
    {
        let on_full = OnFull::Wait(self.host.after(timeout.into()));
        self.host.submit_with_options(task, self.options, on_full)
    }

    /// Async version of [`submit`](Self::submit): see [`WorkerPool::submit_async`].
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`SubmitError`].
    pub fn submit_async<T>(
        self,
        task: T,
    ) -> impl Future<Output = P::Submitted> + Send + Unpin + use<P, T>
    where
        P: AwaitWithOptions<T>,
    {
        self.host.submit_with_options_async(task, self.options)
    }

    /// Spawns the task and returns the handle of its value: see [`WorkerPool::spawn`]. A group keeps
    /// the handle and returns `()` in its place. A scope returns the handle itself, since it never
    /// rejects a task.
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`SubmitError`].
    pub fn spawn<T>(self, task: T) -> P::Spawned
    where
        P: SpawnWithOptions<T>,
    {
        let on_full = self.host.usual();
        self.host.spawn_with_options(task, self.options, on_full)
    }

    /// Spawns the task unless the pool is full: see [`WorkerPool::try_spawn`].
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`SubmitError`].
    pub fn try_spawn<T, H>(self, task: T) -> Result<H, SubmitError<T>>
    where
        P: SpawnWithOptions<T, Spawned = Result<H, SubmitError<T>>>,
    {
        self.host
            .spawn_with_options(task, self.options, OnFull::Refuse)
    }

    /// Spawns the task, and waits for room until the timeout has passed: see
    /// [`WorkerPool::spawn_timeout`].
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`SubmitError`].
    pub fn spawn_timeout<T, H>(
        self,
        task: T,
        timeout: impl Into<Timeout>,
    ) -> Result<H, SubmitError<T>>
    where
        P: SpawnWithOptions<T, Spawned = Result<H, SubmitError<T>>>,
    {
        let on_full = OnFull::Wait(self.host.after(timeout.into()));
        self.host.spawn_with_options(task, self.options, on_full)
    }

    /// Async version of [`spawn`](Self::spawn): see [`WorkerPool::spawn_async`].
    ///
    /// # Errors
    /// Returns the task if it is rejected: see [`SubmitError`].
    pub fn spawn_async<T>(
        self,
        task: T,
    ) -> impl Future<Output = P::Spawned> + Send + Unpin + use<P, T>
    where
        P: AwaitWithOptions<T>,
    {
        self.host.spawn_with_options_async(task, self.options)
    }
}

/// A host of a [`TaskBuilder`] whose tasks may have a priority: each is in a pool's queue.
pub trait PriorityHost: OptionsHost {}

impl<P: AdmitHandle> PriorityHost for P {}

/// A host of a [`TaskBuilder`] whose tasks may have a start deadline.
pub trait OptionsHost {
    /// The host's policy for a full pool.
    fn usual(&self) -> OnFull;
    /// When `timeout` has passed on the pool's clock; `None` if never.
    fn after(&self, timeout: Timeout) -> Option<Instant>;
}

/// Spawns tasks with options.
pub trait SpawnWithOptions<T>: OptionsHost {
    /// Result of [`TaskBuilder::spawn`]: a handle, or an error with the task if the host may reject
    /// it.
    type Spawned;
    /// See [`TaskBuilder::spawn`].
    fn spawn_with_options(&self, task: T, options: TaskOptions, on_full: OnFull) -> Self::Spawned;
}

/// Submits tasks with options.
pub trait SubmitWithOptions<T>: OptionsHost {
    /// Result of [`TaskBuilder::submit`].
    type Submitted;
    /// See [`TaskBuilder::submit`].
    fn submit_with_options(
        &self,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Self::Submitted;
}

/// Submits and spawns tasks with options, asynchronously.
pub trait AwaitWithOptions<T>: SpawnWithOptions<T> + SubmitWithOptions<T> {
    /// See [`TaskBuilder::submit_async`].
    fn submit_with_options_async(
        &self,
        task: T,
        options: TaskOptions,
    ) -> impl Future<Output = Self::Submitted> + Send + Unpin + use<Self, T>;
    /// See [`TaskBuilder::spawn_async`].
    fn spawn_with_options_async(
        &self,
        task: T,
        options: TaskOptions,
    ) -> impl Future<Output = Self::Spawned> + Send + Unpin + use<Self, T>;
}

impl<P: AdmitHandle> OptionsHost for P {
    fn usual(&self) -> OnFull {
        self.admit().on_full()
    }
    fn after(&self, timeout: Timeout) -> Option<Instant> {
        timeout.deadline(self.admit().clock())
    }
}

impl<T, P> SpawnWithOptions<T> for P
where
    P: AdmitHandle<Runner: Accepts<T>>,
{
    type Spawned = Result<JoinHandle<<P::Runner as Accepts<T>>::Value>, SubmitError<T>>;

    fn spawn_with_options(&self, task: T, options: TaskOptions, on_full: OnFull) -> Self::Spawned {
        self.admit()
            .spawn_task::<P::Runner, _>(task, Some(options), on_full)
    }
}

impl<T, P> SubmitWithOptions<T> for P
where
    P: AdmitHandle<Runner: Accepts<T>>,
{
    type Submitted = Result<(), SubmitError<T>>;

    fn submit_with_options(
        &self,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Self::Submitted {
        self.admit()
            .submit_with_options::<P::Runner, _>(task, options, on_full)
    }
}

impl<T, P> AwaitWithOptions<T> for P
where
    P: AdmitHandle<Runner: Accepts<T>>,
{
    fn submit_with_options_async(
        &self,
        task: T,
        options: TaskOptions,
    ) -> impl Future<Output = Self::Submitted> + Send + Unpin + use<P, T> {
        Arc::clone(self.admit()).submit_task_async::<P::Runner, _>(task, Some(options))
    }
    fn spawn_with_options_async(
        &self,
        task: T,
        options: TaskOptions,
    ) -> impl Future<Output = Self::Spawned> + Send + Unpin + use<P, T> {
        Arc::clone(self.admit()).spawn_task_async::<P::Runner, _>(task, Some(options))
    }
}

impl<R: Runner, A: Admit> WorkerPool<R, A> {
    /// Returns a builder that sets the options of a single task: name, cancel tokens, start deadline,
    /// priority.
    pub fn task(&self) -> TaskBuilder<'_, Self> {
        TaskBuilder::of(self)
    }
}

impl<P> fmt::Debug for TaskBuilder<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBuilder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
