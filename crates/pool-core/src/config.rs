//! What is fixed when a pool is built, and what a call may say of a full one.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sync_shim::Clock;

pub(crate) type Hook = dyn Fn() + Send + Sync;
pub(crate) type ThreadName = dyn Fn(usize) -> String + Send + Sync;
pub(crate) type WorkerWrap = dyn Fn(&mut dyn FnMut()) + Send + Sync;
pub(crate) type ThreadGate = dyn Fn() -> io::Result<()> + Send + Sync;

/// What happens when the last handle of a pool is dropped.
///
/// A `main` that returns ends the process whatever its pools still hold: wait first, with
/// `wait_idle` or `release` and `wait_released`, or choose [`DropPolicy::Join`].
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

/// What a call does at a full pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// It is refused.
    Refuse,
    /// It waits for room until then, or without a limit; on an own worker it does what
    /// [`WithinWorker`](crate::WithinWorker) says.
    Wait(Option<Instant>),
}

pub(crate) struct Config {
    pub(crate) capacity: usize,
    pub(crate) depth: usize,
    pub(crate) max_waiting: usize,
    pub(crate) min_workers: usize,
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) preallocate: bool,
    pub(crate) nonblocking: bool,
    pub(crate) within_worker: WithinWorker,
    pub(crate) nesting_limit: u32,
    pub(crate) stack_size: Option<usize>,
    pub(crate) drop_policy: DropPolicy,
    pub(crate) thread_name: Option<Arc<ThreadName>>,
    pub(crate) worker_wrap: Option<Arc<WorkerWrap>>,
    pub(crate) start_hook: Option<Arc<Hook>>,
    pub(crate) stop_hook: Option<Arc<Hook>>,
    pub(crate) thread_gate: Option<Arc<ThreadGate>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Config {
    /// When a worker idle since `since` expires; `None` for never.
    pub(crate) fn keep_until(&self, since: Instant) -> Option<Instant> {
        since.checked_add(self.keep_alive?)
    }

    /// Workers idle since then or longer have expired; `None` if none can have.
    pub(crate) fn stale_since(&self, now: Instant) -> Option<Instant> {
        now.checked_sub(self.keep_alive?)
    }
}
