//! A hook around each task: what it is told before and after.
//!
//! Not for: the start and the end of workers, nor panics alone. Those have hooks of their own.

use std::fmt;
use std::time::Duration;

use crate::task::label::Label;

/// Sees each task of a pool, on the thread that runs it. For metrics, and for what a task is to find
/// set up. Set by [`Builder::task_hook`](crate::Builder::task_hook).
///
/// It sees the tasks of all calls, the pieces of mappings and the tasks of scopes among them, and nothing
/// that the pool runs on its own account to get at these. A panic
/// in it is counted ([`Stats::hook_panics`](crate::Stats::hook_panics)) and changes nothing else.
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
/// From Java's `ThreadPoolExecutor::beforeExecute` and `afterExecute`.
#[doc(alias = "beforeExecute")]
#[doc(alias = "afterExecute")]
pub trait TaskHook: Send + Sync + 'static {
    /// The task is about to run. Not called for one that is not run after all.
    fn before(&self, task: &TaskStart<'_>) {
        let _ = task;
    }

    /// The task has ended. Its handle does not show that yet. Also called for a task that its worker
    /// did not run, because a token had cancelled it or its time was up; not for one that its handle
    /// or a `release_now` took out of the queue.
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
    /// A token had cancelled it before it started: it was not run.
    Cancelled,
    /// It was not started [in time](crate::TaskBuilder::start_before): it was not run.
    Expired,
}

impl TaskStart<'_> {
    /// The pool's name.
    pub fn pool(&self) -> &str {
        self.pool
    }

    /// The task's [name](crate::TaskBuilder::name), if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.label.name
    }

    /// The type name of the task's closure, or of a typed pool's argument.
    pub fn task(&self) -> &'static str {
        self.label.type_name
    }

    /// How long ago the task was handed over, by the pool's clock: its time in the queue and, at a
    /// full pool, before it. Not known of a mapping's items, nor of scheduled tasks.
    pub fn queued(&self) -> Option<Duration> {
        self.queued
    }
}

impl TaskEnd<'_> {
    /// The pool's name.
    pub fn pool(&self) -> &str {
        self.start.pool()
    }

    /// The task's [name](crate::TaskBuilder::name), if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.start.name()
    }

    /// The type name of the task's closure, or of a typed pool's argument.
    pub fn task(&self) -> &'static str {
        self.start.task()
    }

    /// As [`TaskStart::queued`].
    pub fn queued(&self) -> Option<Duration> {
        self.start.queued()
    }

    /// How long it ran, by the pool's clock; zero if it was not run.
    pub fn ran(&self) -> Duration {
        self.ran
    }

    /// How it ended.
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
