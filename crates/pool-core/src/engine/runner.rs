//! The difference between a pool of closures and one that calls a function.

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

/// What a pool does with its jobs: calls closures, or one function with each argument.
///
/// For bounds; sealed. Its methods are the pool's own affair, and as exempt from semantic versioning as
/// the `internals` that they speak of.
pub trait Runner: Sealed + Send + Sync + Sized + 'static {
    /// What lies in the queue.
    type Job: Send + 'static;
    /// What `release_now` gives back for a task that never ran.
    type Item: Send + 'static;

    /// Runs a job on a worker. Does not unwind.
    ///
    /// The job comes without its destructor, so that it can be taken out of the place where it lies,
    /// and need not be moved first.
    fn run(&self, job: ManuallyDrop<Self::Job>, context: &TaskContext) -> TaskResult;
    /// Ends a job that was taken out to be released. Does not unwind.
    fn release(&self, job: Self::Job) -> (TaskResult, Option<Self::Item>);
    /// Asked of each entry in the section that takes it out unrun, which ends the races for it.
    /// `false` if it holds no room any more.
    fn seize(&self, job: &Self::Job, why: Unrun) -> bool;
    /// What hooks call the task; `None` if it is not the user's alone, and must not be discarded.
    fn name_of(&self, job: &Self::Job) -> Option<&'static str>;
    /// What the task was called by the one that handed it over.
    fn given_name_of<'a>(&self, job: &'a Self::Job) -> Option<&'a str>;
    /// Which tasks go before it, in a pool that goes by priorities.
    fn priority_of(job: &Self::Job) -> Priority;
    /// Whether the handle took the task out, so that only its entry is left.
    fn is_tombstone(job: &Self::Job) -> bool;
    /// The queue's half of a task in a cell.
    #[doc(hidden)]
    fn spawned(cell: Arc<SpawnCell>) -> Self::Job;
    /// A submitted job, with a record.
    #[doc(hidden)]
    fn recorded(job: Self::Job, record: TaskRecord) -> Self::Job;
    /// Such a job without its record, if it has one.
    #[doc(hidden)]
    fn unrecorded(job: Self::Job) -> Self::Job;
    /// As [`Admit::place`](crate::sister::internals::Admit::place). The runner's, so that a runner without
    /// parameters has it compiled with this crate; likewise the next three.
    ///
    /// # Safety
    /// As there.
    #[doc(hidden)]
    unsafe fn place_job(core: &Core<Self>) -> Option<Place<'_, Self::Job>> {
        // SAFETY: the caller's.
        unsafe { core.plain_place() }
    }
    /// As [`Admit::filled`](crate::sister::internals::Admit::filled).
    ///
    /// # Safety
    /// As there.
    #[doc(hidden)]
    unsafe fn job_placed(core: &Core<Self>, place: Place<'_, Self::Job>) {
        // SAFETY: the caller's.
        unsafe { core.filled(place) };
    }
    /// As [`Admit::submit_job`](crate::sister::internals::Admit::submit_job).
    #[doc(hidden)]
    fn submit_job(
        core: &Arc<Core<Self>>,
        job: &mut Option<Self::Job>,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        core.submit_plain(job, on_full)
    }
    /// As [`Admit::admit_job`](crate::sister::internals::Admit::admit_job).
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

/// Implemented for the two runners.
pub trait Sealed {}
