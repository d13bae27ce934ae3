//! Running one task, and what came of it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use sync_shim::Clock;
use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::default_clock;
use crate::error::{JoinError, Panicked, panic_message};
use crate::foreign::{Payload, discard, guarded};
use crate::task::cell::SpawnCell;
use crate::task::current::StopRequest;
use crate::task::hook::{TaskEnd, TaskHook, TaskOutcome, TaskStart};
use crate::task::label::Label;

/// What becomes of an accepted task, as counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran to its end.
    Completed,
    /// It panicked.
    Panicked,
    /// It was taken back before a worker came to it, or a token cancelled it.
    Cancelled,
    /// No worker came to it in time.
    Expired,
    /// Taken out unstarted by a `release_now`.
    Released,
    /// Taken out unstarted by a full pool, or not let in.
    Discarded,
    /// Its handle took it out of the queue, gave its room back, and has counted it or will.
    Withdrawn,
    /// It was counted, and its room passed on to the next task of its key.
    PassedOn,
}

impl Outcome {
    /// Whether the task's end was counted before its worker's section.
    #[inline]
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Withdrawn | Self::PassedOn)
    }

    /// What became of a task whose record forbids its start.
    pub(crate) fn not_run(why: TaskOutcome) -> Self {
        match why {
            TaskOutcome::Expired => Self::Expired,
            _ => Self::Cancelled,
        }
    }

    /// What became of a task without a handle.
    #[inline]
    pub(crate) fn of(ran: Result<(), Payload>) -> Self {
        match ran {
            Ok(()) => Self::Completed,
            Err(payload) => {
                discard(payload);
                Self::Panicked
            }
        }
    }
}

/// Why an accepted task is taken out before it has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrun {
    /// A `release_now` empties the queue.
    Released,
    /// The pool is full.
    Discarded,
}

/// A task has been run, or disposed of unrun.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct TaskResult {
    pub(crate) outcome: Outcome,
    /// A handle to be resolved after room and figures show the end.
    pub(crate) resolve: Option<Resolver>,
    /// Resolving it runs user code.
    pub(crate) runs_user_code: bool,
}

impl TaskResult {
    /// To resolve it is user code, as far as the pool knows.
    pub(crate) fn with_resolver(outcome: Outcome, resolve: Option<Resolver>) -> Self {
        let runs_user_code = resolve.is_some();
        Self {
            outcome,
            resolve,
            runs_user_code,
        }
    }

    /// For a `ScheduledTask`, whose end is its owner's affair.
    pub fn new(outcome: Outcome, resolve: Option<Arc<dyn Resolve>>) -> Self {
        Self::with_resolver(outcome, resolve.map(Resolver::Scheduled))
    }

    /// There is no handle to be resolved.
    pub fn without_handle(outcome: Outcome) -> Self {
        Self {
            outcome,
            resolve: None,
            runs_user_code: false,
        }
    }

    /// What a worker does with it, for models: resolves the handle.
    pub fn resolve(self) -> Outcome {
        if let Some(handle) = self.resolve {
            handle.resolve();
        }
        self.outcome
    }
}

/// Something that waits for a task's end.
pub trait Resolve: Send + Sync {
    /// Makes the outcome visible and wakes the waiter. Does not unwind.
    fn resolve(&self);
}

/// What a task's end is shown to, once room and figures show it.
pub(crate) enum Resolver {
    Cell(Arc<SpawnCell>),
    Scheduled(Arc<dyn Resolve>),
}

impl Resolver {
    /// Makes the outcome visible and wakes the waiter. Does not unwind.
    pub(crate) fn resolve(&self) {
        match self {
            Self::Cell(cell) => cell.resolve(),
            Self::Scheduled(task) => task.resolve(),
        }
    }

    /// As [`resolve`](Self::resolve), but a waker is left to the caller to be called, who may have
    /// something else to do first.
    pub(crate) fn resolve_and_take_waker(&self) -> Option<Waker> {
        match self {
            Self::Cell(cell) => cell.resolve_and_take_waker(),
            Self::Scheduled(task) => {
                task.resolve();
                None
            }
        }
    }
}

/// A panic in a task, as the panic hook sees it.
pub struct TaskPanic<'a> {
    payload: &'a (dyn Any + Send),
    pool: &'a str,
    label: Label<'a>,
}

