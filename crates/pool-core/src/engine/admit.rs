//! Admission of a task: into one pool, or into the member that a multi-pool's strategy picks.
//!
//! A call specifies what it does at a full pool ([`OnFull`]). The runner turns the task into a job ([`Accepts`]),
//! which stays on the caller's stack until it is admitted ([`Admit`]). A refused job is turned back into the task.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use sync_shim::Clock;

use crate::cancel::{CancelToken, Cancelled};
use crate::config::{Capacity, OnFull};
use crate::engine::core::Core;
use crate::engine::runner::{Accepts, Runner};
use crate::engine::wait::{Awaited, SubmitFuture, WaitFuture};
use crate::error::{SubmitError, TuneError, WaitError};
use crate::permit::RoomFuture;
use crate::sched::queue::Chunk;
use crate::sched::shared::Place;
use crate::sister::pool_handle::PoolHandle;
use crate::stats::Stats;
use crate::task::erased::fits;
use crate::task::handle::{JoinHandle, PoolRef, RawHandle};
use crate::task::options::{TaskOptions, TaskRecord, WaitLimits};

/// The part of a handle of a pool, or of several, that [`Admit`] needs.
pub trait AdmitHandle {
    /// The runner of its pools.
    type Runner: Runner;
    /// The admission of its pools.
    type Admit: Admit<Self::Runner>;
    /// Returns the admission for this handle's tasks.
    fn admit(&self) -> &Arc<Self::Admit>;
}

