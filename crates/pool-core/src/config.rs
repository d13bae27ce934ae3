//! Settings that are fixed when a pool is built, and the policy of a call at a full pool.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use sync_shim::Clock;

pub(crate) type Hook = dyn Fn() + Send + Sync;

pub(crate) type ThreadName = dyn Fn(usize) -> String + Send + Sync;
pub(crate) type WorkerWrap = dyn Fn(&mut dyn FnMut()) + Send + Sync;
pub(crate) type ThreadGate = dyn Fn() -> io::Result<()> + Send + Sync;

/// Policy for the drop of a pool's last handle.
///
/// If `main` returns, the process exits whether or not its pools have finished. Wait first, with
/// `wait_idle`, or `release` and `wait_released`, or choose [`DropPolicy::Join`].
///
/// ```
/// use pool_core::{DropPolicy, Pool};
///
/// let pool = Pool::builder().capacity(2).drop_policy(DropPolicy::Join).build()?;
/// let written = pool.spawn(|| "to the disk")?;
/// drop(pool); // Waits for it.
/// assert!(written.is_finished());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropPolicy {
    /// Releases the pool. Accepted tasks still run; the drop does not block.
    #[default]
    Drain,
    /// Releases the pool and blocks until every accepted task has run and every worker has ended.
    /// On one of the pool's own workers it acts as `Drain`.
    ///
    /// On a thread of an async runtime this blocks that thread. Await
    /// [`release_async`](crate::WorkerPool::release_async) first: the drop then waits only for
    /// threads that are ending.
    Join,
    /// Releases the pool and drops tasks that have not started. Running tasks are not interrupted.
    Discard,
}

/// Policy for a blocking submit on one of the pool's own workers while the pool is full.
///
/// ```
/// use pool_core::{Pool, WithinWorker};
///
/// let pool = Pool::builder().capacity(1).within_worker(WithinWorker::Refuse).build()?;
/// let inner = pool.clone();
/// let full = pool.spawn(move || inner.submit(|| ()).is_err_and(|refused| refused.is_full()));
/// assert!(full?.join()?);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WithinWorker {
    /// Runs the task in place, as part of the submitting task, up to the nesting limit; beyond it,
    /// refuses. Locks of the submitting task stay held meanwhile.
    #[default]
    RunInPlace,
    /// Refuses with [`Full`](crate::SubmitError::Full). For tasks that hold locks across a submit.
    Refuse,
    /// Waits in the wait queue like any other thread. The pool deadlocks if every worker waits.
    Block,
}

/// Policy for a call at a full pool. [`Builder::on_full`](crate::Builder::on_full) sets it for calls
/// that do not choose it themselves.
///
/// | call, at a full pool | does |
/// |---|---|
/// | `submit`, `spawn`, `submit_batch`; a group's `submit` and `spawn` | the pool's setting |
/// | `try_submit`, `try_spawn`, `try_submit_batch` | `Refuse` |
/// | `submit_timeout`, `spawn_timeout` | `Wait` |
/// | `submit_async`, `spawn_async` | waits as a future; on an own worker the poll runs the task in place |
/// | `reserve`; `Keyed`'s `submit` and `spawn` | `Refuse` if that is the pool's setting, else `Wait`: there is no task yet, or it must not run out of order |
/// | `Submit::submit_with`, `Spawn::spawn_with` | their argument |
/// | tasks of a scope | neither wait nor are refused: the scope's owner runs tasks that find no room |
/// | mappings, scheduled tasks | wait, whatever the pool's setting |
///
/// A released pool refuses all calls; it neither runs nor discards their tasks.
///
/// Every discarded task is passed to the [discard hook](crate::Builder::discard_hook). A pool whose
/// setting discards [is not built](crate::BuildError::NoDiscardHook) without one, and `submit_with`
/// and `spawn_with` refuse to discard if there is none
/// ([`SubmitError::NoDiscardHook`](crate::SubmitError::NoDiscardHook)), even if the pool has room.
///
/// From Java's `RejectedExecutionHandler`.
///
/// ```
/// use pool_core::{OnFull, Pool};
///
/// let pool = Pool::builder().capacity(1).on_full(OnFull::RunInCaller).build()?;
/// let permit = pool.reserve()?; // The pool is full.
/// let here = std::thread::current().id();
/// let ran_on = pool.spawn(|| std::thread::current().id())?;
/// assert_eq!(ran_on.join()?, here);
/// drop(permit);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "RejectedExecutionHandler")]
pub enum OnFull {
    /// Refuses the task.
    #[doc(alias = "AbortPolicy")]
    Refuse,
    /// Waits for room until the deadline, or without a limit. An own worker does what
    /// [`WithinWorker`](crate::WithinWorker) says.
    Wait(Option<Instant>),
    /// Runs the task on the calling thread before the call returns, which slows that submitter
    /// down.
    ///
    /// The task counts as accepted and in flight, but holds no room. Its handle, if any, has ended
    /// when it is returned. If the task itself submits to a full pool, the tasks nest up to the
    /// [nesting limit](crate::Builder::nesting_limit); beyond it the call waits. An own worker does
    /// what [`WithinWorker`](crate::WithinWorker) says (`Block`: it runs the task as well).
    ///
    /// It also runs the task of a blocking call if the pool has no worker and the operating system refuses to
    /// start one.
    #[doc(alias = "CallerRunsPolicy")]
    RunInCaller,
    /// Accepts the task and [discards](DiscardedTask) the one queued longest. The new task takes
    /// the place of the old one immediately, so waiting callers lose no room. If no task is queued
    /// (permits or running tasks hold all the room), the new task itself is discarded.
    ///
    /// Tasks with an owner other than the user are skipped: turns of keys, scheduled tasks, drain
    /// tasks of mappings and scopes. If more than a few of these are at the head of the queue, one
    /// call does not search beyond them.
    #[doc(alias = "DiscardOldestPolicy")]
    DiscardOldest,
    /// [Discards](DiscardedTask) the task and returns as if it had been accepted.
    #[doc(alias = "DiscardPolicy")]
    DiscardNewest,
}

