//! The pools' faces. Each method is the pool's own, of the same name.

use std::time::{Duration, Instant};

use super::Workers;
use crate::capacity::Capacity;
use crate::closures::Pool;
use crate::core::Runner;
use crate::error::{TuneError, WaitError};
use crate::foreign::drop_quietly;
use crate::func::FuncPool;
use crate::pool::WorkerPool;
use crate::stats::Stats;

impl<R: Runner> Workers for WorkerPool<R> {
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
        self.core().release_now(|item| _ = drop_quietly(item))
    }

    fn release_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        Self::release_timeout(self, timeout)
    }

    fn release_deadline(&self, deadline: Instant) -> Result<(), WaitError> {
        Self::release_deadline(self, deadline)
    }

    fn wait_released(&self) -> Result<(), WaitError> {
        Self::wait_released(self)
    }

    fn wait_released_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        Self::wait_released_timeout(self, timeout)
    }

    fn wait_released_deadline(&self, deadline: Instant) -> Result<(), WaitError> {
        Self::wait_released_deadline(self, deadline)
    }

    fn wait_idle(&self) -> Result<(), WaitError> {
        Self::wait_idle(self)
    }

    fn wait_idle_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        Self::wait_idle_timeout(self, timeout)
    }

    fn wait_idle_deadline(&self, deadline: Instant) -> Result<(), WaitError> {
        Self::wait_idle_deadline(self, deadline)
    }

    fn reboot(&self) -> bool {
        Self::reboot(self)
    }
}

/// `Submit` for a kind of pool, by its own methods.
#[doc(hidden)]
#[macro_export]
macro_rules! submit_by_own_methods {
    ($pool:ty, [$($parameters:tt)*] $task:ty) => {
        impl<$($parameters)*> $crate::Submit<$task> for $pool {
            fn submit(&self, task: $task) -> Result<(), $crate::SubmitError<$task>> {
                Self::submit(self, task)
            }

            fn try_submit(&self, task: $task) -> Result<(), $crate::SubmitError<$task>> {
                Self::try_submit(self, task)
            }

            fn submit_timeout(
                &self,
                task: $task,
                timeout: std::time::Duration,
            ) -> Result<(), $crate::SubmitError<$task>> {
                Self::submit_timeout(self, task, timeout)
            }

            fn submit_deadline(
                &self,
                task: $task,
                deadline: std::time::Instant,
            ) -> Result<(), $crate::SubmitError<$task>> {
                Self::submit_deadline(self, task, deadline)
            }

            fn submit_async(
                &self,
                task: $task,
            ) -> $crate::BoxedFuture<Result<(), $crate::SubmitError<$task>>> {
                Box::pin(Self::submit_async(self, task))
            }
        }
    };
}

/// `Spawn` for a kind of pool, by its own methods.
#[doc(hidden)]
#[macro_export]
macro_rules! spawn_by_own_methods {
    ($pool:ty, [$($parameters:tt)*] $task:ty => $value:ty) => {
        impl<$($parameters)*> $crate::Spawn<$task> for $pool {
            type Value = $value;

            fn spawn(
                &self,
                task: $task,
            ) -> Result<$crate::JoinHandle<$value>, $crate::SubmitError<$task>> {
                Self::spawn(self, task)
            }

            fn try_spawn(
                &self,
                task: $task,
            ) -> Result<$crate::JoinHandle<$value>, $crate::SubmitError<$task>> {
                Self::try_spawn(self, task)
            }

            fn spawn_timeout(
                &self,
                task: $task,
                timeout: std::time::Duration,
            ) -> Result<$crate::JoinHandle<$value>, $crate::SubmitError<$task>> {
                Self::spawn_timeout(self, task, timeout)
            }

            fn spawn_deadline(
                &self,
                task: $task,
                deadline: std::time::Instant,
            ) -> Result<$crate::JoinHandle<$value>, $crate::SubmitError<$task>> {
                Self::spawn_deadline(self, task, deadline)
            }

            fn spawn_async(
                &self,
                task: $task,
            ) -> $crate::BoxedFuture<
                Result<$crate::JoinHandle<$value>, $crate::SubmitError<$task>>,
            > {
                Box::pin(Self::spawn_async(self, task))
            }
        }
    };
}

submit_by_own_methods!(Pool, [F: FnOnce() + Send + 'static] F);
spawn_by_own_methods!(Pool, [F: FnOnce() -> V + Send + 'static, V: Send + 'static] F => V);
submit_by_own_methods!(FuncPool<T, V>, [T: Send + 'static, V: Send + 'static] T);
spawn_by_own_methods!(FuncPool<T, V>, [T: Send + 'static, V: Send + 'static] T => V);
