//! A bounded, elastic pool of worker threads, with backpressure, task handles, live tuning and an
//! awaitable shutdown.
//!
//! A pool has a **capacity**, the maximum number of live workers, and a **queue depth**, the number
//! of accepted tasks that may wait beyond the capacity. Both limits are exact. If the pool is full,
//! the call decides: it waits in one first-come, first-served wait queue (as a thread or a future),
//! or it is refused and returns the task in the error. Workers start on demand, park when there is
//! no work, and end after the keep-alive. The pool has no service threads.
//!
//! The extension trait of `pool-util` adds maps over iterators, scopes for borrowing tasks, and task
//! groups.
//!
//! # When not to use it
//! - For data-parallel computation: rayon splits and balances it.
//! - For asynchronous I/O: a task holds a thread while it waits. Use an async runtime.
//! - For millions of tasks of less than a microsecond: each takes a lock twice. Combine several into
//!   one.
//!
//! # Example
//! ```
//! use pool_core::{DropPolicy, Pool, SubmitError};
//! use std::time::Duration;
//!
//! let pool = Pool::builder()
//!     .name("thumbnails")
//!     .capacity(4)
//!     .queue_depth(16)
//!     .drop_policy(DropPolicy::Join)
//!     .build()?;
//!
//! let answer = pool.spawn(|| 6 * 7)?; // Waits for room.
//! match pool.try_submit(|| ()) {
//!     Ok(()) => {}
//!     Err(SubmitError::Full(task)) => task(), // Returned in the error: run it here.
//!     Err(other) => return Err(other.into()),
//! }
//! assert_eq!(answer.join()?, 42);
//!
//! pool.wait_idle_timeout(Duration::from_secs(60))?;
//! assert_eq!(pool.stats().submitted, pool.stats().completed);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # Terms
//! A **task** is submitted. A **worker** is a thread that runs tasks. A *live* worker is *busy* or
//! *idle*; an idle worker is *searching* for work or *parked*. To **submit** is to hand over a task
//! without a handle; to **spawn** is to hand it over and get a handle. A task is **in flight** from
//! its acceptance to its end, and **queued** until it starts. Threads and futures **wait** for room
//! in **the wait queue**. A **permit** is room **reserved** for a task that is submitted later. An
//! idle worker ends after the **keep-alive**. To **tune** is to change the capacity. A pool is
//! **released**, and has **ended** once every worker is gone; a released pool can be **rebooted**.
//! The **nesting limit** is the maximum number of tasks that run in place inside one another.
//!
//! A *section* is one critical section of the scheduler: an access to its state under one of its
//! two locks, or both.
//!
//! # Calls that wait
//! A call that waits has four forms. A `_timeout` takes a [`Duration`](std::time::Duration) or an
//! [`Instant`](std::time::Instant), by the pool's clock. An async call returns a future for any
//! runtime. Where there is no such call, the table says what to use instead. Multi-pools have the
//! same calls.
//!
//! | waits | does not wait | waits for a limited time | async |
//! |---|---|---|---|
//! | [`submit`](WorkerPool::submit) | [`try_submit`](WorkerPool::try_submit) | [`submit_timeout`](WorkerPool::submit_timeout) | [`submit_async`](WorkerPool::submit_async) |
//! | [`spawn`](WorkerPool::spawn) | [`try_spawn`](WorkerPool::try_spawn) | [`spawn_timeout`](WorkerPool::spawn_timeout) | [`spawn_async`](WorkerPool::spawn_async) |
//! | [`submit_batch`](WorkerPool::submit_batch) | [`try_submit_batch`](WorkerPool::try_submit_batch) | [`submit_batch_timeout`](WorkerPool::submit_batch_timeout) | [`submit_batch_async`](WorkerPool::submit_batch_async) |
//! | [`reserve`](WorkerPool::reserve) | [`try_reserve`](WorkerPool::try_reserve) | [`reserve_timeout`](WorkerPool::reserve_timeout) | [`reserve_async`](WorkerPool::reserve_async) |
//! | [`task()`](WorkerPool::task)'s [`submit`](TaskBuilder::submit), [`spawn`](TaskBuilder::spawn) | [`try_submit`](TaskBuilder::try_submit), [`try_spawn`](TaskBuilder::try_spawn) | [`submit_timeout`](TaskBuilder::submit_timeout), [`spawn_timeout`](TaskBuilder::spawn_timeout) | [`submit_async`](TaskBuilder::submit_async), [`spawn_async`](TaskBuilder::spawn_async) |
//! | [`wait_idle`](WorkerPool::wait_idle) | [`in_flight`](WorkerPool::in_flight) is 0 | [`wait_idle_timeout`](WorkerPool::wait_idle_timeout) | [`wait_idle_async`](WorkerPool::wait_idle_async) |
//! | [`wait_released`](WorkerPool::wait_released) | [`is_released`](WorkerPool::is_released), and `running` and `ending` of [`stats`](WorkerPool::stats) are 0 | [`wait_released_timeout`](WorkerPool::wait_released_timeout) | [`wait_released_async`](WorkerPool::wait_released_async) |
//! | [`release`](WorkerPool::release), then `wait_released` | `release` alone | [`release_timeout`](WorkerPool::release_timeout) | [`release_async`](WorkerPool::release_async), [`release_timeout_async`](WorkerPool::release_timeout_async) |
//! | [`JoinHandle::join`] | [`try_join`](JoinHandle::try_join), [`is_finished`](JoinHandle::is_finished) | [`join_timeout`](JoinHandle::join_timeout) | the handle is a future |
//! | [`CancelToken::wait`] | [`is_cancelled`](CancelToken::is_cancelled) | [`wait_timeout`](CancelToken::wait_timeout) | [`cancelled`](CancelToken::cancelled) |
//!
//! # What blocks, and what it costs
//! | call | blocks | costs |
//! |---|---|---|
//! | `try_submit` | no | one section, of the inbox's lock alone if the pool is busy; no allocation for up to 56 bytes of captures, one box for more |
//! | `submit`, `submit_timeout` | if the pool is full; an own worker runs the task in place instead | the same |
//! | `submit_async` | no; the future waits, and on an own worker runs the task in place instead | the same, and one allocation if it has to wait |
//! | `spawn` and its variants | as the `submit` variant | one more allocation |
//! | `reserve` and its variants | as the `submit` variant; an own worker is refused if the pool is full | one section, and one for the task, or for the drop of an unused permit |
//! | `submit_batch` | as `submit`, at each task that finds no room | one section for up to 256 tasks |
//! | `CancelToken::wait` and its variants | until it is cancelled or times out | nothing while it sleeps |
//! | `JoinHandle::join`, or a poll | until the task has ended (a poll does not block); an own worker runs an unstarted task in place | nothing if the task has ended, else a short spin before it sleeps |
//! | `JoinHandle::cancel` | no | O(1) amortised, two sections; drops the captures on the calling thread |
//! | `stats`, `running`, `waiting`, .. | no | one section |
//! | `tune`, `release`, `reboot`, `pause`, `resume` | no | one section, O(affected workers and waiters) |
//! | `release_now` | no | O(queued tasks); drops their captures on the calling thread |
//! | `wait_idle`, `wait_released` | yes; refused on an own worker | nothing while they sleep |
//! | `wait_idle_async`, `wait_released_async`, `release_async` | no; the future waits, and is refused on an own worker | at most two sections per poll |
//! | `blocking` | as long as its closure | two sections, and possibly a thread's start, for up to [`max_compensation`](Builder::max_compensation) tasks at a time |
//! | drop of the last handle | only with [`DropPolicy::Join`] | as its policy |
//!
//! Any call that accepts a task may also have to start a thread on the calling thread, or wait
//! until another caller has started the first one, including the [thread
//! gate](Builder::thread_gate). Calls with a timeout apply it to the wait for another caller's
//! start. "No" in the table excludes this and the time that other threads hold the lock. No lock is
//! held while user code runs.
//!
//! # User code on workers
//! Hooks, wakers and destructors run on workers and may be slow: the worker counts as busy, as with
//! a task. Slow user code delays neither tasks that another worker can run, nor wake-ups and thread
//! starts due at the same time.
//!
//! A worker in its stop hook keeps its place in the capacity. Afterwards its thread may still run
//! destructors of thread-locals; [`Stats::ending`] counts these threads. There are at most as many
//! as the peak number of live workers, or eight if that is more. At this limit, further workers
//! keep their places until a thread is gone. Below it, a destructor that never returns delays only
//! the wait for the pool's end. Such a destructor must not wait for a task of its own pool.
//!
//! A task costs two sections: one to push it, and one to end it and take the next. A busy pool
//! makes no system call per task, because a worker is woken only if no other worker is spinning for
//! work.
//!
//! # Panics
//! A panic in a task is caught, counted, passed to the panic hook and returned by the handle; the
//! worker survives. The same holds for panics in hooks, wakers, destructors and panic payloads. The
//! library itself panics only where a method documents it, never because of user input.
//!
//! # Forks
//! A forked child has no workers. Every call that submits, spawns, reserves or waits returns an
//! error in the child ([`SubmitError::Forked`], ..) without taking a lock. An inherited handle
//! leaks when it is dropped.
//!
//! # Ancestry
//! The interface, and the binary search over idle workers for expired ones, come from
//! [ants](https://github.com/panjf2000/ants) (Go). Workers time their own idleness as in Java's
//! `ThreadPoolExecutor`. Waking the most recently parked worker comes from folly. The rule that a
//! submit wakes no worker while another one searches, and that a searcher that finds work wakes the
//! next, is that of Go's scheduler.

