//! The bodies of schedules: closures that run once or repeatedly.

use std::any::type_name;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::plan::{Plan, nanos};
use crate::series::{OnPanic, Series};
use crate::unstarted::UnstartedTask;

/// The task of a schedule.
pub trait Body: Send + 'static {
    /// The value of its handle.
    type Out: Send + 'static;
    /// Runs the task once. `Some` ends the schedule.
    fn call(&mut self) -> Option<Self::Out>;
    /// The plan for the next run. Bodies that pace themselves override it.
    fn plan(&self, plan: Plan) -> Plan {
        plan
    }
    /// Decides how the schedule goes on after a panic in `call`.
    fn after_panic(&self) -> AfterPanic<Self::Out>;
    /// The closure's type name, for the panic hook.
    fn name() -> &'static str;
    /// Converts a body that a release removed, for the caller of `release_now`.
    fn into_unstarted(self, plan: Plan) -> UnstartedTask;
}

/// The body of a schedule with large captures.
impl<B: Body> Body for Box<B> {
    type Out = B::Out;

    fn call(&mut self) -> Option<B::Out> {
        (**self).call()
    }

    fn plan(&self, plan: Plan) -> Plan {
        (**self).plan(plan)
    }

    fn after_panic(&self) -> AfterPanic<B::Out> {
        (**self).after_panic()
    }

    fn name() -> &'static str {
        B::name()
    }

    fn into_unstarted(self, plan: Plan) -> UnstartedTask {
        (*self).into_unstarted(plan)
    }
}

/// How a schedule goes on after a panic.
#[derive(Debug)]
pub enum AfterPanic<T> {
    /// The schedule ends, and its handle returns the panic.
    Fail,
    /// The schedule continues.
    GoOn,
    /// The schedule ends with this value: the run was the last one.
    End(T),
}

/// A closure with one run.
pub(crate) struct Once<F>(pub(crate) Option<F>);

impl<F> Once<F> {
    /// Returns the closure of a task that has not run.
    pub(crate) fn into_task(self) -> F {
        self.0
            .unwrap_or_else(|| unreachable!("a rejected task has not run"))
    }
}

impl<F, R> Body for Once<F>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    type Out = R;

    fn call(&mut self) -> Option<R> {
        self.0.take().map(|task| task())
    }

    fn after_panic(&self) -> AfterPanic<R> {
        AfterPanic::Fail
    }

    fn name() -> &'static str {
        type_name::<F>()
    }

    fn into_unstarted(self, _plan: Plan) -> UnstartedTask {
        UnstartedTask::Once(Box::new(move || _ = self.0.map(|task| task())))
    }
}

/// A closure with many runs.
#[expect(missing_debug_implementations, reason = "a closure has none")]
pub struct Many<F> {
    /// The closure.
    pub task: F,
    /// Number of runs left, if limited.
    pub left: Option<u64>,
    /// Policy for a panic in a run.
    pub on_panic: OnPanic,
}

/// The return value of a run of a series.
pub trait Step {
    /// Returns whether the series ends with this run.
    fn ends(self) -> bool;
}

impl Step for () {
    fn ends(self) -> bool {
        false
    }
}

impl Step for ControlFlow<()> {
    fn ends(self) -> bool {
        self.is_break()
    }
}

impl<F, O> Body for Many<F>
where
    F: FnMut() -> O + Send + 'static,
    O: Step,
{
    type Out = ();

    fn call(&mut self) -> Option<()> {
        self.left = self.left.map(|left| left.saturating_sub(1)); // Also if it panics.
        let is_last = (self.task)().ends();
        (is_last || self.left == Some(0)).then_some(())
    }

    fn after_panic(&self) -> AfterPanic<()> {
        match self.on_panic {
            OnPanic::Stop => AfterPanic::Fail,
            OnPanic::Continue if self.left == Some(0) => AfterPanic::End(()),
            OnPanic::Continue => AfterPanic::GoOn,
        }
    }

    fn name() -> &'static str {
        type_name::<F>()
    }

    fn into_unstarted(self, plan: Plan) -> UnstartedTask {
        let series = Series::of(plan, self.on_panic, self.left);
        let mut task = self.task;
        let run = move || {
            if task().ends() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        UnstartedTask::Series(Box::new(run), series)
    }
}

/// A closure that returns the delay to its next run, or the value that ends the series.
#[expect(missing_debug_implementations, reason = "a closure has none")]
pub struct Paced<F> {
    task: F,
    /// Returned by the last run.
    delay: u64,
}

impl<F> Paced<F> {
    /// Wraps a closure that has not run.
    pub fn new(task: F) -> Self {
        Self { task, delay: 0 }
    }

    pub(crate) fn into_task(self) -> F {
        self.task
    }
}

impl<F, R> Body for Paced<F>
where
    F: FnMut() -> ControlFlow<R, Duration> + Send + 'static,
    R: Send + 'static,
{
    type Out = R;

    fn call(&mut self) -> Option<R> {
        match (self.task)() {
            ControlFlow::Break(value) => Some(value),
            ControlFlow::Continue(delay) => {
                self.delay = nanos(delay);
                None
            }
        }
    }

    fn plan(&self, _plan: Plan) -> Plan {
        Plan::FixedDelay { delay: self.delay }
    }

    /// A run that panicked has not named a delay.
    fn after_panic(&self) -> AfterPanic<R> {
        AfterPanic::Fail
    }

    fn name() -> &'static str {
        type_name::<F>()
    }

    fn into_unstarted(self, _plan: Plan) -> UnstartedTask {
        let mut task = self.task;
        UnstartedTask::SelfPaced(Box::new(move || task().map_break(drop)))
    }
}
