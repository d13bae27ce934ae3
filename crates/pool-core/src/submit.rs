//! The ten calls that hand a task to a pool, and what they come to.
//!
//! A call says what it does at a full pool ([`OnFull`]). The runner makes a job of the task
//! ([`Accepts`]), the pool or a multi-pool's strategy admits it ([`Admit`]), and a refused job is
//! made into the task again.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sync_shim::fork_count;

use crate::accept::Accepts;
use crate::cancel::{CancelToken, Cancelled};
use crate::config::OnFull;
use crate::core::Core;
use crate::error::SubmitError;
use crate::handle::{JoinHandle, PoolRef};
use crate::pool::WorkerPool;
use crate::pool_handle::PoolHandle;
use crate::runner::Runner;
use crate::sched::queue::Chunk;
use crate::sched::waiters::WaitResult;
use crate::submit_future::SubmitFuture;
use crate::task::options::{TaskOptions, WaitLimits};
use crate::task::pack::fits;
use crate::task::record::TaskRecord;

/// The handle of a pool, or of several: what of it takes part in [`Admit`] and in all that stands on
/// that.
pub trait AdmitHandle {
    /// What its pools run.
    type Runner: Runner;
    /// What admits.
    type Admit: Admit<Self::Runner> + Send + Sync + 'static;
    /// What admits this handle's tasks.
    fn admit(&self) -> &Arc<Self::Admit>;
}

impl<R: Runner> AdmitHandle for WorkerPool<R> {
    type Runner = R;
    type Admit = Core<R>;
    fn admit(&self) -> &Arc<Core<R>> {
        self.core()
    }
}

/// How a job gets in: to one pool, or to the one of several that a strategy chooses.
///
/// The provided methods are what the ten calls of both come to. What is refused comes back.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
pub trait Admit<R: Runner>: Sized {
    /// The pool that a handle asks for the clock and the panic hook.
    fn pool_handle(self: &Arc<Self>) -> PoolHandle<R>;

    /// What becomes of a task that was given nothing, before a job is made of it.
    fn precheck(&self, on_full: OnFull) -> Precheck;

    /// What refuses any task before a job is made of it. It has been counted.
    fn refuses(&self, on_full: OnFull) -> Result<(), SubmitError>;

    /// Whether each task is to have a record.
    fn records_all(&self) -> bool;

    /// The pools, if it admits to several.
    fn members(&self) -> &[PoolHandle<R>] {
        &[]
    }

    /// Accepts the job, waits for room as `on_full` and `limits` say, or gives the job back. It may
    /// be made under a lock: no user code.
    fn admit_job(
        self: &Arc<Self>,
        job: impl FnOnce() -> R::Job,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> Admitted<R>;

    /// A task was refused before it was offered to a pool.
    fn count_unoffered(&self);

    /// For a call that itself says what it does at a full pool: the task, unless that might discard
    /// one which no hook sees.
    fn check_discards<T>(self: &Arc<Self>, task: T, on_full: OnFull) -> Result<T, SubmitError<T>> {
        if self.pool_handle().discards_unseen(on_full) {
            self.count_unoffered();
            return Err(SubmitError::NoDiscardHook(task));
        }
        Ok(task)
    }

    /// Takes as many of the jobs as it likes, the first ones; none, if it takes them one by one.
    fn admit_some(self: &Arc<Self>, _jobs: Chunk<'_, R::Job>) {}

    /// As a future that waits for room, until that token is `cancelled`: it resolves to what
    /// `answer` makes of the answer.
    fn admit_async<T>(
        self: Arc<Self>,
        job: R::Job,
        cancelled: Option<Cancelled>,
        answer: impl FnOnce(&Self, Admitted<R>) -> T + Send,
    ) -> impl Future<Output = T> + Send + Unpin;

    /// The handle of a task which that pool has accepted. It was made as the
    /// [`pool_handle`](Self::pool_handle)'s.
    #[inline]
    fn handle_of<T: Send + 'static>(&self, _pool: usize, handle: JoinHandle<T>) -> JoinHandle<T> {
        handle
    }

    /// Hands a task over that has no handle.
    fn submit_task<T>(self: &Arc<Self>, task: T, on_full: OnFull) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        match self.precheck(on_full) {
            Precheck::Plain => self.submit_plain(task, on_full),
            Precheck::Full => Err(SubmitError::Full(task)),
            Precheck::Special => self.submit_recorded(task, TaskOptions::default(), on_full),
        }
    }