// Dependencies point downwards: `face` > `engine` > `permit` > `task` > `sched`. `sister` is the
// interface for the other crates of this workspace.
mod cancel;
mod config;
mod error;
mod permit;
mod stats;
mod unwind;

/// The public interface: pool handles, the builder, and the calls that submit, spawn and wait.
mod face {
    pub(crate) mod batch;
    pub(crate) mod builder;
    pub(crate) mod pool;
    pub(crate) mod pool_kinds;
    pub(crate) mod submit;
    pub(crate) mod task_builder;
    pub(crate) mod traits;
}

/// The engine of a pool: admission, workers, their start and end. Each call runs a section of the scheduler, then
/// its deferred effects with no lock held.
mod engine {
    pub(crate) mod admit;
    pub(crate) mod core;
    pub(crate) mod life;
    pub(crate) mod reserve;
    pub(crate) mod runner;
    pub(crate) mod wait;
    pub(crate) mod worker;
    pub(crate) mod worker_state;
}

/// Tasks: how a task is stored in the queue, runs, and passes its value to a handle.
///
/// Nothing here knows a pool or decides where and when a task runs. Most of the crate's `unsafe` code is here;
/// `UNSAFE.md` lists it with the user code that runs while an invariant is suspended.
mod task {
    pub(crate) mod cell;
    pub(crate) mod closures;
    pub(crate) mod current;
    pub(crate) mod erased;
    pub(crate) mod handle;
    pub(crate) mod hook;
    pub(crate) mod large;
    pub(crate) mod options;
    pub(crate) mod promise;
    pub(crate) mod run;
}

