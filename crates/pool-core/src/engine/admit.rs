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

use crate::cancel::Cancelled;
use crate::config::{Capacity, OnFull};
use crate::engine::core::{Core, Target};
use crate::engine::life::Disposal;
use crate::engine::reserve::RoomFuture;
use crate::engine::runner::{Accepts, Runner};
use crate::engine::wait::{Awaited, SubmitFuture, WaitFuture};
use crate::error::{SubmitError, TuneError, WaitError};
use crate::sched::queue::Chunk;
use crate::sister::pool_handle::PoolHandle;
use crate::stats::Stats;
use crate::task::cell::SpawnCell;
use crate::task::erased::{Task, fits};
use crate::task::handle::{JoinHandle, PoolRef, RawHandle};
use crate::task::options::{TaskOptions, TaskRecord, WaitLimits};
use crate::task::run::TaskContext;

/// The part of a handle of a pool, or of several, that [`Admit`] needs.
pub trait AdmitHandle {
    /// The runner of its pools.
    type Runner: Runner;
    /// The admission of its pools.
    type Admit: Admit;
    /// Returns the admission for this handle's tasks.
    fn admit(&self) -> &Arc<Self::Admit>;
}

/// Admission: into one pool, or into the member that a multi-pool's strategy picks.
///
/// The provided methods are common to both. Methods that are generic over the task are short, because each call site
/// of the public calls compiles them anew.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
pub trait Admit: Send + Sync + Sized + 'static {
    /// A wait for room with a job.
    type Future: Future<Output = Admitted> + Send + Unpin;
    /// A wait for the room of a permit. Dropping it leaves no room reserved.
    type RoomFuture: Future<Output = Result<PoolHandle, SubmitError>> + Send + Unpin;
    /// Error of a wait for an idle pool or for its end.
    type WaitError: Error + Into<WaitError>;

    /// Returns the pool that handles ask for the clock and the panic hook.
    fn pool_handle(self: &Arc<Self>) -> PoolHandle;

    /// Refuses a call before its task becomes a job. The refusal has been counted.
    fn refuses(&self, on_full: OnFull) -> Result<(), SubmitError>;

    /// Returns the context that tasks run in.
    fn context(&self) -> &TaskContext;

    /// Adds the record that a submitted task without options needs.
    fn recorded(&self, job: Task) -> Task;

    /// Whether tasks may have a priority.
    fn has_priorities(&self) -> bool;

    /// Returns the members of a multi-pool.
    fn members(&self) -> &[PoolHandle] {
        &[]
    }

    /// Returns the pool that a task without options goes to if it is busy and has room. A multi-pool asks its strategy, and
    /// sets `choice` to the member.
    fn target(&self, choice: &mut Option<usize>) -> Target<'_>;

    /// Accepts the job, or waits for room as `on_full` and `limits` say. Returns the index of the member that accepted it,
    /// or 0 for a single pool. A refused job stays in `job`. If a strategy has made a `choice`, it is not asked again.
    fn admit_chosen(
        self: &Arc<Self>,
        choice: Option<usize>,
        job: &mut Option<Task>,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<usize, SubmitError>;

    /// The same without a choice.
    fn admit_job(
        self: &Arc<Self>,
        job: &mut Option<Task>,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<usize, SubmitError> {
        self.admit_chosen(None, job, on_full, limits)
    }

    /// Counts a task that was refused before it was offered to a pool.
    fn count_unoffered(&self);

    /// Returns the task of a call with its own policy, unless the policy could discard a task without a discard hook.
    fn check_discards<T>(self: &Arc<Self>, task: T, on_full: OnFull) -> Result<T, SubmitError<T>> {
        // Even if the pool has room now: otherwise the call would lose tasks in silence only under load.
        if self.pool_handle().discards_unseen(on_full) {
            self.count_unoffered();
            return Err(SubmitError::NoDiscardHook(task));
        }
        Ok(task)
    }

    /// Admits a prefix of `jobs` in one critical section. The default admits none; the caller then
    /// submits them one by one.
    fn admit_some(self: &Arc<Self>, _jobs: Chunk<'_, Task>) {}

    /// Waits for room asynchronously, until the token is `cancelled`.
    fn admit_async(self: Arc<Self>, job: Task, cancelled: Option<Cancelled>) -> Self::Future;

    /// Gives up a wait for room and drops the job. Returns the member that has accepted the job before, if one has.
    fn give_up(wait: &mut Self::Future) -> Option<usize>;

    /// Assigns the handle to the member that accepted its task. It was created for the
    /// [`pool_handle`](Self::pool_handle)'s pool.
    fn set_pool(&self, _pool: usize, _handle: &mut RawHandle) {}

    /// Reserves room for a permit, or waits for it as `on_full` says.
    fn reserve_room(self: &Arc<Self>, on_full: OnFull) -> Result<PoolHandle, SubmitError>;

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
    fn sum(self: &Arc<Self>, figure: fn(&PoolHandle) -> usize) -> usize;

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

    /// Releases the pool and ends each unstarted task with `end`. Returns their number.
    fn release_now(self: &Arc<Self>, end: Disposal<'_>) -> usize;

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
    ) -> impl Future<Output = Result<(), Self::WaitError>> + Send + Unpin + use<Self>;

    /// Called when the last handle is dropped. Does not unwind.
    fn end(self: &Arc<Self>);

    /// Submits a task.
    #[inline(never)]
    fn submit_task<R, T>(self: &Arc<Self>, task: T, on_full: OnFull) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        // Before a job is made, so that a full pool refuses at the cost of one or two loads.
        if matches!(on_full, OnFull::Refuse)
            && let Err(refused) = self.refuses(on_full)
        {
            return Err(refused.with_task(task));
        }
        let body = R::body_of(task);
        let mut choice = None;
        // A task that needs a box must not use the slot: allocating under the lock would hold up other threads.
        if fits::<R::Body>() {
            let Target(target) = self.target(&mut choice);
            // Other jobs pass over their caller's stack: their words are written there in one size and read in another,
            // which costs as much as the rest of a submit.
            // SAFETY: the job is written below, which moves the task and calls no user code.
            if let Some(mut place) = unsafe { target.place() } {
                Task::closure_in(body, place.slot());
                // SAFETY: it was just written.
                unsafe { target.filled(place) };
                return Ok(());
            }
        }
        // On this frame, so that a refused job can be turned back into the task.
        let mut job = Some(Task::closure(body));
        let submitted = self.submit_job(choice, &mut job, on_full);
        submitted.map_err(|refused| give_back::<R, T>(refused, job))
    }

    /// Submits a task with options.
    fn submit_with_options<R, T>(
        self: &Arc<Self>,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        let mut job = Some(Task::closure(R::body_of(task)));
        let submitted = self.submit_recorded(&mut job, options, on_full);
        submitted.map_err(|refused| give_back::<R, T>(refused, job))
    }

    /// Spawns a task with or without options.
    #[inline]
    fn spawn_task<R, T>(
        self: &Arc<Self>,
        task: T,
        options: Option<TaskOptions>,
        on_full: OnFull,
    ) -> Spawned<R::Value, T>
    where
        R: Accepts<T>,
    {
        // Before the cell is allocated.
        match self.refuses_with(options.as_ref(), on_full) {
            Ok(()) => self.spawn_in_cell::<R, T>(task, options, on_full),
            Err(refused) => refuse(refused, task),
        }
    }

    /// Moves the task into its cell and spawns it.
    #[inline(never)]
    fn spawn_in_cell<R, T>(
        self: &Arc<Self>,
        task: T,
        options: Option<TaskOptions>,
        on_full: OnFull,
    ) -> Spawned<R::Value, T>
    where
        R: Accepts<T>,
    {
        let mut handle = self.handle_with::<R, T>(task, options); // Allocated before the lock is taken.
        match self.spawn_cell(&mut handle, on_full) {
            Ok(()) => Ok(JoinHandle::of(handle)),
            Err(refused) => refuse_handle::<R, T, _>(refused, handle),
        }
    }

    /// Creates the handle of a task with or without options. Its [job](RawHandle::job) is not yet in a pool.
    #[inline]
    fn handle_with<R, T>(self: &Arc<Self>, task: T, options: Option<TaskOptions>) -> RawHandle
    where
        R: Accepts<T>,
    {
        let record = self.context().record_of(options);
        self.handle_of::<R, T>(task, record)
    }

    /// Creates the handle of a task. Its [job](RawHandle::job) is not yet in a pool.
    fn handle_of<R, T>(self: &Arc<Self>, task: T, record: Option<TaskRecord>) -> RawHandle
    where
        R: Accepts<T>,
    {
        RawHandle::new(
            SpawnCell::new(R::body_of(task), record.map(Box::new)),
            self.pool_handle().0,
        )
    }

    /// Async version of [`submit_task`](Self::submit_task), with or without options.
    fn submit_task_async<R, T>(
        self: Arc<Self>,
        task: T,
        options: Option<TaskOptions>,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<Self, R, T>
    where
        R: Accepts<T>,
    {
        let lacks_priorities = self.lacks_priorities(options.as_ref());
        let (job, limits) = Task::closure(R::body_of(task)).with_options(options, self.context());
        let cancelled = limits.and_then(WaitLimits::cancelled);
        Answered {
            future: Admission::new(self, job, cancelled, lacks_priorities),
            answer: Some(|admitted: Admitted| match admitted {
                Ok(_) => Ok(()),
                Err(refused) => Err(refused.map(|job| R::task_of(job.into_body()))),
            }),
        }
    }

    /// Async version of [`spawn_task`](Self::spawn_task).
    fn spawn_task_async<R, T>(
        self: Arc<Self>,
        task: T,
        options: Option<TaskOptions>,
    ) -> impl Future<Output = Spawned<R::Value, T>> + Send + Unpin + use<Self, R, T>
    where
        R: Accepts<T>,
    {
        // The handle exists before the wait, so that dropping the future after the job was accepted detaches the task.
        let lacks_priorities = self.lacks_priorities(options.as_ref());
        let record = self.context().record_of(options);
        let cancelled = record
            .as_ref()
            .and_then(|record| record.limits().cancelled());
        let mut handle = self.handle_of::<R, T>(task, record);
        let pools = Arc::clone(&self);
        Answered {
            future: Admission::new(self, handle.job(), cancelled, lacks_priorities),
            answer: Some(move |admitted: Admitted| match admitted {
                Ok(pool) => {
                    pools.set_pool(pool, &mut handle);
                    Ok(JoinHandle::of(handle))
                }
                Err(refused) => {
                    let task = handle.into_refused::<R, T>();
                    Err(refused.without_task().with_task(task))
                }
            }),
        }
    }

    /// Submits the job of a task without options. A refused job stays in `job`.
    #[inline(never)]
    fn submit_job(
        self: &Arc<Self>,
        choice: Option<usize>,
        job: &mut Option<Task>,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        self.refuses(on_full)?;
        *job = job.take().map(|job| self.recorded(job));
        self.admit_chosen(choice, job, on_full, None).map(drop)
    }

    /// Like [`submit_job`](Self::submit_job), with options.
    #[inline(never)]
    fn submit_recorded(
        self: &Arc<Self>,
        job: &mut Option<Task>,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        self.refuses_with(Some(&options), on_full)?;
        let record = TaskRecord::new(options, self.context());
        let recorded = job
            .take()
            .expect("a job is accepted once")
            .with_record(record);
        let Err((choice, recorded)) = self.place_job(recorded) else {
            return Ok(());
        };
        // Copied only now: all submitters would write the counter of a token that their tasks share.
        let (recorded, limits) = recorded.with_limits();
        *job = Some(recorded);
        self.admit_chosen(choice, job, on_full, limits.as_ref())
            .map(drop)
    }

    /// Spawns the task in a cell.
    #[inline(never)]
    fn spawn_cell(
        self: &Arc<Self>,
        handle: &mut RawHandle,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        let Err((choice, job)) = self.place_spawned(handle) else {
            return Ok(());
        };
        let limits = handle.cell().limits();
        let pool = self.admit_chosen(choice, &mut Some(job), on_full, limits.as_ref())?;
        self.set_pool(pool, handle);
        Ok(())
    }

    /// Accepts the job of a task in a cell if the pool is busy and has room.
    ///
    /// # Errors
    /// A strategy's choice, and the job.
    #[inline]
    fn place_spawned(&self, handle: &mut RawHandle) -> Result<(), (Option<usize>, Task)> {
        // The reference of the queue, made before the slot is taken, since nothing but the write may happen under the lock.
        let pool = self.place_job(handle.job())?;
        self.set_pool(pool, handle);
        Ok(())
    }

    /// Accepts a job if the pool is busy and has room. Returns the pool.
    ///
    /// # Errors
    /// A strategy's choice, and the job.
    #[inline]
    fn place_job(&self, job: Task) -> Result<usize, (Option<usize>, Task)> {
        let mut choice = None;
        let Target(target) = self.target(&mut choice);
        // SAFETY: the job is written below, which calls no user code.
        let Some(mut place) = (unsafe { target.place() }) else {
            return Err((choice, job));
        };
        place.slot().write(job);
        // SAFETY: it was just written.
        unsafe { target.filled(place) };
        Ok(choice.unwrap_or(0))
    }

    /// Whether the task has a priority and the pool has none.
    fn lacks_priorities(&self, options: Option<&TaskOptions>) -> bool {
        options.is_some_and(TaskOptions::has_priority) && !self.has_priorities()
    }

    /// Like [`refuses`](Self::refuses), for a task with or without options.
    fn refuses_with(
        &self,
        options: Option<&TaskOptions>,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        // Before a record is made, so that a refused task costs no allocation.
        if options.is_some_and(TaskOptions::is_cancelled) {
            self.count_unoffered();
            return Err(SubmitError::Cancelled(()));
        }
        if self.lacks_priorities(options) {
            self.count_unoffered();
            return Err(SubmitError::NoPriorities(()));
        }
        self.refuses(on_full)
    }
}

/// Index of the pool that accepted a job, or 0 for a single pool; the job if none did.
pub(crate) type Admitted = Result<usize, SubmitError<Task>>;

/// The handle of an accepted task, or the refused task.
pub(crate) type Spawned<V, T> = Result<JoinHandle<V>, SubmitError<T>>;

/// Adds the task of a refused job to the error.
#[cold]
fn give_back<R: Accepts<T>, T>(refused: SubmitError, job: Option<Task>) -> SubmitError<T> {
    refused.with_task(R::task_of(
        job.expect("a refused job is left where it is").into_body(),
    ))
}

/// Adds the task of a refused call to the error.
///
/// # Errors
/// Always.
// A function of its own, as the next one: the frame of a call that moves a large task has no second place for it.
#[cold]
pub fn refuse<V, T>(refused: SubmitError, task: T) -> Result<V, SubmitError<T>> {
    Err(refused.with_task(task))
}

/// Adds the task of a refused handle to the error.
#[cold]
fn refuse_handle<R: Accepts<T>, T, V>(
    refused: SubmitError,
    handle: RawHandle,
) -> Result<V, SubmitError<T>> {
    refuse(refused, handle.into_refused::<R, T>())
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

/// A wait for room, or the refusal of a task with a priority.
enum Admission<A: Admit> {
    Waits(A::Future),
    /// Refused at the first poll.
    Refused(Arc<A>, Option<Task>),
}

impl<A: Admit> Admission<A> {
    fn new(pools: Arc<A>, job: Task, cancelled: Option<Cancelled>, lacks_priorities: bool) -> Self {
        if lacks_priorities {
            Self::Refused(pools, Some(job))
        } else {
            Self::Waits(pools.admit_async(job, cancelled))
        }
    }
}

impl<A: Admit> Future for Admission<A> {
    type Output = Admitted;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Admitted> {
        match &mut *self {
            Self::Waits(future) => Pin::new(future).poll(context),
            Self::Refused(pools, job) => {
                let Some(job) = job.take() else {
                    return Poll::Pending;
                };
                pools.count_unoffered();
                Poll::Ready(Err(SubmitError::NoPriorities(job)))
            }
        }
    }
}

impl Admit for Core {
    type Future = SubmitFuture;
    type RoomFuture = RoomFuture;
    type WaitError = WaitError;

    #[inline]
    fn pool_handle(self: &Arc<Self>) -> PoolHandle {
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
    fn context(&self) -> &TaskContext {
        &self.context
    }

    fn recorded(&self, job: Task) -> Task {
        Core::recorded(self, job)
    }

    fn has_priorities(&self) -> bool {
        self.installed.levels.is_some()
    }

    fn admit_some(self: &Arc<Self>, jobs: Chunk<'_, Task>) {
        self.admit_chunk(jobs);
    }

    #[inline]
    fn target(&self, _choice: &mut Option<usize>) -> Target<'_> {
        Target(self)
    }

    fn admit_chosen(
        self: &Arc<Self>,
        _choice: Option<usize>,
        job: &mut Option<Task>,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<usize, SubmitError> {
        self.submit(job, on_full, limits)?;
        Ok(0)
    }

    fn count_unoffered(&self) {
        self.count_refused();
    }

    fn admit_async(self: Arc<Self>, job: Task, cancelled: Option<Cancelled>) -> SubmitFuture {
        SubmitFuture::new(self, job, cancelled)
    }

    fn give_up(wait: &mut SubmitFuture) -> Option<usize> {
        wait.give_up().then_some(0)
    }

    fn reserve_room(self: &Arc<Self>, on_full: OnFull) -> Result<PoolHandle, SubmitError> {
        self.reserve(on_full, None)
            .map_err(|reason| reason.with(()))?;
        Ok(self.pool_handle())
    }

    fn reserve_room_async(self: Arc<Self>) -> RoomFuture {
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

    fn sum(self: &Arc<Self>, figure: fn(&PoolHandle) -> usize) -> usize {
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

    fn release_now(self: &Arc<Self>, end: Disposal<'_>) -> usize {
        Core::release_now(self, end)
    }

    fn reboot(self: &Arc<Self>) -> bool {
        Core::reboot(self)
    }

    // Inlined, so that a program contains the waits that it makes.
    #[inline]
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
    ) -> impl Future<Output = Result<(), WaitError>> + Send + Unpin + use<> {
        WaitFuture::new(self, awaited, deadline)
    }

    fn end(self: &Arc<Self>) {
        Core::end(self);
    }
}

impl Core {
    /// Accepts as many jobs from the front as there are room and a live worker, and notifies workers once for all of
    /// them.
    pub(crate) fn admit_chunk(self: &Arc<Self>, Chunk(jobs): Chunk<'_, Task>) {
        // Step S2, for as many as there are credits.
        if let Some(credit) = self.credit() {
            let searchers = credit.enter_all(jobs);
            self.entered(searchers);
        }
        if jobs.len() > 0 {
            // Step S3.
            self.section(|state, effects| state.accept_all(jobs, effects));
        }
    }

    /// Whether the policy could discard a task without a discard hook.
    pub(crate) fn discards_unseen(&self, on_full: OnFull) -> bool {
        on_full.discards() && self.config.discard_hook.is_none()
    }
}
