//! The difference between a pool of closures and a pool that calls one function.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::config::OnFull;
use crate::engine::core::Core;
use crate::error::SubmitError;
use crate::sched::ready::Priority;
use crate::sched::shared::Place;
use crate::task::cell::SpawnCell;
use crate::task::options::WaitLimits;
use crate::task::record::TaskRecord;
use crate::task::run::{TaskContext, TaskResult, Unrun};

/// How a pool runs its jobs: it calls closures, or one function with each argument.
///
/// Sealed, and public for bounds only. Its methods are implementation details, and as exempt from semantic versioning
/// as `internals`.
pub trait Runner: Sealed + Send + Sync + Sized + 'static {
    /// The element type of the queue.
    type Job: Send + 'static;
    /// What `release_now` returns for an unstarted task.
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
