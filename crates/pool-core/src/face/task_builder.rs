//! What a single task may be given beside its closure, and the calls that hand it over so.
//!
//! Not for: tasks that are given nothing. [`WorkerPool::submit`] and its kin know of no options, and
//! cost nothing for them.
//!
//! An option is a field of [`TaskOptions`] and a setter of [`TaskBuilder`]. Whatever it means for the
//! accepted task lies in its [`TaskRecord`](crate::task::record::TaskRecord).

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

/// Gives a single task a name, a token that cancels it, a time to be started by; then hands it over.
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
/// Such a task costs one allocation, submitted or spawned.
#[must_use = "a task builder does nothing until a task is handed over"]
pub struct TaskBuilder<'p, P> {
    host: &'p P,
    options: TaskOptions,
}

impl<'p, P> TaskBuilder<'p, P> {
    /// For the tasks of that pool or group.
    pub fn of(host: &'p P) -> Self {
        Self {
            host,
            options: TaskOptions::default(),
        }
    }

    /// What the task is called, in reports of its panic, to task hooks, and by
    /// [`current`](crate::task::current).
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// The token cancels the task; of several, each does.
    ///
    /// A task that has not started is then not run: it keeps its place in the queue until a worker
    /// comes to it, which drops it, and its handle ends with
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled). One that runs is asked to stop:
    /// [`current`](crate::task::current)`().is_cancelled()`. A call that waits for room gives up, with
    /// [`SubmitError::Cancelled`].
    pub fn cancelled_by(mut self, token: &CancelToken) -> Self {
        self.options.tokens.push(token.clone());
        self
    }

    /// If no worker has started the task by then, by the pool's clock, it is not run: its handle ends
    /// with [`JoinError::Expired`](crate::JoinError::Expired), and it is counted as
    /// [`Stats::expired`](crate::Stats::expired) when a worker comes to it. A call that waits for
    /// room waits no longer than that; one that is a future waits on.
    pub fn start_before(mut self, when: Instant) -> Self {
        self.options.start_before = Some(when);
        self
    }

    /// Which queued tasks are started before it, in a pool that was built with
    /// [`priorities`](crate::Builder::priorities). Elsewhere it means nothing.
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

    /// Hands the task over, to be run and forgotten: see [`WorkerPool::submit`].
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
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
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_submit<T>(self, task: T) -> Result<(), SubmitError<T>>
    where
        P: SubmitWithOptions<T>,
    {
        self.host
            .submit_with_options(task, self.options, OnFull::Refuse)
    }

    /// As [`submit`](Self::submit), but waits at most for so long: see
    /// [`WorkerPool::submit_timeout`].
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
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

    /// As [`submit`](Self::submit), as a future: see [`WorkerPool::submit_async`].
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_async<T>(
        self,
        task: T,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<P, T>
    where
        P: AwaitWithOptions<T>,
    {
        self.host.submit_with_options_async(task, self.options)
    }

    /// Hands the task over and returns a handle to its value: see [`WorkerPool::spawn`]. Of a
    /// [`TaskGroup`](crate::TaskGroup) it is the group that has the handle.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
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
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_spawn<T>(self, task: T) -> Result<P::Handle, SubmitError<T>>
    where
        P: SpawnWithOptions<T>,
    {
        self.host
            .spawn_with_options(task, self.options, OnFull::Refuse)
    }

    /// As [`spawn`](Self::spawn), but waits at most for so long: see [`WorkerPool::spawn_timeout`].
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
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

    /// As [`spawn`](Self::spawn), as a future that resolves to the handle: see
    /// [`WorkerPool::spawn_async`].
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
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

/// Whatever a [`TaskBuilder`] gives its task to.
pub trait OptionsHost {
    /// What a call without a limit does at a full pool.
    fn usual(&self) -> OnFull;
    /// When a wait that begins now and takes so long is over, by the pool's clock; `None` if never.
    fn after(&self, timeout: Timeout) -> Option<Instant>;
}

/// Spawns tasks with options.
#[expect(clippy::missing_errors_doc, reason = "said by the builder")]
pub trait SpawnWithOptions<T>: OptionsHost {
    /// What the caller has of its task.
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
#[expect(clippy::missing_errors_doc, reason = "said by the builder")]
pub trait SubmitWithOptions<T>: OptionsHost {
    /// See [`TaskBuilder::submit`].
    fn submit_with_options(
        &self,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError<T>>;
}

/// Does both by futures.
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

/// Tasks that are given more than a closure.
impl<R: Runner, A: Admit<R>> WorkerPool<R, A> {
    /// Sets a single task up: its name, a token that cancels it, a time by which it is to be started.
    /// See [`TaskBuilder`].
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
