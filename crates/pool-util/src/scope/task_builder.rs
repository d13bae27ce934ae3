//! What a task of a scope may be given beside its closure.
//!
//! Not for: a priority. The pool does not queue a scope's tasks, but drain tasks that take one after
//! the other.

use std::any::type_name;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use pool_core::CancelToken;
use pool_core::internals::{Recorded, TaskOptions};

use super::{Scope, ScopedJoinHandle};

/// Gives a single task of a scope a name, a token that cancels it, a time to be started by; then hands
/// it over. Made by [`Scope::task`].
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
///
/// Costs one allocation more than a task without options.
#[must_use = "a task builder does nothing until a task is handed over"]
pub struct ScopedTaskBuilder<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    options: TaskOptions,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Sets a single task up: its name, a token that cancels it, a time by which it is to be started.
    pub fn task(&'scope self) -> ScopedTaskBuilder<'scope, 'env> {
        ScopedTaskBuilder {
            scope: self,
            options: TaskOptions::default(),
        }
    }
}

impl<'scope> ScopedTaskBuilder<'scope, '_> {
    /// What the task is called, in reports of its panic, to task hooks, and by
    /// [`current`](crate::current).
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// The token cancels the task; of several, each does. If it has not started then, it is not run,
    /// and its handle ends with [`JoinError::Cancelled`](crate::JoinError::Cancelled); one that runs is asked to stop. The scope
    /// waits for it all the same.
    pub fn cancelled_by(mut self, token: &CancelToken) -> Self {
        self.options.tokens.push(token.clone());
        self
    }

    /// If the task has not started by then, by the pool's clock, it is not run, and its handle ends with
    /// [`JoinError::Expired`](crate::JoinError::Expired).
    pub fn start_before(mut self, when: Instant) -> Self {
        self.options.start_before = Some(when);
        self
    }

    /// Hands the task over: see [`Scope::submit`].
    pub fn submit<F, T>(self, task: F)
    where
        F: FnOnce() -> T + Send + 'scope,
    {
        self.scope.submit_as(Some(self.recorded()), task);
    }

    /// Hands the task over and returns a handle to its value: see [`Scope::spawn`].
    pub fn spawn<F, T>(self, task: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let recorded = Some(self.recorded());
        self.scope.spawn_as(type_name::<F>(), recorded, task)
    }

    fn recorded(&self) -> Arc<Recorded> {
        let options = self.options.clone();
        Recorded::new(options, self.scope.queue.pool())
    }
}

impl fmt::Debug for ScopedTaskBuilder<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedTaskBuilder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