/// The scheduler: it assigns tasks to workers, queues submitters and decides which thread to wake.
///
/// [`decide`] holds the decisions as pure functions, [`state`] applies them in sections under the lock, and
/// [`effects`] carries out what a section deferred. The scheduler starts no thread and runs no task.
mod sched {
    pub(crate) mod decide;
    pub(crate) mod effects;
    pub(crate) mod event;
    pub(crate) mod lanes;
    pub(crate) mod load;
    pub(crate) mod lock;
    pub(crate) mod queue;
    pub(crate) mod ready;
    pub(crate) mod shared;
    pub(crate) mod spin;
    pub(crate) mod state;
    pub(crate) mod waiters;
    pub(crate) mod workers;
}

/// Interface for the other crates of this workspace, in addition to the public one.
mod sister {
    pub(crate) mod group;
    pub mod internals;
    pub(crate) mod pool_handle;
}

use sync_shim::foreign;

pub use sister::internals;

pub use cancel::{CancelOnDrop, CancelToken, Cancelled};
pub use config::{Capacity, DiscardedTask, DropPolicy, OnFull, QueueDepth, WithinWorker};
pub use engine::life::blocking;
pub use engine::runner::{Accepts, Runner};
pub use error::{BuildError, JoinError, Panicked, SubmitError, TuneError, WaitError};
pub use face::batch::BatchError;
pub use face::builder::{
    Builder, DEFAULT_KEEP_ALIVE, DEFAULT_MAX_COMPENSATION, DEFAULT_NAME, DEFAULT_NESTING_LIMIT,
};
pub use face::pool::{WeakWorkerPool, WorkerPool};
pub use face::pool_kinds::{FuncPool, Pool, WeakFuncPool, WeakPool};
pub use face::submit::ReserveFuture;
pub use face::task_builder::TaskBuilder;
pub use face::traits::{BoxedFuture, Reserve, Spawn, Submit, TimeoutExt, Workers};
pub use permit::Permit;
pub use sched::ready::Priority;
pub use stats::Stats;
#[cfg(not(anthill_loom))]
pub use sync_shim::MonotonicClock;
pub use sync_shim::{Alarm, Clock, ManualClock, Parker, Timeout};
pub use task::closures::{Closures, Func};
pub use task::current::{Current, current};
pub use task::erased::Task;
pub use task::handle::JoinHandle;
pub use task::hook::{TaskEnd, TaskHook, TaskOutcome, TaskStart};
pub use task::run::TaskPanic;
