//! Options of a scope's task.
//!
//! Priorities are not among them: the pool's queue holds drain tasks, not the scope's own tasks.

use std::any::type_name;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use pool_core::CancelToken;
use pool_core::internals::{Recorded, TaskOptions};

use super::{Scope, ScopedJoinHandle};

/// Builder of a scope's task with options: a name, a token that cancels the task, a latest start. Returned
/// by [`Scope::task`].
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
/// # Cost
/// One allocation more than a task without options.
#[must_use = "a task builder does nothing until a task is handed over"]
pub struct ScopedTaskBuilder<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    options: TaskOptions,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Returns a builder for a task with options: a name, a token that cancels the task, a latest start.
    pub fn task(&'scope self) -> ScopedTaskBuilder<'scope, 'env> {
        ScopedTaskBuilder {
            scope: self,
            options: TaskOptions::default(),
        }
    }
}

impl<'scope> ScopedTaskBuilder<'scope, '_> {
    /// Sets the task's name, which is reported by panics, task hooks and [`current`](pool_core::current).
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// Adds a token that cancels the task. Each of several tokens does.
    ///
    /// If the task has not started, it is not run, and its handle returns
    /// [`JoinError::Cancelled`](pool_core::JoinError::Cancelled). If it is running, it is asked to stop. The
    /// scope waits for it either way.
    pub fn cancelled_by(mut self, token: &CancelToken) -> Self {
        self.options.tokens.push(token.clone());
        self
    }

    /// Sets the latest start by the pool's clock. A task that has not started by then is not run, and its
    /// handle returns [`JoinError::Expired`](pool_core::JoinError::Expired).
    pub fn start_before(mut self, when: Instant) -> Self {
        self.options.start_before = Some(when);
        self
    }

    /// Submits the task without a handle: see [`Scope::submit`].
    pub fn submit<F, T>(self, task: F)
    where
        F: FnOnce() -> T + Send + 'scope,
    {
        self.scope.submit_as(Some(self.recorded()), task);
    }

    /// Submits the task and returns a handle to its value: see [`Scope::spawn`].
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