/// Admission: into one pool, or into the member that a multi-pool's strategy picks.
///
/// The provided methods are common to both. Methods that are generic over the task are short, because each call site
/// of the public calls compiles them anew.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
pub trait Admit<R: Runner>: Send + Sync + Sized + 'static {
    /// A wait for room with a job.
    type Future: Future<Output = Admitted<R>> + Send + Unpin;
    /// A wait for the room of a permit. Dropping it leaves no room reserved.
    type RoomFuture: Future<Output = Result<PoolHandle<R>, SubmitError>> + Send + Unpin;
    /// Error of a wait for an idle pool or for its end.
    type WaitError: Error + Into<WaitError>;

    /// Returns the pool that handles ask for the clock and the panic hook.
    fn pool_handle(self: &Arc<Self>) -> PoolHandle<R>;

    /// Refuses a call before its task becomes a job. The refusal has been counted.
    fn refuses(&self, on_full: OnFull) -> Result<(), SubmitError>;

    /// Whether each task has a record.
    fn records_all(&self) -> bool;

    /// Returns the members of a multi-pool.
    fn members(&self) -> &[PoolHandle<R>] {
        &[]
    }

    /// Returns a slot for the job of a task without options, if the pool is busy and has room. The default returns none.
    ///
    /// Other jobs pass over their caller's stack: their words are written there in one size and read in another, which costs
    /// as much as the rest of a submit.
    ///
    /// # Safety
    /// The caller must write a job to the slot without calling user code, and then call [`filled`](Self::filled).
    #[inline]
    unsafe fn place(&self) -> Option<Place<'_, R::Job>> {
        None
    }

    /// Completes the insertion of a job.
    ///
    /// # Safety
    /// The job must have been written to the slot.
    unsafe fn filled(&self, _place: Place<'_, R::Job>) {}

    /// Accepts the job of a task without options. A refused job stays in `job`.
    fn submit_job(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        on_full: OnFull,
    ) -> Result<(), SubmitError>;

    /// Accepts the job, or waits for room as `on_full` and `limits` say. Returns the index of the member that accepted it,
    /// or 0 for a single pool. A refused job stays in `job`.
    fn admit_job(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> Result<usize, SubmitError>;

    /// Counts a task that was refused before it was offered to a pool.
    fn count_unoffered(&self);

    /// Returns the task of a call with its own policy, unless the policy could discard a task without a discard hook.
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

    /// Waits for room asynchronously, until the token is `cancelled`.
    fn admit_async(self: Arc<Self>, job: R::Job, cancelled: Option<Cancelled>) -> Self::Future;

    /// Assigns the handle to the member that accepted its task. It was created for the
    /// [`pool_handle`](Self::pool_handle)'s pool.
    fn set_pool(&self, _pool: usize, _handle: &mut RawHandle) {}

    /// Reserves room for a permit, or waits for it as `on_full` says.
    fn reserve_room(self: &Arc<Self>, on_full: OnFull) -> Result<PoolHandle<R>, SubmitError>;

    /// Async version of [`reserve_room`](Self::reserve_room).
    fn reserve_room_async(self: Arc<Self>) -> Self::RoomFuture;

    /// Returns the pool's name.
    fn name(&self) -> &str;

    /// Returns the policy of calls that specify none.
    fn on_full(&self) -> OnFull;

    /// Returns the clock of all time limits.
    fn clock(&self) -> &dyn Clock;

    /// Whether the calling thread is one of the workers.
    fn is_own_worker(&self) -> bool;

    /// Returns a snapshot of the statistics.
    fn stats(self: &Arc<Self>) -> Stats;

    /// Returns the sum of a figure over all pools, each read under its own lock.
    fn sum(self: &Arc<Self>, figure: fn(&PoolHandle<R>) -> usize) -> usize;

    /// Returns the number of threads and futures that wait for room.
    fn waiting(self: &Arc<Self>) -> usize;

    /// Returns the maximum number of live workers.
    fn capacity(self: &Arc<Self>) -> Capacity;

    /// Returns the number of workers that could still be started.
    fn free(self: &Arc<Self>) -> Option<usize>;

    /// Whether the pool is released.
    fn is_released(&self) -> bool;

    /// Whether the pool is paused.
    fn is_paused(&self) -> bool;

    /// Pauses the pool. Returns `false` if it is paused already.
    fn pause(self: &Arc<Self>) -> bool;

    /// Resumes the pool. Returns `false` if it is not paused.
    fn resume(self: &Arc<Self>) -> bool;

    /// Changes the capacity of each pool.
    fn tune(self: &Arc<Self>, capacity: Capacity) -> Result<(), TuneError>;

    /// Releases the pool. Returns `false` if that was done before.
    fn release(self: &Arc<Self>) -> bool;

    /// Releases the pool and calls `keep` with the item of each unstarted task. Returns their number.
    fn release_now(self: &Arc<Self>, keep: &mut dyn FnMut(R::Item)) -> usize;

    /// Opens a released pool again. Returns `false` if it is open.
    fn reboot(self: &Arc<Self>) -> bool;

    /// Blocks until the awaited condition holds.
    fn wait(
        self: &Arc<Self>,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> Result<(), Self::WaitError>;

    /// Async version of [`wait`](Self::wait).
    fn wait_async(
        self: Arc<Self>,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<(), Self::WaitError>> + Send + Unpin + use<Self, R>;

    /// Called when the last handle is dropped. Does not unwind.
    fn end(self: &Arc<Self>);

    /// Submits a task.
    #[inline(never)]
    fn submit_task<T>(self: &Arc<Self>, task: T, on_full: OnFull) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        // Before a job is made, so that a full pool refuses at the cost of one or two loads.
        if matches!(on_full, OnFull::Refuse)
            && let Err(refused) = self.refuses(on_full)
        {
            return Err(refused.with_task(task));
        }
        // A task that needs a box must not use the slot: allocating under the lock would hold up other threads.
        if fits::<T>() {
            // SAFETY: the job is written below, which moves the task and calls no user code.
            if let Some(mut place) = unsafe { self.place() } {
                R::plain_in(task, place.slot());
                // SAFETY: it was just written.
                unsafe { self.filled(place) };
                return Ok(());
            }
        }
        // On this frame, so that a refused job can be turned back into the task.
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

    /// Like [`submit_job`](Self::submit_job), for a task with options.
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
        // A refused task comes back as the caller gave it, so it must lose its record.
        *job = job.take().map(R::unrecorded);
        admitted.map(drop)
    }

    /// Spawns a task with or without options.
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

    /// Creates the record of a task to be spawned, if it needs one.
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

    /// Moves the task into its cell and spawns it.
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
        // Allocated before the lock is taken.
        let cell = pool.0.runner.in_cell(task, record);
        let mut handle = RawHandle::new(cell, pool.0);
        match self.spawn_cell(&mut handle, on_full) {
            Ok(()) => Ok(handle),
            Err(refused) => Err(refused.with_task(R::task_in(handle.cell()))),
        }
    }

    /// Spawns the task in a cell.
    fn spawn_cell(
        self: &Arc<Self>,
        handle: &mut RawHandle,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        // The reference of the queue, made before the slot is taken, since nothing but the write may happen under the lock.
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

    /// Creates a detached job, for callers that already hold room.
    #[inline]
    fn detached_job<T>(self: &Arc<Self>, task: T) -> R::Job
    where
        R: Accepts<T>,
    {
        self.with_record(R::plain(task))
    }

    /// Adds a record to the job if each task has one.
    fn with_record(self: &Arc<Self>, job: R::Job) -> R::Job {
        match self.record_of_all() {
            Some(record) => R::recorded(job, *record),
            None => job,
        }
    }

    /// Creates a job and its handle, for callers that already hold room or wait for it asynchronously.
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

    /// Async version of [`submit_task`](Self::submit_task), with or without options.
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

    /// Async version of [`spawn_task`](Self::spawn_task).
    fn spawn_task_async<T>(
        self: Arc<Self>,
        task: T,
        options: Option<TaskOptions>,
    ) -> impl Future<Output = Spawned<R::Value, T>> + Send + Unpin
    where
        R: Accepts<T>,
        Self: Send + Sync,
    {
        // The handle exists before the wait, so that dropping the future after the job was accepted detaches the task.
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

    /// Refuses a task with options before it has a record. The refusal has been counted.
    fn refuses_given(&self, options: &TaskOptions, on_full: OnFull) -> Result<(), SubmitError> {
        if options.tokens.iter().any(CancelToken::is_cancelled) {
            self.count_unoffered();
            return Err(SubmitError::Cancelled(()));
        }
        self.refuses(on_full)
    }

    /// Creates the record of a task with options.
    fn record(self: &Arc<Self>, options: TaskOptions) -> TaskRecord {
        TaskRecord::new(options, &self.pool_handle().0.context)
    }

    /// Creates the record of a task without options, if each task has one.
    #[inline]
    fn record_of_all(self: &Arc<Self>) -> Option<Box<TaskRecord>> {
        let records = self.records_all();
        records.then(|| Box::new(self.record(TaskOptions::default())))
    }
}

/// Index of the pool that accepted a job, or 0 for a single pool; the job if none did.
pub type Admitted<R> = Result<usize, SubmitError<<R as Runner>::Job>>;

/// The handle of an accepted task, or the refused task.
pub type Spawned<V, T> = Result<JoinHandle<V>, SubmitError<T>>;

/// Adds the task of a refused job to the error.
#[cold]
fn give_back<R: Accepts<T>, T>(refused: SubmitError, job: Option<R::Job>) -> SubmitError<T> {
    refused.with_task(R::task_of(job.expect("a refused job is left where it is")))
}

/// A future whose output is mapped to the caller's terms: its task, or a handle.
struct Answered<F, A> {
    future: F,
    answer: Option<A>,
}

// Safe code cannot pin the answer, and the future is `Unpin` itself, so that moving the pair is allowed.
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
        // Taken only when the inner future is ready: until then the answer's captures keep the pool and the handle alive.
        let answer = self
            .answer
            .take()
            .expect("the future is not polled after completion");
        Poll::Ready(answer(output))
    }
}

impl<R: Runner> Admit<R> for Core<R> {
    type Future = SubmitFuture<R>;
    type RoomFuture = RoomFuture<R>;
    type WaitError = WaitError;

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
        // SAFETY: the caller promises what the runner's method asks for.
        unsafe { R::place_job(self) }
    }

    #[inline]
    unsafe fn filled(&self, place: Place<'_, R::Job>) {
        // SAFETY: the caller has written the job.
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

    fn reserve_room(self: &Arc<Self>, on_full: OnFull) -> Result<PoolHandle<R>, SubmitError> {
        self.reserve(on_full, None)
            .map_err(|reason| reason.with(()))?;
        Ok(self.pool_handle())
    }

    fn reserve_room_async(self: Arc<Self>) -> RoomFuture<R> {
        RoomFuture::new(self)
    }

    fn name(&self) -> &str {
        &self.context.name
    }

    #[inline]
    fn on_full(&self) -> OnFull {
        self.config.on_full
    }

    fn clock(&self) -> &dyn Clock {
        &*self.config.clock
    }

    fn is_own_worker(&self) -> bool {
        PoolRef::is_own_worker(self)
    }

    fn stats(self: &Arc<Self>) -> Stats {
        Core::stats(self)
    }

    fn sum(self: &Arc<Self>, figure: fn(&PoolHandle<R>) -> usize) -> usize {
        figure(&self.pool_handle())
    }

    fn waiting(self: &Arc<Self>) -> usize {
        self.pool_handle().waiting()
    }

    fn capacity(self: &Arc<Self>) -> Capacity {
        self.pool_handle().capacity()
    }

    fn free(self: &Arc<Self>) -> Option<usize> {
        self.pool_handle().free()
    }

    fn is_released(&self) -> bool {
        !self.state.lock().open
    }

    fn is_paused(&self) -> bool {
        self.state.lock().paused
    }

    fn pause(self: &Arc<Self>) -> bool {
        Core::pause(self)
    }

    fn resume(self: &Arc<Self>) -> bool {
        Core::resume(self)
    }

    fn tune(self: &Arc<Self>, capacity: Capacity) -> Result<(), TuneError> {
        Core::tune(self, capacity)
    }

    fn release(self: &Arc<Self>) -> bool {
        Core::release(self).0
    }

    fn release_now(self: &Arc<Self>, keep: &mut dyn FnMut(R::Item)) -> usize {
        Core::release_now(self, keep)
    }

    fn reboot(self: &Arc<Self>) -> bool {
        Core::reboot(self)
    }

    fn wait(
        self: &Arc<Self>,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        match awaited {
            Awaited::Rest => self.wait_idle(deadline),
            Awaited::End => self.wait_released(deadline),
            Awaited::Release => self.release_and_wait(deadline),
            Awaited::EndOf(generation) => self.wait_for_end(generation, deadline),
        }
    }

    fn wait_async(
        self: Arc<Self>,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + Unpin + use<R> {
        WaitFuture::new(self, awaited, deadline)
    }

    fn end(self: &Arc<Self>) {
        Core::end(self);
    }
}

impl<R: Runner> Core<R> {
    /// Accepts as many jobs from the front as there are room and a live worker, and notifies workers once for all of
    /// them.
    pub(crate) fn admit_chunk(self: &Arc<Self>, Chunk(jobs): Chunk<'_, R::Job>) {
        // Step S2, for as many as there are credits.
        if let Some(credit) = self.state.credit() {
            let searchers = credit.enter_all(jobs);
            self.entered(searchers);
        }
        if jobs.len() > 0 {
            // Step S3.
            self.section(|state, effects| state.accept_all(jobs, effects));
        }
    }

    /// The fast path of [`submit_plain`](Self::submit_plain).
    ///
    /// # Safety
    /// As for [`place`](Self::place).
    #[inline]
    pub(crate) unsafe fn plain_place(&self) -> Option<Place<'_, R::Job>> {
        // One comparison for both a fork and records. Either must take the slower path.
        if !self.plain_process.is_current() {
            return None;
        }
        // SAFETY: the caller promises what `place` asks for.
        unsafe { self.place() }
    }

    /// Accepts the job of a task without options. A refused job stays in `job`.
    #[inline]
    pub(crate) fn submit_plain(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        // As in `plain_place`.
        if !self.plain_process.is_current() {
            return self.submit_recorded_job(job, TaskOptions::default(), on_full);
        }
        if self.refuses_full(on_full) {
            return Err(SubmitError::Full(()));
        }
        self.submit(job, on_full, None)
    }

    /// Whether the policy could discard a task without a discard hook.
    pub(crate) fn discards_unseen(&self, on_full: OnFull) -> bool {
        on_full.discards() && self.config.discard_hook.is_none()
    }
}
