//! The task hook, which is called before and after each task. Starts and ends of workers, and panics alone, have hooks of
//! their own.

use std::fmt;
use std::time::{Duration, Instant};

/// A hook around each task of a pool, called on the thread that runs the task. For metrics, and for preparing the
/// environment of tasks. Set with [`Builder::task_hook`](crate::Builder::task_hook).
///
/// The hook is called for the tasks of all calls, including items of mappings and tasks of scopes, and not for internal
/// work that the pool runs to reach these. A panic of the hook is counted
/// ([`Stats::hook_panics`](crate::Stats::hook_panics)) and has no other effect.
///
/// ```
/// use pool_core::{Pool, TaskEnd, TaskHook, TaskOutcome};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// struct Slow(Arc<AtomicU64>);
///
/// impl TaskHook for Slow {
///     fn after(&self, task: &TaskEnd<'_>) {
///         if task.ran().as_secs() > 5 || task.outcome() == TaskOutcome::Panicked {
///             self.0.fetch_add(1, Relaxed);
///         }
///     }
/// }
///
/// let count = Arc::new(AtomicU64::new(0));
/// let pool = Pool::builder().capacity(1).task_hook(Slow(Arc::clone(&count))).build()?;
/// assert!(pool.task().name("import").spawn(|| panic!("no such file"))?.join().is_err());
/// assert_eq!(count.load(Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// Modelled on Java's `ThreadPoolExecutor::beforeExecute` and `afterExecute`.
#[doc(alias = "beforeExecute")]
#[doc(alias = "afterExecute")]
pub trait TaskHook: Send + Sync + 'static {
    /// Called before a task runs. Not called for a task that is then not run.
    fn before(&self, task: &TaskStart<'_>) {
        let _ = task;
    }

    /// Called after a task has ended, before its handle shows the end. Also called for a task that a worker did not run,
    /// because a token had cancelled it or its time was up. Not called for a task that its handle or a `release_now` removed
    /// from the queue.
    fn after(&self, task: &TaskEnd<'_>) {
        let _ = task;
    }
}

/// A task that is about to run, as a [`TaskHook`] sees it.
pub struct TaskStart<'a> {
    pub(crate) pool: &'a str,
    pub(crate) label: Label<'a>,
    pub(crate) queued: Option<Duration>,
}

/// A task that has ended, as a [`TaskHook`] sees it.
pub struct TaskEnd<'a> {
    pub(crate) start: TaskStart<'a>,
    pub(crate) ran: Duration,
    pub(crate) outcome: TaskOutcome,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskOutcome {
    /// It returned.
    Returned,
    /// It panicked.
    Panicked,
    /// A token cancelled it before it started. It was not run.
    Cancelled,
    /// It was not started [in time](crate::TaskBuilder::start_before). It was not run.
    Expired,
}

impl TaskStart<'_> {
    /// Returns the pool's name.
    pub fn pool(&self) -> &str {
        self.pool
    }

    /// Returns the task's [name](crate::TaskBuilder::name), if it has one.
    pub fn name(&self) -> Option<&str> {
        self.label.name
    }

    /// Returns the type name of the task's closure, or of a typed pool's argument.
    pub fn task(&self) -> &'static str {
        self.label.type_name
    }

    /// Returns the time since the task was submitted, by the pool's clock: in the queue and, at a full pool, before it.
    /// Unknown for items of a mapping and for scheduled tasks.
    pub fn queued(&self) -> Option<Duration> {
        self.queued
    }
}

impl TaskEnd<'_> {
    /// Returns the pool's name.
    pub fn pool(&self) -> &str {
        self.start.pool()
    }

    /// Returns the task's [name](crate::TaskBuilder::name), if it has one.
    pub fn name(&self) -> Option<&str> {
        self.start.name()
    }

    /// Returns the type name of the task's closure, or of a typed pool's argument.
    pub fn task(&self) -> &'static str {
        self.start.task()
    }

    /// See [`TaskStart::queued`].
    pub fn queued(&self) -> Option<Duration> {
        self.start.queued()
    }

    /// Returns the running time by the pool's clock; zero if the task was not run.
    pub fn ran(&self) -> Duration {
        self.ran
    }

    /// Returns the outcome of the task.
    pub fn outcome(&self) -> TaskOutcome {
        self.outcome
    }
}

impl fmt::Debug for TaskStart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskStart")
            .field("pool", &self.pool)
            .field("name", &self.name())
            .field("task", &self.task())
            .field("queued", &self.queued)
            .finish()
    }
}

impl fmt::Debug for TaskEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskEnd")
            .field("pool", &self.pool())
            .field("name", &self.name())
            .field("task", &self.task())
            .field("queued", &self.queued())
            .field("ran", &self.ran)
            .field("outcome", &self.outcome)
            .finish()
    }
}

/// The names and the time of submission of a task.
#[derive(Clone, Copy)]
pub(crate) struct Label<'a> {
    /// The type name of the closure, or of a typed pool's argument.
    pub(crate) type_name: &'static str,
    pub(crate) name: Option<&'a str>,
    /// When the task was submitted or spawned, if a hook needs it.
    pub(crate) handed_over: Option<Instant>,
}

impl Label<'static> {
    /// Creates the label of a task without a name of its own.
    pub(crate) fn of_type(type_name: &'static str) -> Self {
        Self {
            type_name,
            name: None,
            handed_over: None,
        }
    }
}
