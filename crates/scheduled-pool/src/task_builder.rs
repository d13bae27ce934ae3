//! The calls that schedule a task with options.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pool_core::TaskBuilder;

use crate::base::Base;
use crate::error::ScheduleError;
use crate::handle::{ScheduledHandle, SeriesHandle};
use crate::pool::ScheduledPool;
use crate::request::{First, Request};
use crate::retry::Retry;
use crate::series::Series;

/// Schedules the task of a [`TaskBuilder`] returned by [`ScheduledPool::task`].
///
/// A start deadline and a priority are not available: a due task waits for room in the pool's wait
/// queue, and the pool runs it however late it is.
///
/// ```
/// use std::time::Duration;
/// use pool_core::{CancelToken, JoinError, Pool};
/// use scheduled_pool::{ScheduledPool, TaskBuilderExt};
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
#[expect(
    clippy::missing_errors_doc,
    reason = "the calls of the pool document them"
)]
pub trait TaskBuilderExt<'p>: sealed::Sealed<'p> {
    /// See [`ScheduledPool::spawn_after`].
    fn spawn_after<F, R>(
        self,
        delay: Duration,
        task: F,
    ) -> Result<ScheduledHandle<R>, ScheduleError<F>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.into_request().once(First::After(delay), task)
    }

    /// See [`ScheduledPool::spawn_at`].
    fn spawn_at<F, R>(self, when: Instant, task: F) -> Result<ScheduledHandle<R>, ScheduleError<F>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.into_request().once(First::At(when), task)
    }

    /// See [`ScheduledPool::spawn_at_fixed_rate`].
    fn spawn_at_fixed_rate<F>(
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
    fn spawn_with_fixed_delay<F>(
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
    fn spawn_series<F>(
        self,
        first: Duration,
        series: &Series,
        task: F,
    ) -> Result<SeriesHandle, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.into_request().series(first, series, task)
    }

    /// See [`ScheduledPool::spawn_series_until`].
    fn spawn_series_until<F>(
        self,
        first: Duration,
        series: &Series,
        task: F,
    ) -> Result<SeriesHandle, ScheduleError<F>>
    where
        F: FnMut() -> ControlFlow<()> + Send + 'static,
    {
        self.into_request().series(first, series, task)
    }

    /// See [`ScheduledPool::spawn_self_paced`].
    fn spawn_self_paced<F, R>(
        self,
        first: Duration,
        task: F,
    ) -> Result<SeriesHandle<R>, ScheduleError<F>>
    where
        F: FnMut() -> ControlFlow<R, Duration> + Send + 'static,
        R: Send + 'static,
    {
        self.into_request().self_paced(first, task)
    }

    /// See [`ScheduledPool::spawn_retrying`].
    fn spawn_retrying<F, T, E>(
        self,
        policy: &Retry,
        task: F,
    ) -> Result<SeriesHandle<Result<T, E>>, ScheduleError<F>>
    where
        F: FnMut() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.into_request().retrying(policy, task)
    }
}

impl<'p, P: Base> TaskBuilderExt<'p> for TaskBuilder<'p, ScheduledPool<P>> {}

mod sealed {
    use super::Request;

    pub trait Sealed<'p>: Sized {
        fn into_request(self) -> Request<'p>;
    }
}

impl<'p, P: Base> sealed::Sealed<'p> for TaskBuilder<'p, ScheduledPool<P>> {
    fn into_request(self) -> Request<'p> {
        let (scheduled, options) = self.into_parts();
        Request::new(&scheduled.owner, Some(options))
    }
}
