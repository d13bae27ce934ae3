//! Where the drain tasks of a sub-queue run: one pool, or each of a multi-pool's members.

use std::sync::Arc;
use std::time::Instant;

#[cfg(feature = "stream")]
use pool_core::BoxedFuture;
use pool_core::internals::{Admit, Demand, PoolHandle, TaskContext, job_of};
use pool_core::{Closures, OnFull, SubmitError};

use crate::subqueue::drain_task::DrainTask;

/// How drain tasks get to a pool, or to any of several.
pub(super) trait Submitter: Send + Sync {
    /// Submits a drain task, and waits for room if it has to. A refused one is dropped.
    ///
    /// # Errors
    /// Why it was refused.
    fn submit(self: Arc<Self>, task: DrainTask) -> Result<(), SubmitError>;
    /// As a future that waits for room.
    #[cfg(feature = "stream")]
    fn submit_async(self: Arc<Self>, task: DrainTask) -> Submission;
}

/// A drain task that waits for room.
#[cfg(feature = "stream")]
pub(crate) type Submission = BoxedFuture<Result<(), SubmitError>>;

impl<A: Admit<Closures> + Send + Sync + 'static> Submitter for A {
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

/// The pool, or each of several.
pub(super) trait Member: Send + Sync {
    /// Submits a drain task if there is room. A refused one is dropped.
    fn offer(&self, task: DrainTask) -> Result<(), SubmitError>;
    /// How many workers there may be.
    fn workers(&self) -> usize;
    /// What else they are wanted for, and how many there may be.
    fn wanted(&self) -> (Demand, usize);
    /// Whether it is a multi-pool's member with a worker free.
    fn has_worker(&self) -> bool;
    /// Whether its workers are wanted for other tasks than those they run. A hint, without the lock.
    fn is_wanted(&self) -> bool;
    /// Whether tasks with that context are its own.
    fn runs(&self, context: &TaskContext) -> bool;
}

impl Member for PoolHandle {
    fn offer(&self, task: DrainTask) -> Result<(), SubmitError> {
        self.accept(job_of(task)).map_err(SubmitError::without_task)
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

    fn has_worker(&self) -> bool {
        self.has_worker()
    }

    fn runs(&self, context: &TaskContext) -> bool {
        std::ptr::eq(self.context(), context)
    }
}

/// Where drain tasks run.
pub(crate) struct Site {
    /// Whose clock, panic hook and nesting limit hold.
    pub(super) pool: PoolHandle,
    /// Submits to any member.
    pub(super) submitter: Arc<dyn Submitter>,
    /// Those of a multi-pool. Empty: the pool.
    pub(super) members: Box<[Box<dyn Member>]>,
}

impl Site {
    /// The workers of what admits.
    pub(crate) fn of<A: Admit<Closures> + Send + Sync + 'static>(admit: &Arc<A>) -> Self {
        let members = admit.members().iter().cloned();
        Self {
            pool: admit.pool_handle(),
            submitter: Arc::clone(admit) as _,
            members: members.map(|pool| Box::new(pool) as _).collect(),
        }
    }

    pub(crate) fn pool(&self) -> &PoolHandle {
        &self.pool
    }

    pub(super) fn member(&self, lane: usize) -> &dyn Member {
        let member = self.members.get(lane);
        member.map_or(&self.pool, |member| &**member)
    }

    /// The lane of the member whose worker has that context.
    pub(super) fn lane_of(&self, context: &TaskContext) -> usize {
        let mut members = self.members.iter();
        members.position(|member| member.runs(context)).unwrap_or(0)
    }

    /// `None` if the pool's clock has panicked, which is counted as a hook's panic.
    pub(super) fn now(&self) -> Option<Instant> {
        self.pool.context().now()
    }

    /// Whether a drain task might be accepted. Takes no lock.
    pub(super) fn may_have_room(&self) -> bool {
        !self.members.is_empty() || !self.pool.is_full()
    }

    /// How many drain tasks each member may have: in a forked child there are no workers, and a
    /// thread that is not there may hold their pools' locks.
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