    /// Makes a job of a task and hands it over. In a function of its own, and where it is to lie, a
    /// task's words go from registers into the job; elsewhere they would go by the stack, and be
    /// read back in another size. One that goes into a box does so with no lock held.
    #[inline(never)]
    fn submit_plain<T>(self: &Arc<Self>, task: T, on_full: OnFull) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        let admitted = if fits::<T>() {
            self.admit_job(|| R::plain(task), on_full, None)
        } else {
            let job = R::plain(task);
            self.admit_job(|| job, on_full, None)
        };
        forget_pool::<R, T>(admitted)
    }

    /// Hands a task over that has one.
    fn spawn_task<T>(self: &Arc<Self>, task: T, on_full: OnFull) -> Spawned<R::Value, T>
    where
        R: Accepts<T>,
    {
        match self.precheck(on_full) {
            Precheck::Plain => {}
            Precheck::Full => return Err(SubmitError::Full(task)),
            Precheck::Special => {
                return self.spawn_recorded(task, TaskOptions::default(), on_full);
            }
        }
        let (job, handle) = promise(task, self.pool_handle());
        answer(&**self, self.admit_job(job, on_full, None), handle)
    }

    /// A job without a handle, for those that find room by other ways than the calls.
    #[inline]
    fn detached_job<T>(self: &Arc<Self>, task: T) -> R::Job
    where
        R: Accepts<T>,
    {
        if self.records_all() {
            recorded_job(task, self.pool_handle())
        } else {
            R::plain(task)
        }
    }

    /// A job and its handle, as [`detached_job`](Self::detached_job).
    fn spawned_job<T>(self: &Arc<Self>, task: T) -> (R::Job, JoinHandle<R::Value>)
    where
        R: Accepts<T>,
    {
        if self.records_all() {
            let options = TaskOptions::default();
            let recorded = recorded(task, options, self.pool_handle(), false);
            (recorded.job, recorded.handle)
        } else {
            let (job, handle) = promise(task, self.pool_handle());
            (job(), handle)
        }
    }

    /// As a future.
    fn submit_task_async<T>(
        self: Arc<Self>,
        task: T,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin
    where
        R: Accepts<T>,
    {
        let job = self.detached_job(task);
        self.admit_async(job, None, |_, admitted| forget_pool::<R, T>(admitted))
    }

    /// As a future that resolves to the handle.
    fn spawn_task_async<T>(
        self: Arc<Self>,
        task: T,
    ) -> impl Future<Output = Spawned<R::Value, T>> + Send + Unpin
    where
        R: Accepts<T>,
    {
        let (job, handle) = self.spawned_job(task);
        self.admit_async(job, None, |pools, admitted| answer(pools, admitted, handle))
    }

    /// Hands a task with options over that has no handle. In a function of its own: inlined, it would
    /// be most of each call that hands a task over.
    #[inline(never)]
    fn submit_recorded<T>(
        self: &Arc<Self>,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        let Recorded {
            job,
            handle,
            limits,
        } = self.record(task, options, on_full, true)?;
        drop(handle); // Before a worker has it: there is none from the beginning.
        forget_pool::<R, T>(self.admit_job(|| job, on_full, Some(&limits)))
    }

    /// Hands a task with options over that has one. In a function of its own, too.
    #[inline(never)]
    fn spawn_recorded<T>(
        self: &Arc<Self>,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Spawned<R::Value, T>
    where
        R: Accepts<T>,
    {
        let Recorded {
            job,
            handle,
            limits,
        } = self.record(task, options, on_full, false)?;
        let admitted = self.admit_job(|| job, on_full, Some(&limits));
        answer(&**self, admitted, handle)
    }

    /// As a future.
    fn submit_recorded_async<T>(
        self: Arc<Self>,
        task: T,
        options: TaskOptions,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin
    where
        R: Accepts<T>,
    {
        let Recorded {
            job,
            handle,
            limits,
        } = recorded(task, options, self.pool_handle(), true);
        drop(handle);
        self.admit_async(job, limits.cancelled(), |_, admitted| {
            forget_pool::<R, T>(admitted)
        })
    }

    /// As a future that resolves to the handle.
    fn spawn_recorded_async<T>(
        self: Arc<Self>,
        task: T,
        options: TaskOptions,
    ) -> impl Future<Output = Spawned<R::Value, T>> + Send + Unpin
    where
        R: Accepts<T>,
    {
        let Recorded {
            job,
            handle,
            limits,
        } = recorded(task, options, self.pool_handle(), false);
        self.admit_async(job, limits.cancelled(), |pools, admitted| {
            answer(pools, admitted, handle)
        })
    }

    /// A job with a record, unless the task is refused before that.
    fn record<T>(
        self: &Arc<Self>,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
        is_detached: bool,
    ) -> Result<Recorded<R, R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        if options.tokens.iter().any(CancelToken::is_cancelled) {
            self.count_unoffered();
            return Err(SubmitError::Cancelled(task));
        }
        if let Err(refused) = self.refuses(on_full) {
            return Err(refused.with_task(task));
        }
        Ok(recorded(task, options, self.pool_handle(), is_detached))
    }
}

/// A job with a record, its handle, and what ends its wait for room.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct Recorded<R: Runner, V: Send + 'static> {
    job: R::Job,
    handle: JoinHandle<V>,
    limits: WaitLimits,
}

