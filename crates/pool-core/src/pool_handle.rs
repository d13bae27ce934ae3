//! A pool as the sister crates see it: what [`group`](crate::group) and
//! [`scheduler`](crate::scheduler) both ask of it. Their own calls stand there.

use std::sync::Arc;
use std::time::Instant;

use sync_shim::{Clock, Process};

use crate::core::Core;
use crate::error::WaitError;
use crate::handle::PoolRef;
use crate::pool::WorkerPool;
use crate::runner::Runner;
use crate::task::closures::Closures;
use crate::wait_async::{Awaited, WaitFuture};

/// A pool, for a group of pools or a scheduler. It keeps the pool in memory, and nothing open.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct PoolHandle<R: Runner = Closures>(pub(crate) Arc<Core<R>>);

impl<R: Runner> Clone for PoolHandle<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Runner> PoolHandle<R> {
    /// The handle of a pool.
    pub fn of(pool: &WorkerPool<R>) -> Self {
        Self(Arc::clone(pool.core()))
    }

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
    /// As [`WorkerPool::wait_released_deadline`], and [`Rebooted`](WaitError::Rebooted) if another
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
        self.0.is_own_worker()
    }

    /// The process of the workers.
    pub fn process(&self) -> Process {
        self.0.process()
    }
}
