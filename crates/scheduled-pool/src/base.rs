//! What a scheduled pool stands over: a pool of closures, or several that are one.
//!
//! # What always holds
//! 1. All pools of a base are released and rebooted together. A scheduled pool belongs to one generation
//!    of each.
//! 2. Choosing among them runs no user code: the timer thread does it.

use std::sync::Arc;
use std::time::Instant;

use pool_core::internals::{Admit, AdmitHandle, PoolHandle, are_at_rest};
use pool_core::{Closures, WaitError, WeakWorkerPool, WorkerPool};
use sync_shim::Process;
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};

/// A pool that a [`ScheduledPool`](crate::ScheduledPool) can run its tasks in: a [`Pool`](pool_core::Pool) or a
/// `multi_pool::MultiPool`. Not to be implemented elsewhere.
pub trait Base: Clone + Send + Sync + 'static + sealed::Sealed {}

pub(crate) mod sealed {
    use super::PoolHandle;

    /// What is asked of a base.
    pub trait Sealed: Sized {
        /// The handle of it that keeps nothing open.
        type Weak: Clone + Send + Sync + 'static;
        /// The pools it is made of, at least one, in the same order each time.
        fn handles(&self) -> Vec<PoolHandle>;
        fn label(&self) -> &str;
        /// Releases all of them.
        fn release_all(&self);
        /// The same, with what has not started: how many tasks.
        fn release_all_now(&self) -> usize;
        fn weak(&self) -> Self::Weak;
        fn strong(weak: &Self::Weak) -> Option<Self>;
    }
}

impl<A: Admit<Closures>> Base for WorkerPool<Closures, A> {}

impl<A: Admit<Closures>> sealed::Sealed for WorkerPool<Closures, A> {
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

/// The pools of a base, for the timer. It keeps them in memory, and nothing open.
#[derive(Clone)]
pub(crate) struct Members(Arc<Inner>);

struct Inner {
    handles: Box<[PoolHandle]>,
    /// Their generations, which end with the next release.
    generations: Box<[u64]>,
    /// Where the next choice begins.
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

    /// The one that is asked where all give the same answer.
    pub(crate) fn first(&self) -> &PoolHandle {
        &self.0.handles[0]
    }

    pub(crate) fn process(&self) -> Process {
        self.first().process()
    }

    /// Each, with the generation that the scheduled pool belongs to.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&PoolHandle, u64)> {
        let generations = self.0.generations.iter().copied();
        self.0.handles.iter().zip(generations)
    }

    /// Whether none was rebooted since.
    pub(crate) fn are_the_same(&self) -> bool {
        self.each()
            .all(|(handle, generation)| handle.generation() == generation)
    }

    /// Waits until all have ended.
    pub(crate) fn wait_for_end(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.each()
            .try_for_each(|(handle, generation)| handle.wait_for_end(generation, deadline))
    }

    /// Waits until each has been at rest.
    pub(crate) fn wait_idle(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        let mut handles = self.0.handles.iter();
        handles.try_for_each(|handle| handle.wait_idle(deadline))
    }

    /// Whether all are at rest, at one instant.
    pub(crate) fn are_at_rest(&self) -> bool {
        are_at_rest(&self.0.handles)
    }

    /// The one that a due task goes to: the first with a worker free, then with room, then with the
    /// fewest tasks, each time beginning behind the one before. The figures may be stale; a task that
    /// goes to a full pool waits there.
    pub(crate) fn choose(&self) -> &PoolHandle {
        let handles = &self.0.handles;
        if handles.len() == 1 {
            return self.first();
        }
        // Relaxed: any start will do.
        let turn = self.0.turn.fetch_add(1, Relaxed) % handles.len();
        let in_turn = || handles[turn..].iter().chain(&handles[..turn]);
        in_turn()
            .find(|pool| pool.load_stats().has_worker())
            .or_else(|| in_turn().find(|pool| pool.load_stats().has_room()))
            .or_else(|| in_turn().min_by_key(|pool| pool.load_stats().in_flight()))
            .unwrap_or(self.first())
    }
}