fn recorded<R: Accepts<T>, T>(
    task: T,
    options: TaskOptions,
    pool: PoolHandle<R>,
    is_detached: bool,
) -> Recorded<R, R::Value> {
    let start_before = options.start_before;
    let record = TaskRecord::new(options, is_detached, &pool.0.context);
    let limits = WaitLimits::new(record.token.clone(), start_before);
    let (job, promise) = pool.0.runner.recorded(task, record);
    let handle = JoinHandle::new(promise.0, pool.0);
    Recorded {
        job,
        handle,
        limits,
    }
}

/// A job without a handle, with a record. In a function of its own, as those that take options.
#[inline(never)]
pub(crate) fn recorded_job<R: Accepts<T>, T>(task: T, pool: PoolHandle<R>) -> R::Job {
    recorded(task, TaskOptions::default(), pool, true).job
}

/// What becomes of a task that was given nothing, before a job is made of it.
#[derive(Clone, Copy, Debug)]
pub enum Precheck {
    /// It asks to be let in.
    Plain,
    /// The call does not wait, and the pool is full. It has been counted.
    Full,
    /// It goes the way of a task with options, where all else is looked at: a task hook, or its
    /// submitter's span, asks for a record; or this is a forked child.
    Special,
}

/// Which pool accepted a job, of several (a single pool is 0); or the job, if none did.
pub type Admitted<R> = Result<usize, SubmitError<<R as Runner>::Job>>;

/// The handle of an accepted task, or the task.
pub(crate) type Spawned<V, T> = Result<JoinHandle<V>, SubmitError<T>>;

/// What makes a job, and its handle. The handle is made first, so that a future which is dropped after its job
/// was accepted detaches it.
pub(crate) fn promise<R: Accepts<T>, T>(
    task: T,
    pool: PoolHandle<R>,
) -> (
    impl FnOnce() -> R::Job + Send + use<R, T>,
    JoinHandle<R::Value>,
) {
    let (job, promise) = pool.0.runner.spawned(task);
    (job, JoinHandle::new(promise.0, pool.0))
}