impl OnFull {
    /// Whether the policy can discard a task.
    pub(crate) fn discards(self) -> bool {
        match self {
            Self::DiscardOldest | Self::DiscardNewest => true,
            Self::Refuse | Self::Wait(_) | Self::RunInCaller => false,
        }
    }

    /// The deadline of `Wait`, if it has one.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Wait(deadline) => deadline,
            Self::Refuse | Self::RunInCaller | Self::DiscardOldest | Self::DiscardNewest => None,
        }
    }
}

pub(crate) struct Config {
    pub(crate) capacity: usize,
    pub(crate) max_compensation: usize,
    pub(crate) depth: usize,
    pub(crate) max_waiting: usize,
    pub(crate) min_workers: usize,
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) preallocate: bool,
    pub(crate) start_paused: bool,
    pub(crate) on_full: OnFull,
    pub(crate) discard_hook: Option<Arc<DiscardHook>>,
    pub(crate) within_worker: WithinWorker,
    pub(crate) nesting_limit: u32,
    pub(crate) stack_size: Option<usize>,
    pub(crate) thread_name: Option<Arc<ThreadName>>,
    pub(crate) worker_wrap: Option<Arc<WorkerWrap>>,
    pub(crate) start_hook: Option<Arc<Hook>>,
    pub(crate) stop_hook: Option<Arc<Hook>>,
    /// Whether a worker runs user code before it looks for its first task.
    pub(crate) has_entry_code: bool,
    pub(crate) thread_gate: Option<Arc<ThreadGate>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Config {
    /// When a worker that has idled since `since` expires; `None` for never.
    pub(crate) fn keep_until(&self, since: Instant) -> Option<Instant> {
        since.checked_add(self.keep_alive?)
    }

    /// The latest idle start of an expired worker; `None` if no worker can have expired.
    pub(crate) fn stale_since(&self, now: Instant) -> Option<Instant> {
        now.checked_sub(self.keep_alive?)
    }
}

/// Maximum number of live workers.
///
/// "Unlimited" is a separate variant, not a large number: an unlimited pool is never full.
///
/// ```
/// use pool_core::{Capacity, Pool};
///
/// let pool = Pool::builder().unlimited().build()?;
/// assert_eq!((pool.capacity(), pool.free()), (Capacity::Unlimited, None));
/// pool.tune(8)?; // A number is a capacity.
/// assert_eq!(pool.capacity().limit(), Some(8));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capacity {
    /// At most this many. Setting zero is an error.
    Limited(usize),
    /// As many workers as there are tasks.
    Unlimited,
}

