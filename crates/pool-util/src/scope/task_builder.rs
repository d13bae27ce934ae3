//! Tasks of a scope that have options.

use std::any::type_name;
use std::sync::Arc;
use std::time::Instant;

use pool_core::internals::{
    OptionsHost, Recorded, SpawnWithOptions, SubmitWithOptions, TaskOptions,
};
use pool_core::{OnFull, TaskBuilder, Timeout};

use super::{Scope, ScopedJoinHandle};

impl<'scope> Scope<'scope, '_> {
    /// Returns a builder that sets the options of a single task: name, cancel tokens, start deadline.
    /// The scope ignores a priority, because its tasks are not in the pool's queue, and waits for
    /// cancelled tasks, too.
    ///
    /// ```
    /// use pool_core::{CancelToken, JoinError, Pool};
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let (text, stop) = (String::from("borrowed"), CancelToken::new());
    /// let (length, late) = pool.scope(|scope| {
    ///     let task = scope.task().name("length").cancelled_by(&stop);
    ///     let length = task.spawn(|| (text.len(), pool_core::current().name().map(str::to_owned)));
    ///     let length = length.join();
    ///     stop.cancel();
    ///     (length, scope.task().cancelled_by(&stop).spawn(|| text.len()).join())
    /// });
    /// assert_eq!(length?, (8, Some(String::from("length"))));
    /// assert!(matches!(late, Err(JoinError::Cancelled)));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn task(&'scope self) -> TaskBuilder<'scope, Self> {
        TaskBuilder::of(self)
    }

    fn recorded(&self, options: TaskOptions) -> Arc<Recorded> {
        Recorded::new(options, self.queue.pool().context())
    }
}

impl OptionsHost for Scope<'_, '_> {
    /// A scope is never full.
    fn usual(&self) -> OnFull {
        OnFull::Refuse
    }
    fn after(&self, timeout: Timeout) -> Option<Instant> {
        timeout.deadline(&**self.queue.pool().clock())
    }
}

impl<'scope, F, T> SubmitWithOptions<F> for Scope<'scope, '_>
where
    F: FnOnce() -> T + Send + 'scope,
{
    type Submitted = ();

    fn submit_with_options(&self, task: F, options: TaskOptions, _on_full: OnFull) {
        self.submit_as(Some(self.recorded(options)), task);
    }
}

impl<'scope, F, T> SpawnWithOptions<F> for Scope<'scope, '_>
where
    F: FnOnce() -> T + Send + 'scope,
    T: Send + 'scope,
{
    type Spawned = ScopedJoinHandle<'scope, T>;

    fn spawn_with_options(&self, task: F, options: TaskOptions, _on_full: OnFull) -> Self::Spawned {
        self.spawn_as(type_name::<F>(), Some(self.recorded(options)), task)
    }
}
