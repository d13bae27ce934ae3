//! What a schedule runs: a closure once, or the same one repeatedly.

use std::any::type_name;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::plan::{Plan, nanos};
use crate::series::{OnPanic, Series};
use crate::unstarted::UnstartedTask;

/// What a schedule runs.
pub trait Body: Send + 'static {
    /// What its handle joins with.
    type Out: Send + 'static;
    /// One run. `Some` ends the schedule.
    fn call(&mut self) -> Option<Self::Out>;
    /// When the next run is due, if the runs so far have a say in it.
    fn plan(&self, plan: Plan) -> Plan {
        plan
    }
    /// What a panic in `call` does.
    fn after_panic(&self) -> AfterPanic<Self::Out>;
    /// The name that the panic hook is called with.
    fn name() -> &'static str;
    /// What it would have run, by that plan, for one that a release gives it back to.
    fn into_unstarted(self, plan: Plan) -> UnstartedTask;
}

/// What a panic does to a schedule.
#[derive(Debug)]
pub enum AfterPanic<T> {
    /// The schedule ends, and its handle has the panic.
    Fail,
    /// The schedule goes on.
    GoOn,
    /// The schedule ends as if there had been no panic: it was the last run.
    End(T),
}

/// A closure with one run.
pub(crate) struct Once<F>(pub(crate) Option<F>);

impl<F> Once<F> {
    /// The closure, which has not run.
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
    /// Runs that are left, if they are limited.
    pub left: Option<u64>,
    /// What a panic in a run does.
    pub on_panic: OnPanic,
}

/// What a run of a series says: whether it was the last.
pub trait Step {
    /// Whether the series ends with this run.
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

/// A closure that says after each run when the next one is, or with what the series ends.
#[expect(missing_debug_implementations, reason = "a closure has none")]
pub struct Paced<F> {
    task: F,
    /// As the last run has said.
    delay: u64,
}

impl<F> Paced<F> {
    /// One that has not run yet.
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

    /// It has not said when to go on.
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
