//! Running a task, and its outcome.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use sync_shim::Clock;
use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};

use crate::config::default_clock;
use crate::error::{JoinError, Panicked, panic_message};
use crate::foreign::{Payload, discard, guarded};
use crate::sched::load::Outcome;
use crate::task::cell::SpawnCell;
use crate::task::current::StopRequest;
use crate::task::hook::{Label, TaskEnd, TaskHook, TaskOutcome, TaskStart};
use crate::task::options::{TaskOptions, TaskRecord};

impl Outcome {
    /// Whether the end of the task was counted before its worker's section.
    #[inline]
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Withdrawn | Self::Requeued)
    }

    /// Returns the outcome of a task whose record forbids its start.
    pub(crate) fn not_run(why: TaskOutcome) -> Self {
        match why {
            TaskOutcome::Expired => Self::Expired,
            _ => Self::Cancelled,
        }
    }

    /// Returns the outcome of a task without a handle.
    #[inline]
    pub fn of(ran: Result<(), Payload>) -> Self {
        match ran {
            Ok(()) => Self::Completed,
            Err(payload) => {
                // Its drop is user code and may panic in turn, which must not unwind into the worker.
                discard(payload);
                Self::Panicked
            }
        }
    }
}

/// Reason for removing an accepted task before it has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrun {
    /// A `release_now` empties the queue.
    Released,
    /// The pool is full.
    Discarded,
}

/// Result of running a task, or of disposing of one.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct TaskResult {
    /// How it ended.
    pub outcome: Outcome,
    /// The handle to resolve after the end of the task was counted.
    pub(crate) resolve: Option<Resolver>,
    /// Whether resolving it runs user code.
    pub(crate) runs_user_code: bool,
}

impl TaskResult {
    /// Creates a result with a handle. Resolving it counts as user code.
    pub(crate) fn with_resolver(outcome: Outcome, resolve: Option<Resolver>) -> Self {
        let runs_user_code = resolve.is_some();
        Self {
            outcome,
            resolve,
            runs_user_code,
        }
    }

    /// Creates the result of a `ScheduledTask`, whose owner is notified of the end by `resolve`.
    pub fn new(outcome: Outcome, resolve: Option<Arc<dyn Resolve>>) -> Self {
        Self::with_resolver(outcome, resolve.map(Resolver::Scheduled))
    }

    /// Creates a result without a handle.
    pub fn without_handle(outcome: Outcome) -> Self {
        Self {
            outcome,
            resolve: None,
            runs_user_code: false,
        }
    }

    /// Resolves the handle, if there is one, after the end was counted. The caller must call the returned waker.
    #[inline]
    pub fn resolve_and_take_waker(self) -> Option<Waker> {
        self.resolve?.resolve_and_take_waker()
    }

    /// Resolves the handle as a worker does. For models.
    pub fn resolve(self) -> Outcome {
        if let Some(handle) = self.resolve {
            handle.resolve();
        }
        self.outcome
    }
}

/// A party that waits for the end of a task.
pub trait Resolve: Send + Sync {
    /// Makes the outcome visible and wakes the waiter. Does not unwind.
    fn resolve(&self);
}

/// The party to which the end of a task is shown, after it was counted.
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

    /// Like [`resolve`](Self::resolve), but leaves the waker to the caller, which may have other work to do first.
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

/// A panic of a task, as seen by the panic hook.
pub struct TaskPanic<'a> {
    payload: &'a (dyn Any + Send),
    pool: &'a str,
    label: Label<'a>,
}

impl TaskPanic<'_> {
    /// Returns the payload of the panic.
    pub fn payload(&self) -> &(dyn Any + Send) {
        self.payload
    }

    /// Returns the message of the panic, if it has one.
    pub fn message(&self) -> Option<&str> {
        panic_message(self.payload)
    }

    /// Returns the pool's name.
    pub fn pool(&self) -> &str {
        self.pool
    }

    /// Returns the type name of the task's closure, or of a typed pool's argument.
    pub fn task(&self) -> &'static str {
        self.label.type_name
    }

    /// Returns the task's [name](crate::TaskBuilder::name), if it has one.
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

/// Called with each panic of a task.
pub type PanicHook = dyn Fn(&TaskPanic<'_>) + Send + Sync;

/// The function of a typed pool.
///
/// # Invariant
/// `id` is the type of the value behind `function`.
// Not `downcast_ref`: the type that a table returns is stored in halves and loaded whole, which stalls the processor.
#[derive(Clone)]
pub(crate) struct ErasedFunction {
    id: TypeId,
    function: Arc<dyn Any + Send + Sync>,
}

impl ErasedFunction {
    pub(crate) fn new<F: Send + Sync + 'static>(function: F) -> Self {
        Self {
            id: TypeId::of::<F>(),
            function: Arc::new(function),
        }
    }

    #[inline]
    fn get<F: 'static>(&self) -> Option<&F> {
        let function = Arc::as_ptr(&self.function).cast::<F>();
        // SAFETY: the types are equal, so by the invariant the value is an `F`.
        (self.id == TypeId::of::<F>()).then(|| unsafe { &*function })
    }
}

