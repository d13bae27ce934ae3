//! Options of a task, and their effect on its wait for room. Their effect on the accepted task is that of its
//! [record](crate::task::hook).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

#[cfg(feature = "tracing")]
use tracing::dispatcher::Dispatch;
#[cfg(feature = "tracing")]
use tracing::{Span, dispatcher};

use crate::cancel::{CancelToken, Cancelled};
use crate::config::OnFull;
#[cfg(feature = "tracing")]
use crate::foreign::guarded;
use crate::foreign::{Payload, drop_quietly};
use crate::sched::ready::Priority;
use crate::task::current::{Frame, Running};
use crate::task::hook::{Label, TaskOutcome};
use crate::task::run::TaskContext;

/// The options of a task.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TaskOptions {
    /// Name of the task in reports.
    pub name: Option<Cow<'static, str>>,
    /// A token that cancels the task. Only its owners cancel it, so tasks share it.
    pub token: Option<CancelToken>,
    /// A task that has not been started by then is not run.
    pub start_before: Option<Instant>,
    /// Priority among the queued tasks.
    pub priority: Priority,
}

impl TaskOptions {
    /// Whether the task needs a pool with priorities.
    pub(crate) fn has_priority(&self) -> bool {
        self.priority != Priority::default()
    }

    /// Adds a token that cancels the task.
    pub fn cancelled_by(&mut self, token: &CancelToken) {
        self.token = Some(match self.token.take() {
            None => token.clone(),
            // One child of all, so that each later check reads one flag.
            Some(others) => {
                let any = others.child();
                any.cancel_with(token);
                any
            }
        });
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.token.as_ref().is_some_and(CancelToken::is_cancelled)
    }
}

/// Limits of a task's wait for room in addition to the call's.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct WaitLimits<'a> {
    token: Option<CancelToken>,
    /// The time by which the task must be started.
    start_before: Option<Instant>,
    /// Called before the task runs on the submitting thread.
    before_in_place: Option<&'a dyn Fn()>,
}

impl<'a> WaitLimits<'a> {
    /// Adds those of a group: its token ends the wait, unless the task has tokens, and `before_in_place` is called, with
    /// no lock held, before the task runs on the submitting thread.
    #[must_use]
    pub fn in_group(self, token: &CancelToken, before_in_place: &'a dyn Fn()) -> Self {
        Self {
            token: self.token.or_else(|| Some(token.clone())),
            before_in_place: Some(before_in_place),
            ..self
        }
    }

    /// Must be called before the task runs on the submitting thread.
    pub fn begin_in_place(limits: Option<&Self>) {
        if let Some(begin) = limits.and_then(|limits| limits.before_in_place) {
            begin();
        }
    }

    /// Returns the deadline of a wait for room, for a call with the policy `on_full`.
    pub fn deadline(limits: Option<&Self>, on_full: OnFull) -> Option<Instant> {
        let of_task = limits.and_then(|limits| limits.start_before);
        // The earlier one: a task that must not start later need not wait for room until then.
        on_full.deadline().into_iter().chain(of_task).min()
    }

    /// Returns the token that ends the wait.
    pub fn token(limits: Option<&Self>) -> Option<&CancelToken> {
        limits.and_then(|limits| limits.token.as_ref())
    }

    /// Returns the token's future, for an asynchronous wait.
    pub fn cancelled(self) -> Option<Cancelled> {
        self.token.map(|token| token.cancelled())
    }
}

// The submitter's span and subscriber, entered around its task. Without the feature `tracing` everything here is empty.

/// The span and subscriber that were current when a task was submitted, if its pool
/// carries them (`Builder::carry_span`).
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct CarriedSpan {
    #[cfg(feature = "tracing")]
    from: Option<(Dispatch, Span)>,
}

impl CarriedSpan {
    /// Captures those of the calling thread. Calls the subscriber.
    #[cfg_attr(
        not(feature = "tracing"),
        expect(unused_variables, reason = "nothing is carried")
    )]
    pub fn current(context: &TaskContext) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            from: context
                .carries_span
                .then(|| (dispatcher::get_default(Dispatch::clone), Span::current())),
        }
    }

    /// Runs a task in the span. A panic of the subscriber counts as the task's.
    ///
    /// # Errors
    /// The payload of a panic.
    #[inline]
    pub fn execute<T>(&self, run: impl FnOnce() -> Result<T, Payload>) -> Result<T, Payload> {
        #[cfg(feature = "tracing")]
        if let Some((dispatch, span)) = &self.from {
            let entered = || dispatcher::with_default(dispatch, || span.in_scope(run));
            // USER CODE: the subscriber of `tracing`, around the task.
            return guarded(entered).and_then(|ran| ran);
        }
        run()
    }
}

