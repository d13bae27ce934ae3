//! A pool as seen by other crates of the workspace: calls common to [`group`](crate::sister::group)
//! and [`scheduler`](crate::sister::scheduler).

use std::sync::Arc;
use std::time::Instant;

use sync_shim::{Clock, Process};

use crate::capacity::Capacity;
use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::engine::wait::{Awaited, WaitFuture};
use crate::error::WaitError;
use crate::sched::decide::Demand;
use crate::sched::state::State;
use crate::stats::Stats;
use crate::task::closures::Closures;
use crate::task::handle::PoolRef;
use crate::task::run::{Outcome, TaskContext};

/// A pool without an owner: keeps the pool in memory, but not open.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct PoolHandle<R: Runner = Closures>(pub(crate) Arc<Core<R>>);

impl<R: Runner> Clone for PoolHandle<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Runner> PoolHandle<R> {
    /// The clock of all timeouts.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.config.clock
    }

    /// Number of the current generation. A reboot increments it; a release ends it.
    pub fn generation(&self) -> u64 {
        self.0.state.lock().generation
    }

    /// Waits until that generation is released and every worker's thread has exited.
    ///
    /// # Errors
    /// As [`WorkerPool::wait_released_timeout`](crate::WorkerPool::wait_released_timeout), and
    /// [`Rebooted`](WaitError::Rebooted) if the pool is in a later generation.
    pub fn wait_for_end(
        &self,
        generation: u64,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.0.wait_for_end(generation, deadline)
    }

    /// Resolves once no task is in flight.
    pub fn wait_idle_async(
        &self,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + Unpin + use<R> {
        WaitFuture::new(Arc::clone(&self.0), Awaited::Rest, None)
    }

    /// Resolves once that generation is released and no worker is left.
    pub fn wait_for_end_async(
        &self,
        generation: u64,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + Unpin + use<R> {
        WaitFuture::new(Arc::clone(&self.0), Awaited::EndOf(generation), deadline)
    }

    /// Whether the calling thread is a worker of the pool, or of its group.
    pub fn is_own_worker(&self) -> bool {
        PoolRef::is_own_worker(&*self.0)
    }

    /// The process that the workers run in.
    pub fn process(&self) -> Process {
        self.0.process()
    }
}

/// Figures, each read under the pool's lock.
impl<R: Runner> PoolHandle<R> {
    /// Number of live workers.
    pub fn live(&self) -> usize {
        self.0.state.lock().live
    }

    /// Number of accepted tasks that have not started.
    pub fn queued(&self) -> usize {
        self.0.state.lock().queued()
    }

    /// Number of accepted tasks that have not ended.
    pub fn in_flight(&self) -> usize {
        self.0.state.lock().unfinished()
    }

    /// Number of workers that could still be started; `None` if unlimited.
    pub fn free(&self) -> Option<usize> {
        let guard = self.0.state.lock();
        let capacity = Capacity::from_bound(guard.capacity).limit()?;
        Some(capacity.saturating_sub(guard.live))
    }

    /// Maximum number of live workers.
    pub fn capacity(&self) -> Capacity {
        Capacity::from_bound(self.0.state.lock().capacity)
    }

    /// Number of threads and futures that wait for room.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().wait_queue.len()
    }

    /// Whether the pool is released.
    pub fn is_released(&self) -> bool {
        !self.0.state.lock().open
    }

    /// Returns a snapshot of all figures.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Gives back reserved room that no permit holds.
    pub fn give_back_room(&self) {
        self.0.give_back_room();
    }

    /// Ends the pool as the drop of the last handle does.
    pub fn end(&self) {
        self.0.end();
    }
}

/// Calls for a queue of pieces that a few of the pool's tasks drain.
impl<R: Runner> PoolHandle<R> {
    /// The context that tasks run in: the pool's name, hooks and clock.
    pub fn context(&self) -> &TaskContext {
        PoolRef::context(&*self.0)
    }

    /// Whether a task may run in place on this thread without exceeding the nesting limit.
    pub fn may_nest(&self) -> bool {
        self.0.may_nest()
    }

    /// Calls `run`, which runs a task in place, one nesting level deeper.
    pub fn nested(&self, run: &mut dyn FnMut() -> Outcome) -> Outcome {
        self.0.nested(run)
    }

    /// Demand for workers, and the capacity. Takes a section, which also updates the flag that
    /// [`is_wanted`](Self::is_wanted) reads.
    pub fn demand(&self) -> (Demand, usize) {
        let demand = |state: &mut State<_>| (state.demand(), state.capacity);
        self.0.state.section(demand)
    }

    /// Whether other work needs a worker that is running a task. Takes no lock.
    pub fn is_wanted(&self) -> bool {
        self.0.state.is_wanted()
    }

    /// Whether the pool was full at its last section. Takes no lock.
    pub fn is_full(&self) -> bool {
        self.0.state.is_full()
    }

    /// Whether the pool has a worker, according to the group's load statistics.
    pub fn has_worker(&self) -> bool {
        let load_stats = self.0.load_stats.as_ref();
        load_stats.is_some_and(|load_stats| load_stats.has_worker())
    }
}
