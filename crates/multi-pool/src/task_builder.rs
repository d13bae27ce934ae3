//! Tasks that are given more than a closure, for several pools: who a `TaskBuilder` hands them to.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pool_core::internals::{Admit, OptionsHost, SpawnWithOptions, SubmitWithOptions, TaskOptions};
use pool_core::{Accepts, JoinHandle, OnFull, Runner, SubmitError, TaskBuilder};

use crate::multi::MultiWorkerPool;

impl<R: Runner> MultiWorkerPool<R> {
    /// Sets a single task up: its name, a token that cancels it, a time by which it is to be started.
    /// See [`TaskBuilder`].
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::{Pool, current};
    ///
    /// let pools = MultiPool::builder(Pool::builder().capacity(1)).pools(2).build()?;
    /// let task = pools.task().name("index").spawn(|| current().name().map(str::to_owned))?;
    /// assert_eq!(task.join()?.as_deref(), Some("index"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn task(&self) -> TaskBuilder<'_, Self> {
        TaskBuilder::of(self)
    }
}

impl<R: Runner> OptionsHost for MultiWorkerPool<R> {
    fn usual(&self) -> OnFull {
        self.on_full()
    }
    fn after(&self, timeout: Duration) -> Option<Instant> {
        self.deadline(timeout)
    }
}

impl<T, R: Accepts<T>> SpawnWithOptions<T> for MultiWorkerPool<R> {
    type Handle = JoinHandle<R::Value>;

    fn spawn_with_options(
        &self,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<Self::Handle, SubmitError<T>> {
        self.shared().spawn_recorded(task, options, on_full)
    }
}

impl<T, R: Accepts<T>> SubmitWithOptions<T> for MultiWorkerPool<R> {
    fn submit_with_options(
        &self,
        task: T,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError<T>> {
        self.shared().submit_recorded(task, options, on_full)
    }
    fn submit_with_options_async(
        &self,
        task: T,
        options: TaskOptions,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<R, T> {
        Arc::clone(self.shared()).submit_recorded_async(task, options)
    }
    fn spawn_with_options_async(
        &self,
        task: T,
        options: TaskOptions,
    ) -> impl Future<Output = Result<Self::Handle, SubmitError<T>>> + Send + Unpin + use<R, T> {
        Arc::clone(self.shared()).spawn_recorded_async(task, options)
    }
}
