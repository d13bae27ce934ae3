//! Tasks that are given more than a closure, for several pools.

use pool_core::{Runner, TaskBuilder};

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
