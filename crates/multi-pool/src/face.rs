//! The pools' common faces. Each method is the multi-pool's own.

use std::time::{Duration, Instant};

use pool_core::{
    BoxedFuture, Capacity, JoinHandle, Runner, Spawn, Stats, Submit, SubmitError, TuneError,
    WaitError, Workers,
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

impl<F: FnOnce() + Send + 'static> Submit<F> for MultiPool {
    fn submit(&self, task: F) -> Result<(), SubmitError<F>> {
        Self::submit(self, task)
    }

    fn try_submit(&self, task: F) -> Result<(), SubmitError<F>> {
        Self::try_submit(self, task)
    }

    fn submit_timeout(&self, task: F, timeout: Duration) -> Result<(), SubmitError<F>> {
        Self::submit_timeout(self, task, timeout)
    }

    fn submit_deadline(&self, task: F, deadline: Instant) -> Result<(), SubmitError<F>> {
        Self::submit_deadline(self, task, deadline)
    }

    fn submit_async(&self, task: F) -> BoxedFuture<Result<(), SubmitError<F>>> {
        Box::pin(Self::submit_async(self, task))
    }
}

impl<F, V> Spawn<F> for MultiPool
where
    F: FnOnce() -> V + Send + 'static,
    V: Send + 'static,
{
    type Value = V;

    fn spawn(&self, task: F) -> Result<JoinHandle<V>, SubmitError<F>> {
        Self::spawn(self, task)
    }

    fn try_spawn(&self, task: F) -> Result<JoinHandle<V>, SubmitError<F>> {
        Self::try_spawn(self, task)
    }

    fn spawn_timeout(&self, task: F, timeout: Duration) -> Result<JoinHandle<V>, SubmitError<F>> {
        Self::spawn_timeout(self, task, timeout)
    }

    fn spawn_deadline(&self, task: F, deadline: Instant) -> Result<JoinHandle<V>, SubmitError<F>> {
        Self::spawn_deadline(self, task, deadline)
    }

    fn spawn_async(&self, task: F) -> BoxedFuture<Result<JoinHandle<V>, SubmitError<F>>> {
        Box::pin(Self::spawn_async(self, task))
    }
}

impl<T: Send + 'static, V: Send + 'static> Submit<T> for MultiFuncPool<T, V> {
    fn submit(&self, task: T) -> Result<(), SubmitError<T>> {
        Self::submit(self, task)
    }

    fn try_submit(&self, task: T) -> Result<(), SubmitError<T>> {
        Self::try_submit(self, task)
    }

    fn submit_timeout(&self, task: T, timeout: Duration) -> Result<(), SubmitError<T>> {
        Self::submit_timeout(self, task, timeout)
    }

    fn submit_deadline(&self, task: T, deadline: Instant) -> Result<(), SubmitError<T>> {
        Self::submit_deadline(self, task, deadline)
    }

    fn submit_async(&self, task: T) -> BoxedFuture<Result<(), SubmitError<T>>> {
        Box::pin(Self::submit_async(self, task))
    }
}

impl<T: Send + 'static, V: Send + 'static> Spawn<T> for MultiFuncPool<T, V> {
    type Value = V;

    fn spawn(&self, task: T) -> Result<JoinHandle<V>, SubmitError<T>> {
        Self::spawn(self, task)
    }

    fn try_spawn(&self, task: T) -> Result<JoinHandle<V>, SubmitError<T>> {
        Self::try_spawn(self, task)
    }

    fn spawn_timeout(&self, task: T, timeout: Duration) -> Result<JoinHandle<V>, SubmitError<T>> {
        Self::spawn_timeout(self, task, timeout)
    }

    fn spawn_deadline(&self, task: T, deadline: Instant) -> Result<JoinHandle<V>, SubmitError<T>> {
        Self::spawn_deadline(self, task, deadline)
    }

    fn spawn_async(&self, task: T) -> BoxedFuture<Result<JoinHandle<V>, SubmitError<T>>> {
        Box::pin(Self::spawn_async(self, task))
    }
}
