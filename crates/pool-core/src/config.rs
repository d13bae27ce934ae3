//! What is fixed when a pool is built, and what a call may say of a full one.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sync_shim::Clock;

use crate::task::discarded::DiscardHook;
#[cfg(doc)]
use crate::task::discarded::DiscardedTask;

pub(crate) type Hook = dyn Fn() + Send + Sync;
/// How a pool's workers come by their states.
pub(crate) trait WorkerState: Send + Sync {
    fn number(&self) -> u64;
    /// Makes one, to be kept by the calling thread. It may panic.
    fn make(&self) -> Box<dyn Any>;
}

pub(crate) type ThreadName = dyn Fn(usize) -> String + Send + Sync;
pub(crate) type WorkerWrap = dyn Fn(&mut dyn FnMut()) + Send + Sync;
pub(crate) type ThreadGate = dyn Fn() -> io::Result<()> + Send + Sync;

/// What happens when the last handle of a pool is dropped.
///
/// A `main` that returns ends the process whatever its pools still hold: wait first, with
/// `wait_idle` or `release` and `wait_released`, or choose [`DropPolicy::Join`].
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
    /// Release; accepted tasks run, the drop does not block.
    #[default]
    Drain,
    /// Release, and block until every accepted task has run and every worker has ended. On one
    /// of the pool's own workers it is `Drain`.
    ///
    /// On a thread of an async runtime this blocks that thread: await
    /// [`release_async`](crate::WorkerPool::release_async) first, and the drop has nothing to wait for
    /// but threads that are ending.
    Join,
    /// Release and drop the tasks that have not started; running ones end by themselves.
    Discard,
}

/// What a blocking submit does on one of the pool's own workers if the pool is full.
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
    /// Run the task in place, as part of the task that submits it, down to the nesting limit;
    /// below that, refuse. Locks that the submitting task holds are held meanwhile.
    #[default]
    RunInPlace,
    /// Refuse with [`Full`](crate::SubmitError::Full). For tasks that hold locks across a
    /// submit.
    Refuse,
    /// Wait in the wait queue like any other thread. If every worker does so, no room is freed: a
    /// deadlock unless other tasks end.
    Block,
}

/// What a call does at a full pool. [`Builder::on_full`](crate::Builder::on_full) says it for the
/// calls that do not say it themselves.
///
/// | call, at a full pool | does |
/// |---|---|
/// | `submit`, `spawn`, `submit_batch`; a group's `submit` and `spawn` | what the pool was built with |
/// | `try_submit`, `try_spawn`, `try_submit_batch` | `Refuse` |
/// | `submit_timeout`, `submit_timeout`, and their `spawn`s | `Wait` |
/// | `submit_async`, `spawn_async` | waits as a future, and never runs a task inside a poll |
/// | `reserve`; [`Keyed`](crate::Keyed)'s `submit` and `spawn` | `Refuse` if the pool was built with that, else `Wait`: there is no task yet, or it must not run out of turn |
/// | `Submit::submit_with`, `Spawn::spawn_with` | what they are called with |
/// | a scope's tasks | neither wait nor are refused: the scope's owner runs what the pool has no room for |
/// | mappings, scheduled tasks | wait, whatever was built |
///
/// A released pool refuses all of them, and nothing is run or discarded then.
///
/// Nothing is discarded in silence: a pool that does so needs a
/// [discard hook](crate::Builder::discard_hook), or it is [not built](crate::BuildError::NoDiscardHook);
/// and `submit_with` and `spawn_with` refuse to discard in a pool that has none
/// ([`SubmitError::NoDiscardHook`](crate::SubmitError::NoDiscardHook)), full or not.
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
    /// It is refused.
    #[doc(alias = "AbortPolicy")]
    Refuse,
    /// It waits for room until then, or without a limit; on an own worker it does what
    /// [`WithinWorker`](crate::WithinWorker) says.
    Wait(Option<Instant>),
    /// The caller runs the task itself, before the call returns: while it does, it submits no more.
    ///
    /// The task counts as accepted and in flight, and holds no room; a handle has ended when it is
    /// returned. A task that is run so and submits in its turn nests, down to the
    /// [nesting limit](crate::Builder::nesting_limit); beyond that it waits. An own worker does what
    /// [`WithinWorker`](crate::WithinWorker) says (`Block`: it runs the task as well).
    #[doc(alias = "CallerRunsPolicy")]
    RunInCaller,
    /// The task is accepted, and the one that is queued the longest is [discarded](DiscardedTask)
    /// for it. Where none is queued (permits, or tasks that run, have all the room) it is itself
    /// discarded. It takes the other's place at once, and none from those that wait for room.
    ///
    /// Tasks that are not the user's alone are passed over: turns of keys, scheduled tasks, drain
    /// tasks of mappings and scopes. So are, in one call, those behind more than a few of them.
    #[doc(alias = "DiscardOldestPolicy")]
    DiscardOldest,
    /// The task is [discarded](DiscardedTask), and the call returns as if it had been accepted.
    #[doc(alias = "DiscardPolicy")]
    DiscardNewest,
}

impl OnFull {
    /// Whether it may give a task up.
    pub(crate) fn discards(self) -> bool {
        match self {
            Self::DiscardOldest | Self::DiscardNewest => true,
            Self::Refuse | Self::Wait(_) | Self::RunInCaller => false,
        }
    }

    /// The time limit of the policy itself.
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
    pub(crate) priorities: bool,
    pub(crate) on_full: OnFull,
    pub(crate) discard_hook: Option<Arc<DiscardHook>>,
    pub(crate) within_worker: WithinWorker,
    pub(crate) nesting_limit: u32,
    pub(crate) stack_size: Option<usize>,
    pub(crate) drop_policy: DropPolicy,
    pub(crate) thread_name: Option<Arc<ThreadName>>,
    pub(crate) worker_wrap: Option<Arc<WorkerWrap>>,
    pub(crate) start_hook: Option<Arc<Hook>>,
    pub(crate) worker_state: Option<Arc<dyn WorkerState>>,
    pub(crate) stop_hook: Option<Arc<Hook>>,
    pub(crate) thread_gate: Option<Arc<ThreadGate>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Config {
    /// When a worker idle since `since` expires; `None` for never.
    pub(crate) fn keep_until(&self, since: Instant) -> Option<Instant> {
        since.checked_add(self.keep_alive?)
    }

    /// Whether a worker runs user code before it looks for its first task.
    pub(crate) fn has_entry_code(&self) -> bool {
        self.start_hook.is_some() || self.worker_state.is_some()
    }

    /// Workers idle since then or longer have expired; `None` if none can have.
    pub(crate) fn stale_since(&self, now: Instant) -> Option<Instant> {
        now.checked_sub(self.keep_alive?)
    }
}
