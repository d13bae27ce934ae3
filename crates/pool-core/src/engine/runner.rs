//! The difference between a pool of closures and a pool that calls one function. And the
//! types that a pool accepts as tasks.

use crate::config::OnFull;
use crate::engine::core::Core;
use crate::error::SubmitError;
use crate::sched::ready::Priority;
use crate::sched::shared::Place;
use crate::task::cell::SpawnCell;
use crate::task::options::{TaskRecord, WaitLimits};
use crate::task::run::{TaskContext, TaskResult, Unrun};
use std::mem::ManuallyDrop;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// How a pool runs its jobs: it calls closures, or one function with each argument.
///
/// Sealed, and public for bounds only. Its methods are implementation details, and as exempt from semantic versioning
/// as `internals`.
pub trait Runner: Sealed + Send + Sync + Sized + 'static {
    /// The element type of the queue.
    type Job: Send + 'static;
    /// The value that `release_now` returns for an unstarted task.
    type Item: Send + 'static;

    /// Runs a job on a worker. Does not unwind.
    ///
    /// `ManuallyDrop` lets the job be taken out of its place without a move.
    fn run(&self, job: ManuallyDrop<Self::Job>, context: &TaskContext) -> TaskResult;
    /// Ends a job that was removed by a release. Does not unwind.
    fn release(&self, job: Self::Job) -> (TaskResult, Option<Self::Item>);
    /// Claims a job for the section that removes it unstarted. Returns `false` if it holds no room any more, because its
    /// handle has claimed it before.
    fn seize(&self, job: &Self::Job, why: Unrun) -> bool;
    /// Name of the task for hooks. `None` if the task is not the user's alone and must not be discarded.
    fn name_of(&self, job: &Self::Job) -> Option<&'static str>;
    /// The name that the submitter gave the task.
    fn given_name_of<'a>(&self, job: &'a Self::Job) -> Option<&'a str>;
    /// Priority of the task, in a pool with priorities.
    fn priority_of(job: &Self::Job) -> Priority;
    /// Whether the handle has removed the task, so that only its entry is left.
    fn is_tombstone(job: &Self::Job) -> bool;
    /// Creates the queue's half of a task in a cell.
    #[doc(hidden)]
    fn spawned(cell: Arc<SpawnCell>) -> Self::Job;
    /// Adds a record to a submitted job.
    #[doc(hidden)]
    fn recorded(job: Self::Job, record: TaskRecord) -> Self::Job;
    /// Removes the record of a submitted job, if it has one.
    #[doc(hidden)]
    fn unrecorded(job: Self::Job) -> Self::Job;
    /// Like [`Admit::place`](crate::sister::internals::Admit::place). A method of the runner, like the next three, so that
    /// a runner without parameters compiles it once, with this crate.
    ///
    /// # Safety
    /// As for [`Admit::place`](crate::sister::internals::Admit::place).
    #[doc(hidden)]
    unsafe fn place_job(core: &Core<Self>) -> Option<Place<'_, Self::Job>> {
        // SAFETY: the caller promises what `plain_place` asks for.
        unsafe { core.plain_place() }
    }
    /// Like [`Admit::filled`](crate::sister::internals::Admit::filled).
    ///
    /// # Safety
    /// As for [`Admit::filled`](crate::sister::internals::Admit::filled).
    #[doc(hidden)]
    unsafe fn job_placed(core: &Core<Self>, place: Place<'_, Self::Job>) {
        // SAFETY: the caller has written the job.
        unsafe { core.filled(place) };
    }
    /// Like [`Admit::submit_job`](crate::sister::internals::Admit::submit_job).
    #[doc(hidden)]
    fn submit_job(
        core: &Arc<Core<Self>>,
        job: &mut Option<Self::Job>,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        core.submit_plain(job, on_full)
    }
    /// Like [`Admit::admit_job`](crate::sister::internals::Admit::admit_job).
    #[doc(hidden)]
    fn admit_job(
        core: &Arc<Core<Self>>,
        job: &mut Option<Self::Job>,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> Result<(), SubmitError> {
        core.submit(job, on_full, limits)
    }
}

/// Seals [`Runner`]. Implemented for the two runners.
pub trait Sealed {}

// The runner implements `Accepts`, not the task. So the compiler knows a typed pool's argument type before it looks at
// the value, and `pool.submit(text.into())` or a coercion to a boxed trait object needs no annotation.
/// The types that a runner accepts as tasks: a pool whose runner implements `Accepts<T>` takes any `T`.
///
/// - [`Closures`](crate::Closures), the runner of a [`Pool`](crate::Pool), accepts every
///   `FnOnce() -> V + Send + 'static`, and the value is what the closure returns.
/// - [`Func<T, V>`](crate::Func), the runner of a [`FuncPool<T, V>`](crate::FuncPool), accepts a
///   `T`, the function's argument, and the value is what the function returns.
///
/// Functions over any kind of pool name it as a bound:
///
/// ```
/// use pool_core::{Accepts, FuncPool, JoinError, JoinHandle, Pool, SubmitError, WorkerPool};
///
/// fn spawn_all<R: Accepts<T>, T>(
///     pool: &WorkerPool<R>,
///     tasks: impl IntoIterator<Item = T>,
/// ) -> Result<Vec<JoinHandle<R::Value>>, SubmitError<T>> {
///     tasks.into_iter().map(|task| pool.spawn(task)).collect()
/// }
///
/// let pool = Pool::builder().capacity(2).build()?;
/// let closures = [1, 2, 3].map(|n| move || n * n);
/// let squares = FuncPool::builder(|n: i32| n * n).capacity(2).build()?;
/// for handles in [spawn_all(&pool, closures)?, spawn_all(&squares, [1, 2, 3])?] {
///     let values = handles.into_iter().map(JoinHandle::join).collect::<Result<Vec<_>, _>>()?;
///     assert_eq!(values, [1, 4, 9]);
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// The trait is sealed. A trait object for any pool that takes a `T` is
/// [`dyn Submit<T>`](crate::Submit).
#[diagnostic::on_unimplemented(
    message = "a pool of `{Self}` does not take a `{T}`",
    label = "not a task of this pool",
    note = "a `Pool` takes closures: `FnOnce() -> V + Send + 'static`, with `V: Send + 'static`",
    note = "a `FuncPool<T, V>` takes arguments: `T: Send + 'static`",
    note = "a function over any runner `R` asks for `R: Accepts<{T}>`"
)]
pub trait Accepts<T>: Runner + SealedFor<T> {
    /// The value of a task. The value of a submitted task is dropped on the worker as part of the task; that of a spawned
    /// task goes to its handle.
    type Value: Send + 'static;

    /// Creates the job of a task without a handle.
    #[doc(hidden)]
    fn plain(task: T) -> Self::Job;

    /// The same, constructed in place. The job is written on return, and no user code is run.
    #[doc(hidden)]
    #[inline]
    fn plain_in(task: T, place: &mut MaybeUninit<Self::Job>) {
        place.write(Self::plain(task));
    }

    /// Takes the task back out of such a job that was refused.
    #[doc(hidden)]
    fn task_of(job: Self::Job) -> T;

    /// Creates the cell of a task with a handle and its record.
    #[doc(hidden)]
    fn in_cell(&self, task: T, record: Option<Box<TaskRecord>>) -> Arc<SpawnCell>;

    /// Takes the task back out of such a cell whose job was refused.
    #[doc(hidden)]
    fn task_in(cell: &SpawnCell) -> T;
}

/// Seals [`Accepts`]. Implemented for the two runners.
pub trait SealedFor<T> {}