/// The part of a pool that is needed to run a task.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct TaskContext {
    /// The function of a typed pool.
    pub(crate) function: Option<ErasedFunction>,
    // Shared, because the error of a panicked task may outlive the pool.
    pub(crate) name: Arc<str>,
    pub(crate) panic_hook: Option<Arc<PanicHook>>,
    /// Number of panics of hooks. Relaxed, because no other memory is read because of it.
    pub(crate) hook_panics: AtomicU64,
    /// Number of panics of pieces of a task: items of mappings, and tasks of scopes. Relaxed, as above.
    pub(crate) piece_panics: AtomicU64,
    pub(crate) task_hook: Option<Arc<dyn Around>>,
    /// Set if each task has a record.
    pub(crate) recorder: Option<Recorder>,
    /// Whether the submitter's span is entered around its task.
    #[cfg(feature = "tracing")]
    pub(crate) carries_span: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stop: Arc<StopRequest>,
}

impl TaskContext {
    /// Creates the context of another kind of pool.
    pub fn of_pool(
        name: Arc<str>,
        clock: Arc<dyn Clock>,
        panic_hook: Option<Arc<PanicHook>>,
    ) -> Self {
        Self {
            name,
            panic_hook,
            clock,
            ..Self::bare()
        }
    }

    /// Creates a context without a pool, for models.
    pub fn bare() -> Self {
        Self {
            function: None,
            name: Arc::from("bare"),
            panic_hook: None,
            hook_panics: AtomicU64::new(0),
            piece_panics: AtomicU64::new(0),
            task_hook: None,
            recorder: None,
            #[cfg(feature = "tracing")]
            carries_span: false,
            clock: default_clock(),
            stop: Arc::new(StopRequest::new()),
        }
    }

    /// Returns the function of a typed pool, if it is an `F`.
    #[inline]
    pub(crate) fn function<F: 'static>(&self) -> Option<&F> {
        self.function.as_ref()?.get()
    }

    /// Whether each submitted task needs a record, with or without options.
    pub(crate) fn records_all(&self) -> bool {
        self.recorder.is_some()
    }

    /// Converts the panic of a task into the error that its handle returns.
    pub fn panicked(&self, payload: Payload) -> JoinError {
        JoinError::Panicked(self.caught(payload))
    }

    /// Converts the panic of a task.
    pub fn caught(&self, payload: Payload) -> Panicked {
        Panicked::new(payload, Arc::clone(&self.name))
    }

    /// Counts the panic of a piece of a task.
    pub fn count_panicked_piece(&self) {
        self.piece_panics.fetch_add(1, Relaxed);
    }

    /// Runs a task and catches its panic. All tasks are run by this function. When it returns the panic hook has seen the
    /// payload.
    ///
    /// # Errors
    /// The payload, if the task panicked.
    #[inline]
    pub fn execute<R>(&self, name: &'static str, task: impl FnOnce() -> R) -> Result<R, Payload> {
        self.execute_by(|| name, task)
    }

    /// Like [`execute`](Self::execute). The name is computed only for a hook.
    #[inline]
    pub(crate) fn execute_by<R>(
        &self,
        name: impl Fn() -> &'static str,
        task: impl FnOnce() -> R,
    ) -> Result<R, Payload> {
        if self.task_hook.is_some() {
            return self.execute_for_hook(name(), &mut Some(task));
        }
        // USER CODE: a task and the drop of its captures. It occupies its worker. A panic is caught and counted.
        guarded(task).inspect_err(|payload| self.report_unnamed(name(), &**payload))
    }

    /// Like [`execute_by`](Self::execute_by), for a pool with a task hook.
    // A function of its own, so that tasks of other pools do not run below its larger frame.
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

    /// Like [`execute`](Self::execute), for a task that may have a name.
    #[inline(never)]
    pub(crate) fn execute_as(
        &self,
        label: Label<'_>,
        task: &mut dyn FnMut(),
    ) -> Result<(), Payload> {
        // USER CODE: a task and the drop of its captures. It occupies its worker. A panic is caught and counted.
        let mut run = || guarded(&mut *task).inspect_err(|payload| self.report(label, &**payload));
        match &self.task_hook {
            None => run(),
            Some(hook) => hook.execute(self, label, &mut run),
        }
    }

    /// Runs a task without a handle and drops its value. A panic of that drop counts as the task's.
    #[inline]
    pub(crate) fn execute_detached(
        &self,
        name: impl Fn() -> &'static str,
        task: impl FnOnce(),
    ) -> TaskResult {
        TaskResult::without_handle(Outcome::of(self.execute_by(name, task)))
    }

    /// Returns the time by the pool's clock, or `None` if the clock panics, which is counted as a hook's panic.
    pub fn now(&self) -> Option<Instant> {
        let mut now = None;
        // USER CODE: `Clock::now`, which must not block.
        self.call_hook(|| now = Some(self.clock.now()));
        now
    }

    /// Reports the panic of a task without a name to the log and the panic hook.
    // A function of its own for the same reason as `execute_for_hook`.
    #[cold]
    #[inline(never)]
    pub fn report_unnamed(&self, type_name: &'static str, payload: &(dyn Any + Send)) {
        self.report(Label::of_type(type_name), payload);
    }

    #[cold]
    fn report(&self, label: Label<'_>, payload: &(dyn Any + Send)) {
        let panic = TaskPanic {
            payload,
            pool: &self.name,
            label,
        };
        // Logged before the hook is called: a hook that blocks must not hold the message back.
        log_panic(&panic);
        if let Some(hook) = &self.panic_hook {
            // USER CODE: the panic hook, before the end of the task is counted. Part of the task; its own panic is counted.
            self.call_hook(|| hook(&panic));
        }
    }

    /// Calls a hook of the user. A panic is caught and counted.
    pub(crate) fn call_hook(&self, hook: impl FnOnce()) {
        if let Err(payload) = guarded(hook) {
            self.hook_panics.fetch_add(1, Relaxed);
            discard(payload);
        }
    }
}

