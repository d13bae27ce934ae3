//! A bounded, elastic pool of worker threads, with back-pressure, handles, live tuning and a real
//! shutdown.
//!
//! A pool has a **capacity**, the most live workers, and a **queue depth**, the accepted tasks that
//! may wait beyond it. Both are exact. At a full pool a submit waits in one first-come,
//! first-served wait queue (as a thread or a future), or is refused with the task in the error,
//! whichever the call says. Workers are started when there is work, parked when there is none, and
//! ended when they have idled for the keep-alive; no service thread watches them.
//!
//! # When not to use it
//! - Data-parallel computation: rayon splits and balances it.
//! - Input and output of an async runtime: a task holds a thread while it waits.
//! - Millions of tasks of less than a microsecond: each costs two short sections of a lock. Put
//!   several into one.
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
//!     Err(SubmitError::Full(task)) => task(), // It came back: run it here.
//!     Err(other) => return Err(other.into()),
//! }
//! assert_eq!(answer.join()?, 42);
//!
//! pool.wait_idle_timeout(Duration::from_secs(60))?;
//! assert_eq!(pool.stats().submitted, pool.stats().completed);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # The words
//! A **task** is submitted. A **worker** is a thread that runs tasks: the *live* ones are *busy* or
//! *idle*, and an idle one is *searching* for work or *parked*. To **submit** is to hand a task
//! over and forget it, to **spawn** is to hand it over and get a handle. The **capacity** is the
//! most live workers, the **queue depth** the accepted tasks that may wait beyond it. A task is
//! **in flight** from its acceptance to its end, and **queued** until it starts. Threads and
//! futures **wait** in **the wait queue** for room. A **permit** holds room for a task that comes
//! later: **reserved** room. An idle worker ends after the **keep-alive**.
//! To **tune** is to change the capacity. A pool is **released**; it has **ended** when every
//! worker is gone too; then or before, it may be **rebooted**. The **nesting limit** is how many
//! tasks may run in place inside one another.
//!
//! # Calls that wait
//! A call that waits has four forms. A `_timeout` takes a [`Duration`](std::time::Duration) or an
//! [`Instant`](std::time::Instant), by the pool's clock. An async call returns a future for any
//! runtime. Multi-pools have the same calls.
//!
//! | waits | does not wait | waits for a limited time | async |
//! |---|---|---|---|
//! | [`submit`](WorkerPool::submit) | [`try_submit`](WorkerPool::try_submit) | [`submit_timeout`](WorkerPool::submit_timeout) | [`submit_async`](WorkerPool::submit_async) |
//! | [`spawn`](WorkerPool::spawn) | [`try_spawn`](WorkerPool::try_spawn) | [`spawn_timeout`](WorkerPool::spawn_timeout) | [`spawn_async`](WorkerPool::spawn_async) |
//! | [`submit_batch`](WorkerPool::submit_batch) | [`try_submit_batch`](WorkerPool::try_submit_batch) | [`submit_batch_timeout`](WorkerPool::submit_batch_timeout) | [`submit_batch_async`](WorkerPool::submit_batch_async) |
//! | [`reserve`](WorkerPool::reserve) | [`try_reserve`](WorkerPool::try_reserve) | [`reserve_timeout`](WorkerPool::reserve_timeout) | [`reserve_async`](WorkerPool::reserve_async) |
//! | [`task()`](WorkerPool::task)'s [`submit`](TaskBuilder::submit), [`spawn`](TaskBuilder::spawn) | [`try_submit`](TaskBuilder::try_submit), [`try_spawn`](TaskBuilder::try_spawn) | [`submit_timeout`](TaskBuilder::submit_timeout), [`spawn_timeout`](TaskBuilder::spawn_timeout) | [`submit_async`](TaskBuilder::submit_async), [`spawn_async`](TaskBuilder::spawn_async) |
//! | [`keyed()`](WorkerPool::keyed)'s [`submit`](Keyed::submit), [`spawn`](Keyed::spawn) | [`try_submit`](Keyed::try_submit), [`try_spawn`](Keyed::try_spawn) | [`submit_timeout`](Keyed::submit_timeout), [`spawn_timeout`](Keyed::spawn_timeout) | [`submit_async`](Keyed::submit_async), [`spawn_async`](Keyed::spawn_async) |
//! | [`wait_idle`](WorkerPool::wait_idle) | [`in_flight`](WorkerPool::in_flight) is 0 | [`wait_idle_timeout`](WorkerPool::wait_idle_timeout) | [`wait_idle_async`](WorkerPool::wait_idle_async) |
//! | [`wait_released`](WorkerPool::wait_released) | [`is_released`](WorkerPool::is_released), and `running` and `ending` of [`stats`](WorkerPool::stats) are 0 | [`wait_released_timeout`](WorkerPool::wait_released_timeout) | [`wait_released_async`](WorkerPool::wait_released_async) |
//! | `release`, then `wait_released` | [`release`](WorkerPool::release) | [`release_timeout`](WorkerPool::release_timeout) | [`release_async`](WorkerPool::release_async) |
//! | [`JoinHandle::join`] | [`try_join`](JoinHandle::try_join), [`is_finished`](JoinHandle::is_finished) | [`join_timeout`](JoinHandle::join_timeout) | the handle is a future |
//! | [`CancelToken::wait`] | [`is_cancelled`](CancelToken::is_cancelled) | [`wait_timeout`](CancelToken::wait_timeout) | [`cancelled`](CancelToken::cancelled) |
//!
//! # What blocks, and what it costs
//! | call | blocks | costs |
//! |---|---|---|
//! | `try_submit` | no | one section: at a busy pool of the inbox's lock alone, else of both locks; no allocation for up to 56 bytes of captures, one box for more |
//! | `submit`, `submit_timeout`, `submit_timeout` | at a full pool; on an own worker it runs the task in place | the same |
//! | `submit_async` | no; the future waits | the same, and one allocation if it has to wait |
//! | `spawn` and its kin | as their `submit` | one allocation more |
//! | `reserve` and its kin | as their `submit`; on an own worker a full pool refuses | one section, and one for the task, or to give the room back |
//! | `Keyed::submit`, `spawn` and their kin | at a full pool; on an own worker a full pool refuses | as their `submit`, a hash, and two short sections of a part of the keys |
//! | `submit_batch` | as `submit`, at each task that finds no room | the lock once for up to 256 tasks |
//! | a mapping's `next`, `for_each`, `try_for_each` | until the next result is there; on an own worker it does items itself | one section an item, shared with the one before if it can be |
//! | `scope`; `ScopedJoinHandle::join` | until its tasks have ended; it does what has not started | one or two allocations a task |
//! | `TaskGroup::next`, `wait`, `try_wait`; `invoke_any` | until a task, or all, have ended; on an own worker it runs those that have not started | a section of the group's own at each task's end |
//! | `CancelToken::wait` and its kin | until it is cancelled, or the time is up | nothing while it sleeps |
//! | `JoinHandle::join` | until the task has ended; on an own worker it runs one that has not started in place | nothing once it has; a short spin before it sleeps |
//! | `JoinHandle::cancel` | no | O(1) amortised, two sections; drops the captures here |
//! | `stats`, `running`, `waiting`, .. | no | one section |
//! | `tune`, `release`, `reboot`, `pause`, `resume` | no | one section, O(workers and waiters concerned) |
//! | `release_now` | no | O(queued); drops their captures here |
//! | `wait_idle`, `wait_released` | yes; refused on an own worker | nothing while they sleep |
//! | `wait_idle_async`, `wait_released_async`, `release_async` | no; the future waits | one section each time something is to be seen |
//! | `blocking` | as long as its closure | two sections, and perhaps a thread's start; nothing without a [`max_compensation`](Builder::max_compensation) |
//! | drop of the last handle | only with [`DropPolicy::Join`] | as its policy |
//!
//! Any call that accepts a task may also have to start a thread, on the caller, or wait for the
//! start of the first one, with [the gate](Builder::thread_gate) that it asks. Those with a time
//! limit wait no longer than that for a start that another makes. "No" means: for no longer than
//! that and than others hold the lock, and none of them holds it while it runs user code.
//!
//! # Your code on a worker
//! Hooks, wakers and destructors run on workers, and may take their time: a worker that runs such
//! code is busy with it, as with a task. It holds up no task that another worker is there for or
//! may be started for, and what it does not hold up either are wake-ups and starts that fall due at
//! the same time. What runs in a stop hook or in the destructor of a thread-local keeps a place for
//! a worker from being used, if there are many of these: threads of workers that have ended are at
//! most as many as there have been workers at once, or eight, and are shown in [`Stats::ending`].
//! Fewer that never end hold up nothing but the wait for the pool's end.
//! Such a destructor must not wait for a task of its own pool.
//!
//! A task costs two sections, one to push it and one to end it and take the next. A busy pool makes
//! no system call per task: a worker is woken only if none is spinning for work.
//!
//! # Panics
//! A panic in a task is caught, counted, shown to the panic hook and given to the handle; the
//! worker lives on. The same holds for panics in hooks, wakers, destructors and panic payloads. The
//! library itself panics only where a method says so, and none does on a user's input.
//!
//! # Forks
//! In a forked child the workers are missing. Each call that submits, spawns, reserves or waits returns an
//! error there ([`SubmitError::Forked`], ..), without taking a lock. An inherited handle that is dropped
//! leaks.
//!
//! # Ancestry
//! The face, and the idle workers with their one binary search for the expired, come from
//! [ants](https://github.com/panjf2000/ants) (Go). That each worker times its own idleness is how
//! Java's `ThreadPoolExecutor` does it; waking the one that parked last is folly's; that a submit
//! wakes no worker while one searches, and that a searcher that finds work wakes the next, is the
//! rule of Go's scheduler.