/// The one place where a handle goes to the caller.
fn answer<R: Accepts<T>, T>(
    pools: &impl Admit<R>,
    admitted: Admitted<R>,
    handle: JoinHandle<R::Value>,
) -> Spawned<R::Value, T> {
    match admitted {
        Ok(pool) => Ok(pools.handle_of(pool, handle)),
        Err(refused) => Err(refused.map(R::task_of)),
    }
}

/// Without a handle it does not matter which pool it was.
#[inline]
fn forget_pool<R: Accepts<T>, T>(admitted: Admitted<R>) -> Result<(), SubmitError<T>> {
    match admitted {
        Ok(_) => Ok(()),
        Err(refused) => Err(refused.map(R::task_of)),
    }
}

impl<R: Runner> Admit<R> for Core<R> {
    #[inline]
    fn pool_handle(self: &Arc<Self>) -> PoolHandle<R> {
        PoolHandle(Arc::clone(self))
    }

    #[inline]
    fn precheck(&self, on_full: OnFull) -> Precheck {
        // One comparison for a fork and for records.
        if fork_count() != self.plain_forks {
            Precheck::Special
        } else if self.refuses_full(on_full) {
            Precheck::Full
        } else {
            Precheck::Plain
        }
    }

    #[inline]
    fn refuses(&self, on_full: OnFull) -> Result<(), SubmitError> {
        if self.is_forked() {
            Err(SubmitError::Forked(()))
        } else if self.refuses_full(on_full) {
            Err(SubmitError::Full(()))
        } else {
            Ok(())
        }
    }

    fn records_all(&self) -> bool {
        self.records_all()
    }

    fn admit_some(self: &Arc<Self>, jobs: Chunk<'_, R::Job>) {
        self.admit_chunk(jobs);
    }

    #[inline]
    fn admit_job(
        self: &Arc<Self>,
        job: impl FnOnce() -> R::Job,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> Admitted<R> {
        refusal(self.submit(job, on_full, limits))
    }

    fn count_unoffered(&self) {
        self.count_refused();
    }

    fn admit_async<T>(
        self: Arc<Self>,
        job: R::Job,
        cancelled: Option<Cancelled>,
        answer: impl FnOnce(&Self, Admitted<R>) -> T + Send,
    ) -> impl Future<Output = T> + Send + Unpin {
        SubmitFuture::new(self, job, cancelled, |core: &Self, result| {
            answer(core, refusal(result))
        })
    }
}

#[inline]
fn refusal<J>(result: WaitResult<J>) -> Result<usize, SubmitError<J>> {
    match result {
        Ok(()) => Ok(0),
        Err((reason, job)) => Err(reason.with(job)),
    }
}

impl<R: Runner> Core<R> {
    /// What `submit` and `spawn` do at a full pool.
    #[inline]
    pub(crate) fn on_full(&self) -> OnFull {
        self.config.on_full
    }

    /// Whether a call that does so might discard a task that no hook sees.
    pub(crate) fn discards_unseen(&self, on_full: OnFull) -> bool {
        let is_deaf = || self.config.discard_hook.is_none() && !self.runner.sees_discards();
        on_full.discards() && is_deaf()
    }
}

/// Handing tasks over. A [`Pool`](crate::Pool) takes closures, a [`FuncPool`](crate::FuncPool) its
/// function's arguments: what each takes, and what becomes of its value, [`Accepts`] says.
impl<R: Runner> WorkerPool<R> {
    /// Hands a task over, to be run and forgotten. Waits while the pool is full.
    ///
    /// A closure may return anything; like a function's value, that is dropped on the worker as a
    /// part of the task. A closure or an argument of up to 56 bytes is stored without an
    /// allocation, a larger one in a box.
    ///
    /// On one of the pool's own workers a full pool runs the task in place instead (see
    /// [`WithinWorker`](crate::WithinWorker)). A pool that was built
    /// [`nonblocking`](crate::Builder::nonblocking) refuses. May block for as long as starting the
    /// first thread takes.
    ///
    /// ```
    /// use pool_core::{FuncPool, Pool};
    /// use std::sync::mpsc;
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let from_closure = sender.clone();
    /// pool.submit(move || from_closure.send(1))?;
    ///
    /// let numbers = FuncPool::builder(move |n: u32| sender.send(n)).capacity(1).build()?;
    /// numbers.submit(2)?;
    /// assert_eq!(receiver.recv()? + receiver.recv()?, 3);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    #[doc(alias = "Submit")]
    #[doc(alias = "Invoke")]
    pub fn submit<T>(&self, task: T) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.core().submit_task(task, self.core().on_full())
    }