/// Maximum number of accepted tasks that wait for a worker beyond the capacity.
///
/// ```
/// use pool_core::{Pool, QueueDepth};
///
/// let bounded = Pool::builder().capacity(2).queue_depth(16).build()?;
/// let endless = Pool::builder().capacity(2).queue_depth(QueueDepth::Unlimited).build()?;
/// # drop((bounded, endless));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueDepth {
    /// At most this many. Zero, the default, accepts a task only if a worker is free for it or may
    /// be started.
    Limited(usize),
    /// No limit: a submit neither waits nor is refused, and memory is the only bound. When the
    /// queue is empty and a worker goes to sleep, the queue's memory is freed, except for that of
    /// 5,000 tasks (64 bytes each, or an argument's size in a [`FuncPool`](crate::FuncPool)).
    Unlimited,
}

/// Represents "unlimited" where limits are compared.
pub(crate) const UNLIMITED: usize = usize::MAX;

impl Capacity {
    /// The limit as a number for comparisons.
    pub(crate) fn bound(self) -> usize {
        match self {
            Self::Limited(most) => most,
            // A number as well, so that the comparisons of the hot path need no case for it.
            Self::Unlimited => UNLIMITED,
        }
    }

    pub(crate) fn from_bound(bound: usize) -> Self {
        if bound == UNLIMITED {
            Self::Unlimited
        } else {
            Self::Limited(bound)
        }
    }

    /// Returns the limit, or `None` if unlimited.
    pub fn limit(self) -> Option<usize> {
        match self {
            Self::Limited(most) => Some(most),
            Self::Unlimited => None,
        }
    }

    /// Returns the capacity of two pools together. Unlimited if either is, or if the sum overflows.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::from_bound(self.bound().saturating_add(other.bound()))
    }
}

impl QueueDepth {
    pub(crate) fn bound(self) -> usize {
        match self {
            Self::Limited(most) => most,
            Self::Unlimited => UNLIMITED,
        }
    }

    pub(crate) fn from_bound(bound: usize) -> Self {
        if bound == UNLIMITED {
            Self::Unlimited
        } else {
            Self::Limited(bound)
        }
    }

    /// Returns the limit, or `None` if unlimited.
    pub fn limit(self) -> Option<usize> {
        match self {
            Self::Limited(most) => Some(most),
            Self::Unlimited => None,
        }
    }
}

impl From<usize> for Capacity {
    fn from(most: usize) -> Self {
        Self::Limited(most)
    }
}

impl From<usize> for QueueDepth {
    fn from(most: usize) -> Self {
        Self::Limited(most)
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited(most) => most.fmt(f),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

/// Maximum number of accepted, unfinished tasks: one per worker, plus the queue depth.
pub(crate) fn limit(capacity: usize, depth: usize) -> usize {
    // `UNLIMITED` is the largest number, so a saturating sum preserves it.
    capacity.saturating_add(depth)
}

/// Returns the process-wide monotonic clock; in models, a clock that stands still.
#[cfg(not(anthill_loom))]
pub(crate) fn default_clock() -> Arc<dyn Clock> {
    Arc::new(sync_shim::PlainClock)
}

#[cfg(anthill_loom)]
pub(crate) fn default_clock() -> Arc<dyn Clock> {
    Arc::new(sync_shim::ManualClock::new())
}

pub(crate) type DiscardHook = dyn Fn(&DiscardedTask<'_>) + Send + Sync;

/// A task that a full pool discards, passed to the [discard hook](crate::Builder::discard_hook).
///
/// Its captures are dropped after the hook has returned, on the same thread. Then the task is
/// counted in [`Stats::discarded`](crate::Stats::discarded), and its handle ends with
/// [`JoinError::Discarded`](crate::JoinError::Discarded).
pub struct DiscardedTask<'a> {
    pub(crate) pool: &'a str,
    pub(crate) task: &'static str,
    pub(crate) name: Option<&'a str>,
}

impl DiscardedTask<'_> {
    /// Returns the pool's name.
    pub fn pool(&self) -> &str {
        self.pool
    }

    /// Returns the type name of the task's closure, or of a typed pool's argument.
    pub fn task(&self) -> &'static str {
        self.task
    }

    /// Returns the task's [name](crate::TaskBuilder::name), if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name
    }
}

impl fmt::Debug for DiscardedTask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscardedTask")
            .field("pool", &self.pool)
            .field("task", &self.task)
            .field("name", &self.name)
            .finish()
    }
}