// A folder uses those below it: `face` > `engine` > `permit` > `task` > `sched`. `sister` is what the
// other crates of this workspace build on.
mod capacity;
mod clock;
mod config;
mod engine;
mod error;
mod face;
mod keyed;
mod permit;
mod sched;
mod sister;
mod stats;
mod task;

use sync_shim::foreign;

pub use sister::internals;

pub use capacity::{Capacity, QueueDepth};
pub use config::{DropPolicy, OnFull, WithinWorker};
pub use engine::blocking::blocking;
pub use engine::runner::Runner;
pub use error::{BuildError, JoinError, Panicked, SubmitError, TuneError, WaitError};
pub use face::batch::BatchError;
pub use face::builder::{Builder, DEFAULT_KEEP_ALIVE, DEFAULT_NAME, DEFAULT_NESTING_LIMIT};
pub use face::pool::{WeakWorkerPool, WorkerPool};
pub use face::pool_kinds::{FuncPool, Pool, WeakFuncPool, WeakPool};
pub use face::reserve::ReserveFuture;
pub use face::task_builder::TaskBuilder;
pub use face::traits::{BoxedFuture, Reserve, Spawn, Submit, TimeoutExt, Workers};
pub use keyed::Keyed;
pub use permit::Permit;
pub use sched::ready::Priority;
pub use stats::Stats;
#[cfg(not(anthill_loom))]
pub use sync_shim::MonotonicClock;
pub use sync_shim::{Clock, ManualClock, Timeout};
pub use task::accept::Accepts;
pub use task::cancel::{CancelOnDrop, CancelToken, Cancelled};
pub use task::closures::Closures;
pub use task::current::{Current, current};
pub use task::discarded::DiscardedTask;
pub use task::erased::Task;
pub use task::func::{Func, FuncJob};
pub use task::handle::JoinHandle;
pub use task::hook::{TaskEnd, TaskHook, TaskOutcome, TaskStart};
pub use task::run::TaskPanic;
