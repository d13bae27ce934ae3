//! The record of a task: the options that it carries in addition to its closure. A task without options has none.

use std::borrow::Cow;
use std::time::Instant;

use crate::foreign::{Payload, drop_quietly};
use crate::sched::ready::Priority;
use crate::task::cancel::CancelToken;
use crate::task::current::Running;
use crate::task::hook::TaskOutcome;
use crate::task::label::Label;
use crate::task::options::{TaskOptions, WaitLimits};
use crate::task::run::TaskContext;
use crate::task::span::CarriedSpan;

/// The options of an accepted task.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct TaskRecord {
    pub(crate) name: Option<Cow<'static, str>>,
    pub(crate) priority: Priority,
    /// A token that is cancelled with each of the task's tokens.
    pub(crate) token: Option<CancelToken>,
    start_before: Option<Instant>,
    handed_over: Option<Instant>,
    span: CarriedSpan,
}

impl TaskRecord {
    pub(crate) fn new(options: TaskOptions, context: &TaskContext) -> Self {
        let mut tokens = options.tokens.into_iter();
        let token = tokens.next().map(|first| {
            let token = first.child();
            tokens.for_each(|other| token.cancel_with(&other));
            token
        });
        Self {
            name: options.name,
            priority: options.priority,
            token,
            start_before: options.start_before,
            handed_over: context.task_hook.as_ref().and_then(|_| context.now()),
            span: CarriedSpan::current(context),
        }
    }

    /// Removes the time of submission, for a task that runs at a later time of its own and has not waited since.
    pub(crate) fn without_time(self) -> Self {
        Self {
            handed_over: None,
            ..self
        }
    }

    /// Returns the label of the task, whose type is given.
    pub(crate) fn label(&self, type_name: &'static str) -> Label<'_> {
        Label {
            type_name,
            name: self.name.as_deref(),
            handed_over: self.handed_over,
        }
    }

    /// Runs the task, in its submitter's span if the pool carries that. Does not unwind.
    ///
    /// # Errors
    /// Returns the payload of a panic.
    pub(crate) fn execute<T>(
        &self,
        type_name: &'static str,
        context: &TaskContext,
        task: impl FnOnce() -> T,
    ) -> Result<T, Payload> {
        let (mut task, mut value) = (Some(task), None);
        let ran = self.execute_dyn(type_name, context, &mut || {
            value = task.take().map(|task| task());
        });
        match ran {
            Ok(()) => Ok(value.expect("the task has returned")),
            Err(payload) => {
                // The subscriber may have panicked before the task, which is left then, or after it, which leaves the value.
                drop_quietly((task, value));
                Err(payload)
            }
        }
    }

    fn execute_dyn(
        &self,
        type_name: &'static str,
        context: &TaskContext,
        task: &mut dyn FnMut(),
    ) -> Result<(), Payload> {
        self.span
            .execute(|| context.execute_as(self.label(type_name), task))
    }

    /// Returns the limits of the task's wait for room, in addition to the call's.
    pub(crate) fn limits(&self) -> WaitLimits {
        WaitLimits::new(self.token.clone(), self.start_before)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.token.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// Returns why the task must not be started any more.
    pub(crate) fn forbids_start(&self, context: &TaskContext) -> Option<TaskOutcome> {
        if self.is_cancelled() {
            return Some(TaskOutcome::Cancelled);
        }
        let last = self.start_before?;
        // USER CODE: `Clock::now`. If it panics there is no time to compare, so the task runs.
        (context.now()? >= last).then_some(TaskOutcome::Expired)
    }

    /// Links `token` to each of the task's tokens.
    pub(crate) fn cancel_with_task(&self, token: &CancelToken) {
        if let Some(given) = &self.token {
            token.cancel_with(given);
        }
    }
}

/// A task that is represented by its record.
pub(crate) trait HasRecord: Send + Sync + 'static {
    fn record(&self) -> &TaskRecord;
}

impl<T: HasRecord> Running for T {
    fn name(&self) -> Option<&str> {
        self.record().name.as_deref()
    }

    fn is_cancelled(&self) -> bool {
        self.record().is_cancelled()
    }

    fn cancel_with_task(&self, token: &CancelToken) {
        self.record().cancel_with_task(token);
    }
}