    /// As [`submit`](Self::submit), but refuses at a full pool. Never waits for room; while there
    /// is no worker at all it starts the first one, or waits for its start.
    ///
    /// ```
    /// use pool_core::{Pool, SubmitError};
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// match pool.try_submit(|| println!("hello")) {
    ///     Ok(()) => {}
    ///     Err(SubmitError::Full(task)) => task(), // It came back: run it here.
    ///     Err(other) => return Err(other.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_submit<T>(&self, task: T) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.core().submit_task(task, OnFull::Refuse)
    }

    /// As [`submit`](Self::submit), but waits at most for so long. A start of the first worker that
    /// it has to make itself takes as long as it takes.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_timeout<T>(&self, task: T, timeout: Duration) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        let deadline = self.deadline(timeout);
        self.core().submit_task(task, OnFull::Wait(deadline))
    }

    /// As [`submit`](Self::submit), but waits at most until then.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_deadline<T>(&self, task: T, deadline: Instant) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.core().submit_task(task, OnFull::Wait(Some(deadline)))
    }

    /// As [`submit`](Self::submit), as a future: it resolves once the task is accepted.
    ///
    /// Futures and threads stand in one line. Nothing happens before the first poll, which may have
    /// to start the first worker, or to wait for its start; after it the future need not be polled
    /// for its task to be accepted. Dropping it takes a task that has not been accepted back. It
    /// never runs the task in place. Works under any runtime.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_async<T>(
        &self,
        task: T,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<R, T>
    where
        R: Accepts<T>,
    {
        Arc::clone(self.core()).submit_task_async(task)
    }

    /// Hands a task over and returns a handle to its value. Waits as [`submit`](Self::submit) does.
    ///
    /// Costs one allocation, and one more for a closure of more than a kilobyte or an argument of
    /// more than 56 bytes.
    ///
    /// ```
    /// use pool_core::{FuncPool, Pool};
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// assert_eq!(pool.spawn(|| 6 * 7)?.join()?, 42);
    ///
    /// let squares = FuncPool::builder(|n: u64| n * n).capacity(1).build()?;
    /// assert_eq!(squares.spawn(7)?.join()?, 49);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn<T>(&self, task: T) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.core().spawn_task(task, self.core().on_full())
    }

    /// As [`spawn`](Self::spawn), but refuses at a full pool, as [`try_submit`](Self::try_submit)
    /// does.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_spawn<T>(&self, task: T) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.core().spawn_task(task, OnFull::Refuse)
    }

    /// As [`spawn`](Self::spawn), but waits at most for so long, as
    /// [`submit_timeout`](Self::submit_timeout) does.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_timeout<T>(
        &self,
        task: T,
        timeout: Duration,
    ) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        let deadline = self.deadline(timeout);
        self.core().spawn_task(task, OnFull::Wait(deadline))
    }

    /// As [`spawn`](Self::spawn), but waits at most until then.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_deadline<T>(
        &self,
        task: T,
        deadline: Instant,
    ) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.core().spawn_task(task, OnFull::Wait(Some(deadline)))
    }

    /// As [`spawn`](Self::spawn), as a future that resolves to the handle once the task is
    /// accepted; see [`submit_async`](Self::submit_async). Dropped after that, it detaches the
    /// task.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_async<T>(
        &self,
        task: T,
    ) -> impl Future<Output = Result<JoinHandle<R::Value>, SubmitError<T>>> + Send + Unpin + use<R, T>
    where
        R: Accepts<T>,
    {
        Arc::clone(self.core()).spawn_task_async(task)
    }
}
