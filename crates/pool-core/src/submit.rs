//! The ten calls that hand a task to a pool, and what they come to.
//!
//! A call says what it does at a full pool ([`OnFull`]). The runner makes a job of the task
//! ([`Accepts`]), which lies on the caller's stack until the pool, or the member that a multi-pool's
//! strategy picks, admits it ([`Admit`]). A refused job is made into the task again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::accept::Accepts;
use crate::cancel::{CancelToken, Cancelled};
use crate::config::OnFull;
use crate::core::Core;
use crate::error::SubmitError;
use crate::handle::{JoinHandle, PoolRef, RawHandle};
use crate::pool::WorkerPool;
use crate::pool_handle::PoolHandle;
use crate::runner::Runner;
use crate::sched::queue::Chunk;
use crate::sched::shared::Place;
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

/// Admission: into one pool, or into the member that a multi-pool's strategy picks.
///
/// The provided methods are what the ten calls of both have in common. Those that are generic over
/// the task are short: each call site of the public calls compiles them anew.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
pub trait Admit<R: Runner>: Sized {
    /// Waits for room.
    type Future: Future<Output = Admitted<R>> + Send + Unpin;

    /// The pool that a handle asks for the clock and the panic hook.
    fn pool_handle(self: &Arc<Self>) -> PoolHandle<R>;

    /// What refuses any task before a job is made of it. It has been counted.
    fn refuses(&self, on_full: OnFull) -> Result<(), SubmitError>;

    /// Whether each task is to have a record.
    fn records_all(&self) -> bool;

    /// The pools, if it admits to several.
    fn members(&self) -> &[PoolHandle<R>] {
        &[]
    }

