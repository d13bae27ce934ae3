//! The base of a scheduled pool: a pool of closures, or a multi-pool.
//!
//! # Invariants
//! 1. All pools of a base are released and rebooted together. A scheduled pool belongs to one generation
//!    of each.
//! 2. Choosing a pool runs no user code, because the timer thread chooses.

use std::sync::Arc;
use std::time::Instant;

use pool_core::internals::{Admit, AdmitHandle, PoolHandle, are_at_rest};
use pool_core::{Closures, WaitError, WeakWorkerPool, WorkerPool};
use sync_shim::Process;
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};

/// A pool that a [`ScheduledPool`](crate::ScheduledPool) can run its tasks in: a [`Pool`](pool_core::Pool) or a
/// `multi_pool::MultiPool`. Sealed.
pub trait Base: Clone + Send + Sync + 'static + sealed::Sealed {}

pub(crate) mod sealed {
    use super::PoolHandle;

    /// The private calls of a base.
    pub trait Sealed: Sized {
        /// The weak handle of the base.
        type Weak: Clone + Send + Sync + 'static;
        /// Returns its pools, at least one, always in the same order.
        fn handles(&self) -> Vec<PoolHandle>;
        fn label(&self) -> &str;
        /// Releases all of them.
        fn release_all(&self);
        /// Calls `release_now` of all of them, and returns the number of unstarted tasks.
        fn release_all_now(&self) -> usize;
        fn weak(&self) -> Self::Weak;
        fn strong(weak: &Self::Weak) -> Option<Self>;
    }
}

impl<A: Admit> Base for WorkerPool<Closures, A> {}

impl<A: Admit> sealed::Sealed for WorkerPool<Closures, A> {
    type Weak = WeakWorkerPool<Closures, A>;

    fn handles(&self) -> Vec<PoolHandle> {
        let members = self.admit().members();
        if members.is_empty() {
            return vec![self.admit().pool_handle()];
        }
        members.to_vec()
    }

    fn label(&self) -> &str {
        self.name()
    }

    fn release_all(&self) {
        self.release();
    }

    fn release_all_now(&self) -> usize {
        self.release_now()
    }

    fn weak(&self) -> Self::Weak {
        self.downgrade()
    }

    fn strong(weak: &Self::Weak) -> Option<Self> {
        weak.upgrade()
    }
}

/// The pools of a base, for the timer. It does not keep them open.
#[derive(Clone)]
pub(crate) struct Members(Arc<Inner>);

struct Inner {
    handles: Box<[PoolHandle]>,
    /// The generation of each pool when the scheduled pool was built.
    generations: Box<[u64]>,
    /// Index at which the next choice starts.
    turn: AtomicUsize,
}

impl Members {
    pub(crate) fn of(base: &impl Base) -> Self {
        let handles: Box<[_]> = base.handles().into();
        let generations = handles.iter().map(PoolHandle::generation).collect();
        Self(Arc::new(Inner {
            handles,
            generations,
            turn: AtomicUsize::new(0),
        }))
    }

    /// The first pool, for questions that all pools answer alike.
    pub(crate) fn first(&self) -> &PoolHandle {
        &self.0.handles[0]
    }

    pub(crate) fn process(&self) -> Process {
        self.first().process()
    }

    /// Returns whether the calling thread is a worker of the pools.
    pub(crate) fn is_own_worker(&self) -> bool {
        self.first().is_own_worker()
    }

    /// Iterates over the pools, with the generation that the scheduled pool belongs to.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&PoolHandle, u64)> {
        let generations = self.0.generations.iter().copied();
        self.0.handles.iter().zip(generations)
    }

    /// Returns whether no pool was rebooted since the scheduled pool was built.
    pub(crate) fn are_the_same(&self) -> bool {
        self.each()
            .all(|(handle, generation)| handle.generation() == generation)
    }

    /// Waits until all pools have ended.
    pub(crate) fn wait_for_end(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.each()
            .try_for_each(|(handle, generation)| handle.wait_for_end(generation, deadline))
    }

    /// Waits until each pool has been idle.
    pub(crate) fn wait_idle(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        let mut handles = self.0.handles.iter();
        handles.try_for_each(|handle| handle.wait_idle(deadline))
    }

    /// Returns whether all pools are idle at the same instant.
    pub(crate) fn are_at_rest(&self) -> bool {
        are_at_rest(&self.0.handles)
    }

    /// Chooses the pool for a due task, round robin: the first with a free worker, else the first with room,
    /// else the one with the fewest tasks. The statistics may be stale; in a full pool the task waits.
    pub(crate) fn choose(&self) -> &PoolHandle {
        let handles = &self.0.handles;
        if handles.len() == 1 {
            return self.first();
        }
        // Relaxed: any index is a valid start.
        let turn = self.0.turn.fetch_add(1, Relaxed) % handles.len();
        let in_turn = || handles[turn..].iter().chain(&handles[..turn]);
        in_turn()
            .find(|pool| pool.load_stats().has_worker())
            .or_else(|| in_turn().find(|pool| pool.load_stats().has_room()))
            .or_else(|| in_turn().min_by_key(|pool| pool.load_stats().in_flight()))
            .unwrap_or(self.first())
    }
}
