//! Options of a single task, and the calls that hand it over with them.
//!
//! [`WorkerPool::submit`] and its variants bypass this file, so that tasks without options cost
//! nothing extra.
//!
//! An option is a field of [`TaskOptions`] and a setter of [`TaskBuilder`]. Its effect on an
//! accepted task is in [`TaskRecord`](crate::task::record::TaskRecord).

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use sync_shim::Timeout;

use crate::config::OnFull;
use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::runner::Runner;
use crate::error::SubmitError;
use crate::face::pool::WorkerPool;
use crate::sched::ready::Priority;
use crate::task::accept::Accepts;
use crate::task::cancel::CancelToken;
use crate::task::handle::JoinHandle;
use crate::task::options::TaskOptions;

/// Builder of a single task with options: a name, cancellation tokens, a latest start, a priority.
/// Made by [`WorkerPool::task`].
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
/// The task costs one allocation, both for submit and spawn.
#[must_use = "a task builder does nothing until a task is handed over"]
pub struct TaskBuilder<'p, P> {
    host: &'p P,
    options: TaskOptions,
}

impl<'p, P> TaskBuilder<'p, P> {
    /// Returns a builder of a task of this pool or group.
    pub fn of(host: &'p P) -> Self {
        Self {
            host,
            options: TaskOptions::default(),
        }
    }

    /// Names the task in reports of its panic, for task hooks, and for
    /// [`current`](crate::current()).
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// Adds a token that cancels the task. If there are several, each one cancels it.
    ///
    /// A cancelled task that has not started is not run. It stays in the queue until a worker takes
    /// and drops it; its handle ends with [`JoinError::Cancelled`](crate::JoinError::Cancelled). A
    /// running task can check [`current`](crate::current())`().is_cancelled()`. A call that
    /// waits for room fails with [`SubmitError::Cancelled`].
    pub fn cancelled_by(mut self, token: &CancelToken) -> Self {
        self.options.tokens.push(token.clone());
        self
    }

    /// Sets the latest start, by the pool's clock. A task that no worker has started by then is not
    /// run: its handle ends with [`JoinError::Expired`](crate::JoinError::Expired), and it is
    /// counted in [`Stats::expired`](crate::Stats::expired) when a worker takes it. A blocking call
    /// waits for room at most until then; a future does not apply this limit.
    pub fn start_before(mut self, when: Instant) -> Self {
        self.options.start_before = Some(when);
        self
    }

    /// Sets the priority among queued tasks. It has no effect in a pool built without
    /// [`priorities`](crate::Builder::priorities).
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
    pub fn priority(mut self, priority: Priority) -> Self {
        self.options.priority = priority;
        self
    }

    /// Hands over the task without a handle: see [`WorkerPool::submit`].
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    pub fn submit<T>(self, task: T) -> Result<(), SubmitError<T>>
    where
        P: SubmitWithOptions<T>,
    {
        let on_full = self.host.usual();
        self.host.submit_with_options(task, self.options, on_full)
    }

    /// As [`submit`](Self::submit), but refuses at a full pool: see [`WorkerPool::try_submit`].
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    pub fn try_submit<T>(self, task: T) -> Result<(), SubmitError<T>>
    where
        P: SubmitWithOptions<T>,
    {
        self.host
            .submit_with_options(task, self.options, OnFull::Refuse)
    }

    /// As [`submit`](Self::submit), but waits at most for a timeout: see
    /// [`WorkerPool::submit_timeout`].
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    pub fn submit_timeout<T>(
        self,
        task: T,
        timeout: impl Into<Timeout>,
    ) -> Result<(), SubmitError<T>>
    where
        P: SubmitWithOptions<T>,
    {
        let on_full = OnFull::Wait(self.host.after(timeout.into()));
        self.host.submit_with_options(task, self.options, on_full)
    }