impl TaskPanic<'_> {
    /// What the task panicked with.
    pub fn payload(&self) -> &(dyn Any + Send) {
        self.payload
    }

    /// The panic's message, if it has one.
    pub fn message(&self) -> Option<&str> {
        panic_message(self.payload)
    }

    /// The pool's name.
    pub fn pool(&self) -> &str {
        self.pool
    }

    /// The type name of the task's closure, or of a typed pool's argument.
    pub fn task(&self) -> &'static str {
        self.label.type_name
    }

    /// The task's [name](crate::TaskBuilder::name), if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.label.name
    }
}

impl fmt::Debug for TaskPanic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPanic")
            .field("message", &self.message())
            .field("pool", &self.pool)
            .field("task", &self.label.type_name)
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

pub(crate) type PanicHook = dyn Fn(&TaskPanic<'_>) + Send + Sync;

/// What running a task needs to know of its pool.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct TaskContext {
    pub(crate) name: Arc<str>,
    pub(crate) panic_hook: Option<Arc<PanicHook>>,
    /// Panics of hooks. A statistic: no other memory is read because of it.
    pub(crate) hook_panics: AtomicU64,
    pub(crate) task_hook: Option<Arc<dyn TaskHook>>,
    /// The submitter's span is entered around its task.
    #[cfg(feature = "tracing")]
    pub(crate) carries_span: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stop: Arc<StopRequest>,
}

impl TaskContext {
    /// One without a pool, for models.
    pub fn bare() -> Self {
        Self {
            name: Arc::from("bare"),
            panic_hook: None,
            hook_panics: AtomicU64::new(0),
            task_hook: None,
            #[cfg(feature = "tracing")]
            carries_span: false,
            clock: default_clock(),
            stop: Arc::new(StopRequest::new()),
        }
    }

    /// Whether each task that is handed over is to have a record, options or not.
    pub(crate) fn records_all(&self) -> bool {
        #[cfg(feature = "tracing")]
        if self.carries_span {
            return true;
        }
        self.task_hook.is_some()
    }

    /// A panic in one of the pool's tasks, as its handle returns it.
    pub fn panicked(&self, payload: Payload) -> JoinError {
        JoinError::Panicked(self.caught(payload))
    }

    /// A panic in one of the pool's tasks.
    pub fn caught(&self, payload: Payload) -> Panicked {
        Panicked::new(payload, Arc::clone(&self.name))
    }

    /// The one place where tasks are run and their panics caught. The hook has seen the payload
    /// when this returns.
    ///
    /// # Errors
    /// The payload, if the task panicked.
    #[inline]
    pub fn execute<R>(&self, name: &'static str, task: impl FnOnce() -> R) -> Result<R, Payload> {
        self.execute_by(|| name, task)
    }

    /// As [`execute`](Self::execute). The name is asked for only if a hook wants it.
    #[inline]
    pub(crate) fn execute_by<R>(
        &self,
        name: impl Fn() -> &'static str,
        task: impl FnOnce() -> R,
    ) -> Result<R, Payload> {
        if self.task_hook.is_some() {
            return self.execute_for_hook(name(), &mut Some(task));
        }
        // USER CODE: a task and the drop of its captures: its worker is busy with it. A panic ends here and is counted.
        guarded(task).inspect_err(|payload| self.report_unnamed(name(), &**payload))
    }

    /// As [`execute_by`](Self::execute_by), for a pool with a hook. Apart: the tasks of other pools do
    /// not begin below its frame.
    #[cold]
    #[inline(never)]
    fn execute_for_hook<R, F: FnOnce() -> R>(
        &self,
        name: &'static str,
        task: &mut Option<F>,
    ) -> Result<R, Payload> {
        let mut value = None;
        let run = &mut || value = task.take().map(|task| task());
        self.execute_as(Label::of_type(name), run)?;
        Ok(value.expect("the task has returned"))
    }

    /// As [`execute`](Self::execute), for a task that may have a name.
    #[inline(never)]
    pub(crate) fn execute_as(
        &self,
        label: Label<'_>,
        task: &mut dyn FnMut(),
    ) -> Result<(), Payload> {
        // USER CODE: a task and the drop of its captures: its worker is busy with it. A panic ends here and is counted.
        let run = || guarded(task).inspect_err(|payload| self.report(label, &**payload));
        match &self.task_hook {
            None => run(),
            Some(hook) => self.execute_hooked(&**hook, label, run),
        }
    }