    /// A place for the job of a task that was given nothing, if the pool is busy and has room. The
    /// default has none.
    ///
    /// A job that comes by another way goes by its caller's stack: its words are written there in
    /// one size and read in another, which costs as much as the rest of a submit.
    ///
    /// # Safety
    /// The caller writes a job there, without calling user code, and says so by
    /// [`filled`](Self::filled).
    #[inline]
    unsafe fn place(&self) -> Option<Place<'_, R::Job>> {
        None
    }

    /// The job has been written.
    ///
    /// # Safety
    /// It has.
    unsafe fn filled(&self, _place: Place<'_, R::Job>) {}

    /// Accepts the job of a task that was given nothing. A refused job is left where it is.
    fn submit_job(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        on_full: OnFull,
    ) -> Result<(), SubmitError>;

    /// Accepts the job, or waits for room as `on_full` and `limits` say: which pool it was, of
    /// several (a single pool is 0). A refused job is left where it is.
    fn admit_job(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> Result<usize, SubmitError>;

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

    /// Admits a prefix of `jobs` in one critical section. The default admits none; the caller then
    /// submits them one by one.
    fn admit_some(self: &Arc<Self>, _jobs: Chunk<'_, R::Job>) {}

    /// Waits for room as a future does, until that token is `cancelled`.
    fn admit_async(self: Arc<Self>, job: R::Job, cancelled: Option<Cancelled>) -> Self::Future;

    /// Makes the handle that of a task which that pool has accepted. It was made as the
    /// [`pool_handle`](Self::pool_handle)'s.
    fn set_pool(&self, _pool: usize, _handle: &mut RawHandle) {}

    /// Submits a task.
    #[inline(never)]
    fn submit_task<T>(self: &Arc<Self>, task: T, on_full: OnFull) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        // No job is made where it has no chance: a full pool refuses at the cost of a load or two.
        if matches!(on_full, OnFull::Refuse)
            && let Err(refused) = self.refuses(on_full)
        {
            return Err(refused.with_task(task));
        }
        // A task that needs a box gets it with no lock held.
        if fits::<T>() {
            // SAFETY: the job is written below, which moves the task and calls no user code.
            if let Some(mut place) = unsafe { self.place() } {
                R::plain_in(task, place.slot());
                // SAFETY: it was just written.
                unsafe { self.filled(place) };
                return Ok(());
            }
        }
        let mut job = Some(R::plain(task));
        let submitted = self.submit_job(&mut job, on_full);
        submitted.map_err(|refused| give_back::<R, T>(refused, job))
    }

    /// Submits a task with options.
    fn submit_recorded<T>(
        self: &Arc<Self>,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        let mut job = Some(R::plain(task));
        let submitted = self.submit_recorded_job(&mut job, options, on_full);
        submitted.map_err(|refused| give_back::<R, T>(refused, job))
    }

    /// As [`submit_job`](Self::submit_job), of a task with options.
    #[inline(never)]
    fn submit_recorded_job(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        self.refuses_given(&options, on_full)?;
        let record = self.record(options);
        let limits = record.limits();
        *job = job.take().map(|job| R::recorded(job, record));
        let admitted = self.admit_job(job, on_full, Some(&limits));
        *job = job.take().map(R::unrecorded);
        admitted.map(drop)
    }

    /// Spawns a task, with options or without.
    #[inline]
    fn spawn_task<T>(
        self: &Arc<Self>,
        task: T,
        options: Option<TaskOptions>,
        on_full: OnFull,
    ) -> Spawned<R::Value, T>
    where
        R: Accepts<T>,
    {
        match self.record_if_accepted(options, on_full) {
            Ok(record) => self
                .spawn_in_cell(task, record, on_full)
                .map(JoinHandle::of),
            Err(refused) => Err(refused.with_task(task)),
        }
    }

    /// The record of a task that is to be spawned, if it needs one.
    fn record_if_accepted(
        self: &Arc<Self>,
        options: Option<TaskOptions>,
        on_full: OnFull,
    ) -> Result<Option<Box<TaskRecord>>, SubmitError> {
        let Some(options) = options else {
            self.refuses(on_full)?;
            return Ok(self.record_of_all());
        };
        self.refuses_given(&options, on_full)?;
        Ok(Some(Box::new(self.record(options))))
    }

    /// Puts the task into its cell, and spawns it.
    #[inline(never)]
    fn spawn_in_cell<T>(
        self: &Arc<Self>,
        task: T,
        record: Option<Box<TaskRecord>>,
        on_full: OnFull,
    ) -> Result<RawHandle, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        let pool = self.pool_handle();
        let cell = pool.0.runner.in_cell(task, record);
        let mut handle = RawHandle::new(cell, pool.0);
        match self.spawn_cell(&mut handle, on_full) {
            Ok(()) => Ok(handle),
            Err(refused) => Err(refused.with_task(R::task_in(handle.cell()))),
        }
    }

    /// Spawns a task that lies in its cell.
    fn spawn_cell(
        self: &Arc<Self>,
        handle: &mut RawHandle,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        let cell = Arc::clone(handle.cell());
        // SAFETY: the job is written below, which calls no user code.
        if let Some(mut place) = unsafe { self.place() } {
            place.slot().write(R::spawned(cell));
            // SAFETY: it was just written.
            unsafe { self.filled(place) };
            return Ok(());
        }
        let mut job = Some(R::spawned(cell));
        let limits = handle.cell().record().map(TaskRecord::limits);
        let pool = self.admit_job(&mut job, on_full, limits.as_ref())?;
        self.set_pool(pool, handle);
        Ok(())
    }

    /// A job without a handle, for callers that already hold room.
    #[inline]
    fn detached_job<T>(self: &Arc<Self>, task: T) -> R::Job
    where
        R: Accepts<T>,
    {
        self.with_record(R::plain(task))
    }

    /// The job, with a record where each has one.
    fn with_record(self: &Arc<Self>, job: R::Job) -> R::Job {
        match self.record_of_all() {
            Some(record) => R::recorded(job, *record),
            None => job,
        }
    }

    /// A job and its handle, for callers that already hold room, or wait for it as a future.
    fn spawned_job<T>(
        self: &Arc<Self>,
        task: T,
        options: Option<TaskOptions>,
    ) -> (R::Job, RawHandle)
    where
        R: Accepts<T>,
    {
        let record = match options {
            Some(options) => Some(Box::new(self.record(options))),
            None => self.record_of_all(),
        };
        let pool = self.pool_handle();
        let cell = pool.0.runner.in_cell(task, record);
        (R::spawned(Arc::clone(&cell)), RawHandle::new(cell, pool.0))
    }

    /// Async version of [`submit_task`](Self::submit_task), with options or without.
    fn submit_task_async<T>(
        self: Arc<Self>,
        task: T,
        options: Option<TaskOptions>,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin
    where
        R: Accepts<T>,
    {
        let job = R::plain(task);
        let (job, cancelled) = match options {
            Some(options) => {
                let record = self.record(options);
                let cancelled = record.limits().cancelled();
                (R::recorded(job, record), cancelled)
            }
            None => (self.with_record(job), None),
        };
        Answered {
            future: self.admit_async(job, cancelled),
            answer: Some(|admitted: Admitted<R>| match admitted {
                Ok(_) => Ok(()),
                Err(refused) => Err(refused.map(|job| R::task_of(R::unrecorded(job)))),
            }),
        }
    }

    /// Async version of [`spawn_task`](Self::spawn_task). The handle is made first, so that a future
    /// which is dropped after its job was accepted detaches it.
    fn spawn_task_async<T>(
        self: Arc<Self>,
        task: T,
        options: Option<TaskOptions>,
    ) -> impl Future<Output = Spawned<R::Value, T>> + Send + Unpin
    where
        R: Accepts<T>,
        Self: Send + Sync,
    {
        let (job, mut handle) = self.spawned_job(task, options);
        let record = handle.cell().record();
        let cancelled = record.and_then(|record| record.limits().cancelled());
        let pools = Arc::clone(&self);
        Answered {
            future: self.admit_async(job, cancelled),
            answer: Some(move |admitted: Admitted<R>| match admitted {
                Ok(pool) => {
                    pools.set_pool(pool, &mut handle);
                    Ok(JoinHandle::of(handle))
                }
                Err(refused) => Err(refused.without_task().with_task(R::task_in(handle.cell()))),
            }),
        }
    }

    /// What refuses a task with options before it has a record. It has been counted.
    fn refuses_given(&self, options: &TaskOptions, on_full: OnFull) -> Result<(), SubmitError> {
        if options.tokens.iter().any(CancelToken::is_cancelled) {
            self.count_unoffered();
            return Err(SubmitError::Cancelled(()));
        }
        self.refuses(on_full)
    }

    /// The record of a task with options.
    fn record(self: &Arc<Self>, options: TaskOptions) -> TaskRecord {
        TaskRecord::new(options, &self.pool_handle().0.context)
    }

    /// The record of a task without, if each has one.
    #[inline]
    fn record_of_all(self: &Arc<Self>) -> Option<Box<TaskRecord>> {
        let records = self.records_all();
        records.then(|| Box::new(self.record(TaskOptions::default())))
    }
}

/// Which pool accepted a job, of several (a single pool is 0); or the job, if none did.
pub type Admitted<R> = Result<usize, SubmitError<<R as Runner>::Job>>;

/// The handle of an accepted task, or the task.
pub(crate) type Spawned<V, T> = Result<JoinHandle<V>, SubmitError<T>>;

/// The task of a refused job.
#[cold]
fn give_back<R: Accepts<T>, T>(refused: SubmitError, job: Option<R::Job>) -> SubmitError<T> {
    refused.with_task(R::task_of(job.expect("a refused job is left where it is")))
}

/// A future whose answer is turned into what the caller knows: its own task, or a handle.
struct Answered<F, A> {
    future: F,
    answer: Option<A>,
}

// Only the future is pinned, and may be moved.
impl<F: Unpin, A> Unpin for Answered<F, A> {}

impl<F, A, T> Future for Answered<F, A>
where
    F: Future + Unpin,
    A: FnOnce(F::Output) -> T,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Poll::Ready(output) = Pin::new(&mut self.future).poll(context) else {
            return Poll::Pending;
        };
        let answer = self.answer.take().expect("a future is ready once");
        Poll::Ready(answer(output))
    }
}