/// Closes the span, which calls the subscriber.
#[cfg(feature = "tracing")]
impl Drop for CarriedSpan {
    fn drop(&mut self) {
        drop_quietly(self.from.take());
    }
}

/// The options of an accepted task. A task without options has no record.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct TaskRecord {
    pub(crate) name: Option<Cow<'static, str>>,
    pub(crate) priority: Priority,
    token: Option<CancelToken>,
    start_before: Option<Instant>,
    handed_over: Option<Instant>,
    span: CarriedSpan,
}

impl TaskRecord {
    pub(crate) fn new(options: TaskOptions, context: &TaskContext) -> Self {
        Self {
            name: options.name,
            priority: options.priority,
            token: options.token,
            start_before: options.start_before,
            // Only for a hook, because the clock is user code whose call would make each submit dearer.
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
        // Behind a `dyn` call, so that the code around the task is compiled once and not for each closure.
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
    pub fn limits(&self) -> WaitLimits<'static> {
        WaitLimits {
            token: self.token.clone(),
            start_before: self.start_before,
            before_in_place: None,
        }
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

    /// Links `token` to the task's.
    pub(crate) fn cancel_with_task(&self, token: &CancelToken) {
        if let Some(given) = &self.token {
            token.cancel_with(given);
        }
    }
}

impl Running for Recorded {
    fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn cancel_with_task(&self, token: &CancelToken) {
        self.0.cancel_with_task(token);
    }
}

/// The record of a task without a cell (a submitted one, or one of a scope or a scheduler, which store the closure and the
/// value themselves), and its view by the code that runs in it.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct Recorded(TaskRecord);

impl Recorded {
    /// Creates the record of a task that may run at once.
    pub fn new(options: TaskOptions, context: &TaskContext) -> Arc<Self> {
        Self::of(TaskRecord::new(options, context))
    }

    pub(crate) fn of(record: TaskRecord) -> Arc<Self> {
        Arc::new(Self(record))
    }

    /// Creates the record of a task that runs later, whose waiting time hooks do not see. Returns `None` if it has no options
    /// and the pool needs no record.
    pub fn of_scheduled(options: Option<TaskOptions>, context: &TaskContext) -> Option<Arc<Self>> {
        let options = options.or_else(|| context.records_all().then(TaskOptions::default))?;
        let record = TaskRecord::new(options, context);
        Some(Self::of(record.without_time()))
    }

    pub(crate) fn priority(&self) -> Priority {
        self.0.priority
    }

    pub(crate) fn limits(&self) -> WaitLimits<'static> {
        self.0.limits()
    }

    /// Returns the name that the task was given.
    pub fn given_name(&self) -> Option<Cow<'static, str>> {
        self.0.name.clone()
    }

    /// Returns whether one of its tokens is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Drops `body` if the task must not be started any more, calls the hooks, and returns the reason.
    ///
    /// # Errors
    /// Returns the body if it may start.
    pub fn drop_unrun<B>(
        &self,
        type_name: &'static str,
        context: &TaskContext,
        body: B,
    ) -> Result<TaskOutcome, B> {
        let Some(why) = self.0.forbids_start(context) else {
            return Err(body);
        };
        // Dropped before the hook is called, which reports the end of the task.
        // USER CODE: the drop of the captures of a task that does not run.
        drop_quietly(body);
        context.not_run(self.0.label(type_name), why);
        Ok(why)
    }

    /// Runs the task.
    ///
    /// # Errors
    /// Returns the payload of a panic.
    pub fn execute<T>(
        self: &Arc<Self>,
        type_name: &'static str,
        context: &TaskContext,
        task: impl FnOnce() -> T,
    ) -> Result<T, Payload> {
        let frame = Frame::of(self);
        let ran = self.0.execute(type_name, context, task);
        drop(frame);
        ran
    }
}