    /// Async version of [`submit`](Self::submit): see [`WorkerPool::submit_async`].
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    pub fn submit_async<T>(
        self,
        task: T,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<P, T>
    where
        P: AwaitWithOptions<T>,
    {
        self.host.submit_with_options_async(task, self.options)
    }

    /// Hands over the task and returns a handle to its value: see [`WorkerPool::spawn`]. A task
    /// group (`pool_util::TaskGroup`) keeps the handle itself.
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    pub fn spawn<T>(self, task: T) -> Result<P::Handle, SubmitError<T>>
    where
        P: SpawnWithOptions<T>,
    {
        let on_full = self.host.usual();
        self.host.spawn_with_options(task, self.options, on_full)
    }

    /// As [`spawn`](Self::spawn), but refuses at a full pool: see [`WorkerPool::try_spawn`].
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    pub fn try_spawn<T>(self, task: T) -> Result<P::Handle, SubmitError<T>>
    where
        P: SpawnWithOptions<T>,
    {
        self.host
            .spawn_with_options(task, self.options, OnFull::Refuse)
    }

    /// As [`spawn`](Self::spawn), but waits at most for a timeout: see
    /// [`WorkerPool::spawn_timeout`].
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    pub fn spawn_timeout<T>(
        self,
        task: T,
        timeout: impl Into<Timeout>,
    ) -> Result<P::Handle, SubmitError<T>>
    where
        P: SpawnWithOptions<T>,
    {
        let on_full = OnFull::Wait(self.host.after(timeout.into()));
        self.host.spawn_with_options(task, self.options, on_full)
    }

    /// Async version of [`spawn`](Self::spawn): see [`WorkerPool::spawn_async`].
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    pub fn spawn_async<T>(
        self,
        task: T,
    ) -> impl Future<Output = Result<P::Handle, SubmitError<T>>> + Send + Unpin + use<P, T>
    where
        P: AwaitWithOptions<T>,
    {
        self.host.spawn_with_options_async(task, self.options)
    }
}

/// A pool or group that a [`TaskBuilder`] hands its task to.
pub trait OptionsHost {
    /// Policy of calls without a timeout at a full pool.
    fn usual(&self) -> OnFull;
    /// The deadline of a wait that starts now, by the pool's clock; `None` if it has no limit.
    fn after(&self, timeout: Timeout) -> Option<Instant>;
}

/// Spawns tasks with options.
#[expect(clippy::missing_errors_doc, reason = "documented on the builder")]
pub trait SpawnWithOptions<T>: OptionsHost {
    /// The caller's handle of the task.
    type Handle;
    /// See [`TaskBuilder::spawn`].
    fn spawn_with_options(
        &self,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<Self::Handle, SubmitError<T>>;
}

/// Submits tasks with options.
#[expect(clippy::missing_errors_doc, reason = "documented on the builder")]
pub trait SubmitWithOptions<T>: OptionsHost {
    /// See [`TaskBuilder::submit`].
    fn submit_with_options(
        &self,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError<T>>;
}

/// Async versions of [`SubmitWithOptions`] and [`SpawnWithOptions`].
pub trait AwaitWithOptions<T>: SpawnWithOptions<T> {
    /// See [`TaskBuilder::submit_async`].
    fn submit_with_options_async(
        &self,
        task: T,
        options: TaskOptions,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<Self, T>;
    /// See [`TaskBuilder::spawn_async`].
    fn spawn_with_options_async(
        &self,
        task: T,
        options: TaskOptions,
    ) -> impl Future<Output = Result<Self::Handle, SubmitError<T>>> + Send + Unpin + use<Self, T>;
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
    type Handle = JoinHandle<<P::Runner as Accepts<T>>::Value>;

    fn spawn_with_options(
        &self,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<Self::Handle, SubmitError<T>> {
        self.admit().spawn_task(task, Some(options), on_full)
    }
}

impl<T, P> SubmitWithOptions<T> for P
where
    P: AdmitHandle<Runner: Accepts<T>>,
{
    fn submit_with_options(
        &self,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError<T>> {
        self.admit().submit_recorded(task, options, on_full)
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
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<P, T> {
        Arc::clone(self.admit()).submit_task_async(task, Some(options))
    }
    fn spawn_with_options_async(
        &self,
        task: T,
        options: TaskOptions,
    ) -> impl Future<Output = Result<Self::Handle, SubmitError<T>>> + Send + Unpin + use<P, T> {
        Arc::clone(self.admit()).spawn_task_async(task, Some(options))
    }
}

/// Tasks with options.
impl<R: Runner, A: Admit<R>> WorkerPool<R, A> {
    /// Returns a builder of a single task with options: see [`TaskBuilder`].
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