impl<R: Runner> Admit<R> for Core<R> {
    type Future = SubmitFuture<R>;

    #[inline]
    fn pool_handle(self: &Arc<Self>) -> PoolHandle<R> {
        PoolHandle(Arc::clone(self))
    }

    #[inline]
    fn refuses(&self, on_full: OnFull) -> Result<(), SubmitError> {
        self.process().check(SubmitError::Forked(()))?;
        if self.refuses_full(on_full) {
            Err(SubmitError::Full(()))
        } else {
            Ok(())
        }
    }

    #[inline]
    fn records_all(&self) -> bool {
        self.records_all()
    }

    fn admit_some(self: &Arc<Self>, jobs: Chunk<'_, R::Job>) {
        self.admit_chunk(jobs);
    }

    #[inline]
    unsafe fn place(&self) -> Option<Place<'_, R::Job>> {
        // SAFETY: the caller's.
        unsafe { R::place_job(self) }
    }

    #[inline]
    unsafe fn filled(&self, place: Place<'_, R::Job>) {
        // SAFETY: the caller's.
        unsafe { R::job_placed(self, place) };
    }

    #[inline]
    fn submit_job(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        R::submit_job(self, job, on_full)
    }
    #[inline]
    fn admit_job(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> Result<usize, SubmitError> {
        R::admit_job(self, job, on_full, limits)?;
        Ok(0)
    }

    fn count_unoffered(&self) {
        self.count_refused();
    }

    fn admit_async(self: Arc<Self>, job: R::Job, cancelled: Option<Cancelled>) -> SubmitFuture<R> {
        SubmitFuture::new(self, job, cancelled)
    }
}

