//! The traits that all kinds of pools implement. Each method is the multi-pool's own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pool_core::internals::Admit;
use pool_core::{
    Accepts, BoxedFuture, Capacity, JoinHandle, OnFull, Runner, Spawn, Stats, Submit, SubmitError,
    TuneError, WaitError, Workers,
};

use crate::multi::MultiWorkerPool;

impl<R: Runner> Workers for MultiWorkerPool<R> {
    fn name(&self) -> &str {
        self.name()
    }
    fn stats(&self) -> Stats {
        self.stats()
    }
    fn is_released(&self) -> bool {
        self.is_released()
    }
    fn is_own_worker(&self) -> bool {
        self.is_own_worker()
    }
    fn on_full(&self) -> OnFull {
        self.on_full()
    }
    fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.deadline(timeout)
    }
    fn tune(&self, capacity: Capacity) -> Result<(), TuneError> {
        self.tune(capacity)
    }
    fn release(&self) -> bool {
        self.release()
    }
    fn release_now(&self) -> usize {
        let mut items = Vec::new(); // User code: dropped once all figures show their end.
        self.shared().release_now(|item| items.push(item))
    }
    fn release_until(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        Ok(self.release_until(deadline)?)
    }
    fn wait_released_until(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        Ok(self.wait_released_until(deadline)?)
    }
    fn wait_idle_until(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        Ok(self.shared().wait_idle(deadline)?)
    }
    fn reboot(&self) -> bool {
        self.reboot()
    }
    fn pause(&self) -> bool {
        self.pause()
    }
    fn resume(&self) -> bool {
        self.resume()
    }
    fn is_paused(&self) -> bool {
        self.is_paused()
    }
    /// The sum of what is free in each pool: one that was tuned down may be above its capacity.
    fn free(&self) -> Option<usize> {
        self.free()
    }
}

impl<T: 'static, R: Accepts<T>> Submit<T> for MultiWorkerPool<R> {
    fn submit_with(&self, task: T, on_full: OnFull) -> Result<(), SubmitError<T>> {
        let task = self.shared().check_discards(task, on_full)?;
        self.shared().submit_task(task, on_full)
    }
    fn submit_async(&self, task: T) -> BoxedFuture<Result<(), SubmitError<T>>> {
        Box::pin(Arc::clone(self.shared()).submit_task_async(task, None))
    }
}

impl<T: 'static, R: Accepts<T>> Spawn<T> for MultiWorkerPool<R> {
    type Value = R::Value;

    fn spawn_with(&self, task: T, on_full: OnFull) -> Result<JoinHandle<R::Value>, SubmitError<T>> {
        let task = self.shared().check_discards(task, on_full)?;
        self.shared().spawn_task(task, None, on_full)
    }
    fn spawn_async(&self, task: T) -> BoxedFuture<Result<JoinHandle<R::Value>, SubmitError<T>>> {
        Box::pin(Arc::clone(self.shared()).spawn_task_async(task, None))
    }
}