    /// Runs a task without a handle, which drops its value; that may panic like the task.
    #[inline]
    pub(crate) fn execute_detached(
        &self,
        name: impl Fn() -> &'static str,
        task: impl FnOnce(),
    ) -> TaskResult {
        TaskResult::without_handle(Outcome::of(self.execute_by(name, task)))
    }

    /// The time by the pool's clock; `None` if that panics, which is counted as a hook's panic.
    pub fn now(&self) -> Option<Instant> {
        let mut now = None;
        // USER CODE: `Clock::now`, which must not block.
        self.call_hook(|| now = Some(self.clock.now()));
        now
    }

    /// As [`report`](Self::report), of a task without a name. Apart, as
    /// [`execute_for_hook`](Self::execute_for_hook).
    #[cold]
    #[inline(never)]
    fn report_unnamed(&self, type_name: &'static str, payload: &(dyn Any + Send)) {
        self.report(Label::of_type(type_name), payload);
    }

    #[cold]
    fn report(&self, label: Label<'_>, payload: &(dyn Any + Send)) {
        let panic = TaskPanic {
            payload,
            pool: &self.name,
            label,
        };
        log_panic(&panic);
        if let Some(hook) = &self.panic_hook {
            // USER CODE: the panic hook, before the task's end is counted. Part of the task; its own panic is counted.
            self.call_hook(|| hook(&panic));
        }
    }

    /// Calls one of the user's hooks; a panic in it is counted and goes no further.
    pub(crate) fn call_hook(&self, hook: impl FnOnce()) {
        if let Err(payload) = guarded(hook) {
            self.hook_panics.fetch_add(1, Relaxed);
            discard(payload);
        }
    }
}

/// Runs what carries users' tasks and is none: no hook sees it. What it runs catches their panics.
pub fn execute_unseen(carrier: impl FnOnce()) -> TaskResult {
    // USER CODE: a task's carrier: the task, and the drop of its value.
    TaskResult::without_handle(Outcome::of(guarded(carrier)))
}

#[cfg_attr(
    not(any(feature = "log", feature = "tracing")),
    expect(unused_variables, reason = "no logger is compiled in")
)]
fn log_panic(panic: &TaskPanic<'_>) {
    #[cfg(any(feature = "log", feature = "tracing"))]
    {
        let message = panic.message().unwrap_or("(no message)");
        let (pool, task) = (panic.pool, panic.name().unwrap_or(panic.task()));
        // A logger is user code like any other.
        // USER CODE: the logger. Part of the task; its panic ends here.
        let logged = guarded(|| {
            #[cfg(feature = "log")]
            log::error!("task `{task}` panicked in pool `{pool}`: {message}");
            #[cfg(feature = "tracing")]
            tracing::error!(pool, task, "task panicked: {message}");
        });
        if let Err(payload) = logged {
            discard(payload);
        }
    }
}

/// Calls of the task hook.
impl TaskContext {
    /// Runs a task between the two calls of the hook.
    #[cold]
    fn execute_hooked(
        &self,
        hook: &dyn TaskHook,
        label: Label<'_>,
        task: impl FnOnce() -> Result<(), Payload>,
    ) -> Result<(), Payload> {
        let began = self.now();
        let start = self.start_of(label, began);
        // USER CODE: a task hook. Part of the task.
        self.call_hook(|| hook.before(&start));
        let ran = task();
        let outcome = if ran.is_ok() {
            TaskOutcome::Returned
        } else {
            TaskOutcome::Panicked
        };
        let end = TaskEnd {
            start,
            ran: since(began, self.now()).unwrap_or_default(),
            outcome,
        };
        // USER CODE: a task hook, with what the task took.
        self.call_hook(|| hook.after(&end));
        ran
    }

    /// A task was not run.
    pub(crate) fn not_run(&self, label: Label<'_>, outcome: TaskOutcome) {
        let Some(hook) = &self.task_hook else {
            return;
        };
        let end = TaskEnd {
            start: self.start_of(label, self.now()),
            ran: Duration::ZERO,
            outcome,
        };
        // USER CODE: a task hook, with what the task took.
        self.call_hook(|| hook.after(&end));
    }

    fn start_of<'a>(&'a self, label: Label<'a>, now: Option<Instant>) -> TaskStart<'a> {
        TaskStart {
            pool: &self.name,
            label,
            queued: since(label.handed_over, now),
        }
    }
}

fn since(then: Option<Instant>, now: Option<Instant>) -> Option<Duration> {
    Some(now?.saturating_duration_since(then?))
}