impl<R: Runner> Core<R> {
    /// The fast path of [`submit_plain`](Self::submit_plain).
    ///
    /// # Safety
    /// As for [`place`](Self::place).
    #[inline]
    pub(crate) unsafe fn plain_place(&self) -> Option<Place<'_, R::Job>> {
        // One comparison for a fork and for records.
        if !self.plain_process.is_current() {
            return None;
        }
        // SAFETY: the caller's.
        unsafe { self.place() }
    }

    /// Accepts the job of a task that was given nothing. A refused job is left where it is.
    #[inline]
    pub(crate) fn submit_plain(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        // One comparison for a fork and for records.
        if !self.plain_process.is_current() {
            return self.submit_recorded_job(job, TaskOptions::default(), on_full);
        }
        if self.refuses_full(on_full) {
            return Err(SubmitError::Full(()));
        }
        self.submit(job, on_full, None)
    }

    /// What `submit` and `spawn` do at a full pool.
    #[inline]
    pub(crate) fn on_full(&self) -> OnFull {
        self.config.on_full
    }

    /// Whether a call that does so might discard a task that no hook sees.
    pub(crate) fn discards_unseen(&self, on_full: OnFull) -> bool {
        on_full.discards() && self.config.discard_hook.is_none()
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
    #[doc(alias = "execute")]
    #[doc(alias = "fire_and_forget")]
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
    #[doc(alias = "load_shed")]
    #[doc(alias = "WithNonblocking")]
    pub fn try_submit<T>(&self, task: T) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.core().submit_task(task, OnFull::Refuse)
    }

    /// As [`submit`](Self::submit), but waits at most for so long. A start of the first worker that
    /// it has to make itself takes as long as it takes.
    ///
    /// ```
    /// use pool_core::{Pool, SubmitError};
    /// use std::time::Duration;
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let permit = pool.reserve()?; // The pool is full.
    /// let refused = pool.submit_timeout(|| (), Duration::from_millis(1));
    /// assert!(matches!(refused, Err(SubmitError::TimedOut(_))));
    /// drop(permit);
    /// pool.submit_timeout(|| (), Duration::from_secs(60))?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
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
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// pool.submit_async(|| println!("it was accepted")).await?; // Back-pressure: waits for room.
    /// pool.wait_idle_async().await?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    #[doc(alias = "backpressure")]
    pub fn submit_async<T>(
        &self,
        task: T,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<R, T>
    where
        R: Accepts<T>,
    {
        Arc::clone(self.core()).submit_task_async(task, None)
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
    #[doc(alias = "spawn_blocking")]
    pub fn spawn<T>(&self, task: T) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.core().spawn_task(task, None, self.core().on_full())
    }

    /// As [`spawn`](Self::spawn), but refuses at a full pool, as [`try_submit`](Self::try_submit)
    /// does.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// match pool.try_spawn(|| 6 * 7) {
    ///     Ok(answer) => assert_eq!(answer.join()?, 42),
    ///     Err(refused) => println!("{refused}"), // "the pool is full", for example.
    /// }
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_spawn<T>(&self, task: T) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.core().spawn_task(task, None, OnFull::Refuse)
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
        self.core().spawn_task(task, None, OnFull::Wait(deadline))
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
        self.core()
            .spawn_task(task, None, OnFull::Wait(Some(deadline)))
    }

    /// As [`spawn`](Self::spawn), as a future that resolves to the handle once the task is
    /// accepted; see [`submit_async`](Self::submit_async). Dropped after that, it detaches the
    /// task.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let handle = pool.spawn_async(|| std::fs::metadata("Cargo.toml")).await?; // Waits for room,
    /// assert!(handle.await??.len() > 0); // then for the value.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    #[doc(alias = "spawn_blocking")]
    pub fn spawn_async<T>(
        &self,
        task: T,
    ) -> impl Future<Output = Result<JoinHandle<R::Value>, SubmitError<T>>> + Send + Unpin + use<R, T>
    where
        R: Accepts<T>,
    {
        Arc::clone(self.core()).spawn_task_async(task, None)
    }
}
