//! A pool as the sister crates see it: what [`group`](crate::sister::group) and
//! [`scheduler`](crate::sister::scheduler) both ask of it. Their own calls stand there.

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

/// A pool, for a group of pools or a scheduler. It keeps the pool in memory, and nothing open.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct PoolHandle<R: Runner = Closures>(pub(crate) Arc<Core<R>>);

impl<R: Runner> Clone for PoolHandle<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Runner> PoolHandle<R> {
    /// The clock of every time-out.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.config.clock
    }

    /// Which release comes next, or has come; raised by each reboot.
    pub fn generation(&self) -> u64 {
        self.0.state.lock().generation
    }

    /// Waits until that generation is released and every worker's thread has ended.
    ///
    /// # Errors
    /// As [`WorkerPool::wait_released_timeout`](crate::WorkerPool::wait_released_timeout), and [`Rebooted`](WaitError::Rebooted) if another
    /// generation has come.
    pub fn wait_for_end(
        &self,
        generation: u64,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.0.wait_for_end(generation, deadline)
    }

    /// Resolves once nothing is in flight.
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

    /// Whether the caller is a worker of the pool, or of its group.
    pub fn is_own_worker(&self) -> bool {
        PoolRef::is_own_worker(&*self.0)
    }

    /// The process of the workers.
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

    /// The most live workers there may be.
    pub fn capacity(&self) -> Capacity {
        Capacity::from_bound(self.0.state.lock().capacity)
    }

    /// Number of threads and futures that wait for room.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().wait_queue.len()
    }

    /// Whether it is released.
    pub fn is_released(&self) -> bool {
        !self.0.state.lock().open
    }

    /// All figures.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Gives reserved room back that no permit holds.
    pub fn give_back_room(&self) {
        self.0.give_back_room();
    }

    /// What the drop of the last handle does.
    pub fn end(&self) {
        self.0.end();
    }
}

/// For a queue of pieces that a few of the pool's tasks drain.
impl<R: Runner> PoolHandle<R> {
    /// What a task is run with: the pool's name, hooks and clock.
    pub fn context(&self) -> &TaskContext {
        PoolRef::context(&*self.0)
    }

    /// Whether a task may run in place on this thread: the nesting limit is not reached.
    pub fn may_nest(&self) -> bool {
        self.0.may_nest()
    }

    /// Calls `run`, which runs a task in place, one level deeper than the caller's.
    pub fn nested(&self, run: &mut dyn FnMut() -> Outcome) -> Outcome {
        self.0.nested(run)
    }

    /// What the workers are wanted for, and the capacity. A section, which settles anew whether
    /// workers are wanted.
    pub fn demand(&self) -> (Demand, usize) {
        let demand = |state: &mut State<_>| (state.demand(), state.capacity);
        self.0.state.section(demand)
    }

    /// Whether a worker that runs a task is wanted for another. Takes no lock.
    pub fn is_wanted(&self) -> bool {
        self.0.state.is_wanted()
    }

    /// Whether the pool was full at its last section. Takes no lock.
    pub fn is_full(&self) -> bool {
        self.0.state.is_full()
    }

    /// Whether the pool has a worker, by the figures that a group's pools keep.
    pub fn has_worker(&self) -> bool {
        let load_stats = self.0.load_stats.as_ref();
        load_stats.is_some_and(|load_stats| load_stats.has_worker())
    }
}
