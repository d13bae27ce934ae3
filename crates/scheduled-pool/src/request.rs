//! A request to schedule a task, with or without options. The calls of a scheduled pool and of a task
//! builder end here.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pool_core::internals::{Recorded, TaskOptions, is_large};

use crate::body::{Body, Many, Once, Paced, Step};
use crate::error::ScheduleError;
use crate::handle::{ScheduledHandle, SeriesHandle};
use crate::owner::Owner;
use crate::plan::Plan;
use crate::retry::{Retry, Retrying};
use crate::series::Series;

/// When the first run of a request is due.
#[derive(Clone, Copy)]
pub(crate) enum First {
    After(Duration),
    At(Instant),
}

#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct Request<'p> {
    owner: &'p Owner,
    options: Option<TaskOptions>,
}

impl<'p> Request<'p> {
    pub(crate) fn new(owner: &'p Owner, options: Option<TaskOptions>) -> Self {
        Self { owner, options }
    }

    pub(crate) fn once<F, R>(
        self,
        first: First,
        task: F,
    ) -> Result<ScheduledHandle<R>, ScheduleError<F>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.schedule(first, Plan::Once, Once(Some(task)), Once::into_task)
    }

    pub(crate) fn series<F, O>(
        self,
        first: Duration,
        series: &Series,
        task: F,
    ) -> Result<SeriesHandle, ScheduleError<F>>
    where
        F: FnMut() -> O + Send + 'static,
        O: Step,
    {
        let Some(plan) = series.plan() else {
            return zero_period(task);
        };
        let body = Many {
            task,
            left: series.max_runs.map(std::num::NonZero::get),
            on_panic: series.on_panic,
        };
        self.schedule(First::After(first), plan, body, |body| body.task)
    }

    pub(crate) fn self_paced<F, R>(
        self,
        first: Duration,
        task: F,
    ) -> Result<SeriesHandle<R>, ScheduleError<F>>
    where
        F: FnMut() -> ControlFlow<R, Duration> + Send + 'static,
        R: Send + 'static,
    {
        let body = Paced::new(task);
        self.schedule(
            First::After(first),
            Plan::UNTIL_SAID,
            body,
            Paced::into_task,
        )
    }

    pub(crate) fn retrying<F, T, E>(
        self,
        policy: &Retry,
        task: F,
    ) -> Result<SeriesHandle<Result<T, E>>, ScheduleError<F>>
    where
        F: FnMut() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let body = Retrying::new(task, policy.clone());
        let first = First::After(Duration::ZERO);
        self.schedule(first, Plan::UNTIL_SAID, body, Retrying::into_task)
    }

    fn schedule<B: Body, F>(
        self,
        first: First,
        plan: Plan,
        body: B,
        into_task: impl FnOnce(B) -> F,
    ) -> Result<ScheduledHandle<B::Out>, ScheduleError<F>> {
        if const { is_large::<B>() } {
            self.schedule_body(first, plan, Box::new(body), |body| into_task(*body))
        } else {
            self.schedule_body(first, plan, body, into_task)
        }
    }

    fn schedule_body<B: Body, F>(
        self,
        first: First,
        plan: Plan,
        body: B,
        into_task: impl FnOnce(B) -> F,
    ) -> Result<ScheduledHandle<B::Out>, ScheduleError<F>> {
        let Owner { core, members } = self.owner;
        let pool = members.first();
        if !pool.process().is_current() {
            // A thread that the fork left behind may hold a lock, of the clock too.
            return reject(ScheduleError::Forked, body, into_task);
        }
        let due = match first {
            First::After(delay) => core.after(delay),
            First::At(when) => core.epoch.nanos(when),
        };
        let recorded = Recorded::of_scheduled(self.options, pool.context());
        match core.schedule(due, plan, recorded, body) {
            Ok(schedule) => Ok(ScheduledHandle::new(schedule, pool.clone(), core.epoch)),
            Err((reason, body)) => reject(|task| reason.with(task), body, into_task),
        }
    }
}

// The errors of large tasks: functions of their own, so that the calls that move a task have no second place for it.

#[cold]
fn zero_period<T, F>(task: F) -> Result<T, ScheduleError<F>> {
    Err(ScheduleError::ZeroPeriod(task))
}

#[cold]
fn reject<T, B, F>(
    error: impl FnOnce(F) -> ScheduleError<F>,
    body: B,
    into_task: impl FnOnce(B) -> F,
) -> Result<T, ScheduleError<F>> {
    Err(error(into_task(body)))
}
