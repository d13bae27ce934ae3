//! The pools' common faces. Each method is the multi-pool's own.

use std::time::{Duration, Instant};

use pool_core::{
    Capacity, Runner, Stats, TuneError, WaitError, Workers, spawn_by_own_methods,
    submit_by_own_methods,
};

use crate::closures::MultiPool;
use crate::func::MultiFuncPool;
use crate::multi::MultiWorkerPool;

impl<R: Runner> Workers for MultiWorkerPool<R> {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn running(&self) -> usize {
        Self::running(self)
    }

    fn free(&self) -> Option<usize> {
        Self::free(self)
    }

    fn waiting(&self) -> usize {
        Self::waiting(self)
    }

    fn capacity(&self) -> Capacity {
        Self::capacity(self)
    }

    fn queued(&self) -> usize {
        Self::queued(self)
    }

    fn in_flight(&self) -> usize {
        Self::in_flight(self)
    }

    fn stats(&self) -> Stats {
        Self::stats(self)
    }

    fn is_released(&self) -> bool {
        Self::is_released(self)
    }

    fn is_own_worker(&self) -> bool {
        Self::is_own_worker(self)
    }

    fn tune(&self, capacity: Capacity) -> Result<(), TuneError> {
        Self::tune(self, capacity)
    }

    fn release(&self) -> bool {
        Self::release(self)
    }

    fn release_now(&self) -> usize {
        let mut items = Vec::new(); // Foreign: dropped once all figures show their end.
        self.shared().release_now(|item| items.push(item))
    }

    fn release_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        Self::release_timeout(self, timeout).map_err(Into::into)
    }

    fn release_deadline(&self, deadline: Instant) -> Result<(), WaitError> {
        Self::release_deadline(self, deadline).map_err(Into::into)
    }

    fn wait_released(&self) -> Result<(), WaitError> {
        Self::wait_released(self).map_err(Into::into)
    }

    fn wait_released_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        Self::wait_released_timeout(self, timeout).map_err(Into::into)
    }

    fn wait_released_deadline(&self, deadline: Instant) -> Result<(), WaitError> {
        Self::wait_released_deadline(self, deadline).map_err(Into::into)
    }

    fn wait_idle(&self) -> Result<(), WaitError> {
        Self::wait_idle(self).map_err(Into::into)
    }

    fn wait_idle_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        Self::wait_idle_timeout(self, timeout).map_err(Into::into)
    }

    fn wait_idle_deadline(&self, deadline: Instant) -> Result<(), WaitError> {
        Self::wait_idle_deadline(self, deadline).map_err(Into::into)
    }

    fn reboot(&self) -> bool {
        Self::reboot(self)
    }
}

submit_by_own_methods!(MultiPool, [F: FnOnce() + Send + 'static] F);
spawn_by_own_methods!(MultiPool, [F: FnOnce() -> V + Send + 'static, V: Send + 'static] F => V);
submit_by_own_methods!(MultiFuncPool<T, V>, [T: Send + 'static, V: Send + 'static] T);
spawn_by_own_methods!(MultiFuncPool<T, V>, [T: Send + 'static, V: Send + 'static] T => V);
