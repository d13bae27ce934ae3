//! What a scheduled task may be given beside its closure, and the calls that hand it over so.
//!
//! Not for: a priority, nor a time to be started by. A due task waits for room in the pool's line, and
//! the pool keeps it whatever happens.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pool_core::CancelToken;
use pool_core::internals::TaskOptions;

use crate::base::Base;
use crate::body::Paced;
use crate::error::ScheduleError;
use crate::handle::{ScheduledHandle, SeriesHandle};
use crate::plan::Plan;
use crate::pool::ScheduledPool;
use crate::retry::{Retry, Retrying};
use crate::series::Series;

/// Gives a scheduled task a name, and a token that cancels it; then hands it over. Made by
/// [`ScheduledPool::task`].
///
/// ```
/// use std::time::Duration;
/// use pool_core::{CancelToken, JoinError, Pool};
/// use scheduled_pool::ScheduledPool;
///
/// let scheduled = ScheduledPool::new(Pool::builder().capacity(2).build()?);
/// let shutdown = CancelToken::new();
/// let heart = scheduled.task().name("heart beat").cancelled_by(&shutdown);
/// let heart = heart.spawn_at_fixed_rate(Duration::ZERO, Duration::from_millis(1), || {
///     assert_eq!(pool_core::current().name(), Some("heart beat"));
/// })?;
/// shutdown.cancel();
/// assert!(matches!(heart.join(), Err(JoinError::Cancelled)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Costs one allocation more than a task without options.
#[must_use = "a task builder does nothing until a task is handed over"]
pub struct ScheduledTaskBuilder<'p, P> {
    pool: &'p ScheduledPool<P>,
    options: TaskOptions,
}

impl<P: Base> ScheduledPool<P> {
    /// Sets a single task or series up: its name, a token that cancels it.
    pub fn task(&self) -> ScheduledTaskBuilder<'_, P> {
        ScheduledTaskBuilder {
            pool: self,
            options: TaskOptions::default(),
        }
    }
}

#[expect(clippy::missing_errors_doc, reason = "said by the calls they refer to")]
impl<P: Base> ScheduledTaskBuilder<'_, P> {
    /// What the task is called, in reports of its panics, to task hooks, and by
    /// [`current`](pool_core::current).
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// The token cancels the task; of several, each does. A run that is under way is asked to stop
    /// ([`current`](pool_core::current)`().is_cancelled()`), and is the last. A run that is not due yet
    /// keeps its time: then the task is dropped unrun, and its handle ends with
    /// [`JoinError::Cancelled`](pool_core::JoinError::Cancelled). The handle's own `cancel` does not wait
    /// for that.
    pub fn cancelled_by(mut self, token: &CancelToken) -> Self {
        self.options.tokens.push(token.clone());
        self
    }

    /// See [`ScheduledPool::spawn_after`].
    pub fn spawn_after<F, R>(
        self,
        delay: Duration,
        task: F,
    ) -> Result<ScheduledHandle<R>, ScheduleError<F>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let due = self.pool.core().after(delay);
        self.pool.spawn_once(due, Some(self.options), task)
    }

    /// See [`ScheduledPool::spawn_at`].
    pub fn spawn_at<F, R>(
        self,
        when: Instant,
        task: F,
    ) -> Result<ScheduledHandle<R>, ScheduleError<F>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let due = self.pool.core().at(when);
        self.pool.spawn_once(due, Some(self.options), task)
    }

    /// See [`ScheduledPool::spawn_at_fixed_rate`].
    pub fn spawn_at_fixed_rate<F>(
        self,
        first: Duration,
        period: Duration,
        task: F,
    ) -> Result<SeriesHandle, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.spawn_series(first, &Series::at_fixed_rate(period), task)
    }

    /// See [`ScheduledPool::spawn_with_fixed_delay`].
    pub fn spawn_with_fixed_delay<F>(
        self,
        first: Duration,
        delay: Duration,
        task: F,
    ) -> Result<SeriesHandle, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.spawn_series(first, &Series::with_fixed_delay(delay), task)
    }

    /// See [`ScheduledPool::spawn_series`].
    pub fn spawn_series<F>(
        self,
        first: Duration,
        series: &Series,
        task: F,
    ) -> Result<SeriesHandle, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.pool
            .spawn_many(first, series, Some(self.options), task)
    }

    /// See [`ScheduledPool::spawn_series_until`].
    pub fn spawn_series_until<F>(
        self,
        first: Duration,
        series: &Series,
        task: F,
    ) -> Result<SeriesHandle, ScheduleError<F>>
    where
        F: FnMut() -> ControlFlow<()> + Send + 'static,
    {
        self.pool
            .spawn_many(first, series, Some(self.options), task)
    }

    /// See [`ScheduledPool::spawn_self_paced`].
    pub fn spawn_self_paced<F, R>(
        self,
        first: Duration,
        task: F,
    ) -> Result<SeriesHandle<R>, ScheduleError<F>>
    where
        F: FnMut() -> ControlFlow<R, Duration> + Send + 'static,
        R: Send + 'static,
    {
        let (options, body) = (Some(self.options), Paced::new(task));
        self.pool
            .spawn_body(first, Plan::UNTIL_SAID, options, body, Paced::into_task)
    }

    /// See [`ScheduledPool::spawn_retrying`].
    pub fn spawn_retrying<F, T, E>(
        self,
        policy: &Retry,
        task: F,
    ) -> Result<SeriesHandle<Result<T, E>>, ScheduleError<F>>
    where
        F: FnMut() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let (options, body) = (Some(self.options), Retrying::new(task, policy.clone()));
        self.pool.spawn_body(
            Duration::ZERO,
            Plan::UNTIL_SAID,
            options,
            body,
            Retrying::into_task,
        )
    }
}

impl<P> fmt::Debug for ScheduledTaskBuilder<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduledTaskBuilder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
