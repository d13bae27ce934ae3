//! The pools that run the drain tasks of a sub-queue: one pool, or the members of a multi-pool.

use std::sync::Arc;
use std::time::Instant;

#[cfg(feature = "stream")]
use pool_core::BoxedFuture;
use pool_core::internals::{Admit, Demand, PoolHandle, TaskContext, job_of};
use pool_core::{OnFull, SubmitError};

use crate::subqueue::drain_task::DrainTask;

/// Submits drain tasks to a pool, or to any member of a multi-pool.
pub(super) trait Submitter: Send + Sync {
    /// Submits a drain task, and waits for room at a full pool. A refused drain task is dropped.
    ///
    /// # Errors
    /// The reason of the refusal.
    fn submit(self: Arc<Self>, task: DrainTask) -> Result<(), SubmitError>;
    /// Async version of `submit`.
    #[cfg(feature = "stream")]
    fn submit_async(self: Arc<Self>, task: DrainTask) -> Submission;
}

/// A drain task that waits for room.
#[cfg(feature = "stream")]
pub(crate) type Submission = BoxedFuture<Result<(), SubmitError>>;

impl<A: Admit + Send + Sync + 'static> Submitter for A {
    fn submit(self: Arc<Self>, task: DrainTask) -> Result<(), SubmitError> {
        let wait = OnFull::Wait(None);
        self.refuses(wait)?;
        let mut job = Some(job_of(task));
        self.admit_job(&mut job, wait, None).map(drop)
    }

    #[cfg(feature = "stream")]
    fn submit_async(self: Arc<Self>, task: DrainTask) -> Submission {
        let admitted = self.admit_async(job_of(task), None);
        Box::pin(async { admitted.await.map(drop).map_err(SubmitError::without_task) })
    }
}

/// A pool that runs drain tasks.
pub(super) trait Member: Send + Sync {
    /// Submits a drain task. One that `follows` continues others: a released pool accepts it, and at a full pool it waits, but
    /// not the caller. A member of a multi-pool refuses it. A refused drain task is dropped.
    fn offer(&self, task: DrainTask, follows: bool) -> Result<(), SubmitError>;
    /// Most workers.
    fn workers(&self) -> usize;
    /// Demand for the workers by other tasks, and the most workers.
    fn wanted(&self) -> (Demand, usize);
    /// Whether this is a member of a multi-pool with a free worker.
    fn has_worker(&self) -> bool;
    /// Whether other tasks want the workers. A hint, read without the lock.
    fn is_wanted(&self) -> bool;
    /// Whether a task waits for a busy worker.
    fn is_saturated(&self) -> bool;
    /// Whether this pool runs tasks with this context.
    fn runs(&self, context: &TaskContext) -> bool;
}

impl Member for PoolHandle {
    fn offer(&self, task: DrainTask, follows: bool) -> Result<(), SubmitError> {
        let job = job_of(task);
        if follows {
            self.line_up(job)
        } else {
            self.accept(job).map_err(SubmitError::without_task)
        }
    }

    fn workers(&self) -> usize {
        self.demand().1
    }

    fn wanted(&self) -> (Demand, usize) {
        self.demand()
    }

    fn is_wanted(&self) -> bool {
        self.is_wanted()
    }

    fn is_saturated(&self) -> bool {
        self.is_saturated()
    }

    fn has_worker(&self) -> bool {
        self.has_worker()
    }

    fn runs(&self, context: &TaskContext) -> bool {
        std::ptr::eq(self.context(), context)
    }
}

/// The pools that run the drain tasks.
pub(crate) struct Site {
    /// The pool whose clock, panic hook and nesting limit apply.
    pub(super) pool: PoolHandle,
    pub(super) submitter: Arc<dyn Submitter>,
    /// Members of a multi-pool; empty for a single pool.
    pub(super) members: Box<[Box<dyn Member>]>,
    /// Threads that the processor can run at a time.
    pub(super) cores: usize,
}

/// The system's cores. In a model all drain tasks run pieces at once, because no time passes.
fn cores() -> usize {
    if cfg!(anthill_loom) {
        usize::MAX
    } else {
        sync_shim::thread::cores()
    }
}

impl Site {
    pub(crate) fn of<A: Admit + Send + Sync + 'static>(admit: &Arc<A>) -> Self {
        let members = admit.members().iter().cloned();
        Self {
            pool: admit.pool_handle(),
            submitter: Arc::clone(admit) as _,
            members: members.map(|pool| Box::new(pool) as _).collect(),
            cores: cores(),
        }
    }

    pub(crate) fn pool(&self) -> &PoolHandle {
        &self.pool
    }

    pub(super) fn member(&self, lane: usize) -> &dyn Member {
        let member = self.members.get(lane);
        member.map_or(&self.pool, |member| &**member)
    }

    /// Lane of the member that runs tasks with this context.
    pub(super) fn lane_of(&self, context: &TaskContext) -> usize {
        let mut members = self.members.iter();
        members.position(|member| member.runs(context)).unwrap_or(0)
    }

    /// `None` if the pool's clock panicked. The panic is counted as a hook's.
    pub(super) fn now(&self) -> Option<Instant> {
        self.pool.context().now()
    }

    /// A hint whether a drain task would be accepted at once. Takes no lock.
    pub(super) fn may_have_room(&self) -> bool {
        !self.members.is_empty() || !self.pool.is_full()
    }

    /// Most drain tasks of each member. 0 in a forked child, which has no workers and where threads of the
    /// parent may hold the pools' locks.
    pub(super) fn limits(&self) -> impl Iterator<Item = usize> {
        let has_workers = self.pool.process().is_current();
        let lanes = 0..self.members.len().max(1);
        lanes.map(move |lane| {
            if has_workers {
                self.member(lane).workers()
            } else {
                0
            }
        })
    }
}