/// Runs internal work that carries users' tasks. No hook sees it, and it catches the panics of the tasks itself.
pub fn execute_unseen(carrier: impl FnOnce()) -> TaskResult {
    // USER CODE: internal work with a task, and the drop of the task's value.
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
        // USER CODE: the logger. Part of the task; its panic is caught.
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

/// The calls of an installed task hook. An object, so that programs without a task hook do not contain them.
pub(crate) trait Around: Send + Sync {
    /// Runs a task between the two calls of the hook.
    fn execute(
        &self,
        context: &TaskContext,
        label: Label<'_>,
        task: &mut dyn FnMut() -> Result<(), Payload>,
    ) -> Result<(), Payload>;
    /// Calls the hook for a task that was not run.
    fn not_run(&self, context: &TaskContext, label: Label<'_>, outcome: TaskOutcome);
}

pub(crate) struct Hooked(pub(crate) Box<dyn TaskHook>);

impl Around for Hooked {
    fn execute(
        &self,
        context: &TaskContext,
        label: Label<'_>,
        task: &mut dyn FnMut() -> Result<(), Payload>,
    ) -> Result<(), Payload> {
        let began = context.now();
        let start = context.start_of(label, began);
        // USER CODE: a task hook. Part of the task.
        context.call_hook(|| self.0.before(&start));
        let ran = task();
        let outcome = if ran.is_ok() {
            TaskOutcome::Returned
        } else {
            TaskOutcome::Panicked
        };
        let end = TaskEnd {
            start,
            // Zero if the clock panicked, because the hook must see the end of each task all the same.
            ran: since(began, context.now()).unwrap_or_default(),
            outcome,
        };
        // USER CODE: a task hook, as part of the task.
        context.call_hook(|| self.0.after(&end));
        ran
    }

    fn not_run(&self, context: &TaskContext, label: Label<'_>, outcome: TaskOutcome) {
        let end = TaskEnd {
            start: context.start_of(label, context.now()),
            ran: Duration::ZERO,
            outcome,
        };
        // USER CODE: a task hook, as part of the task.
        context.call_hook(|| self.0.after(&end));
    }
}

/// Creates the record of a task without options. Installed, so that programs whose tasks have none do not contain it.
pub(crate) type Recorder = fn(&TaskContext) -> TaskRecord;

impl TaskContext {
    /// Creates the record of a task, if it needs one.
    pub(crate) fn record_of(&self, options: Option<TaskOptions>) -> Option<TaskRecord> {
        match options {
            Some(options) => Some(TaskRecord::new(options, self)),
            None => self.recorder.map(|record| record(self)),
        }
    }

    /// Calls the hook for a task that was not run.
    pub(crate) fn not_run(&self, label: Label<'_>, outcome: TaskOutcome) {
        if let Some(hook) = &self.task_hook {
            hook.not_run(self, label, outcome);
        }
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
