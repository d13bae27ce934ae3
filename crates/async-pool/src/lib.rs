//! A bounded pool of futures, with workers and timers of its own.
//!
//! An async runtime's `spawn` has no bound. [`AsyncPool`] has one: at most `capacity` futures are live at a time, and
//! further submits wait in one fair queue, are refused, or time out, as the call says. Room is free again when the future
//! has been *dropped*, so a cancelled future does not run on outside of the bound.
//!
//! ```
//! use std::time::Duration;
//! use async_pool::AsyncPool;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let pool = AsyncPool::builder().capacity(1_000).build()?;
//!     for _ in 0..10_000 {
//!         // Waits for room: 1,000 sleep at a time.
//!         pool.submit(async { async_pool::sleep(Duration::from_millis(1)).await })?;
//!     }
//!     let handle = pool.spawn(async { 6 * 7 })?;
//!     assert_eq!(handle.join()?, 42); // Or `.await`, on any runtime.
//!     pool.wait_idle()?;
//!     Ok(())
//! }
//! ```
//!
//! # When not to use it
//! - Without a bound, a runtime's own `spawn` does the same, next to the runtime's I/O.
//! - For a few futures of one task: `join!` or `FuturesUnordered`, which need no other thread.
//! - For calls that block: a pool of `pool-core`.
//!
//! # Terms
//! Those of [`pool_core`](pool_core#terms). A task is **live** from its start until its future has been dropped, and
//! **queued** from its acceptance until it starts. Workers exist from the pool's start to its end: there is no keep-alive.
//!
//! # Tasks that wait for tasks of their own pool
//! A task may await tasks of its own pool, also if the pool is full. While it waits for a task that has not started, or for
//! room, and none of the tasks that it has submitted is live, it lends its room: the first task that it waits for starts
//! there. So a chain of tasks that await each other ends in a pool of one, and a task with a thousand children in a full pool
//! has one live child at a time. [`Stats::live`] never exceeds the capacity; tasks that have lent their room count as
//! [`lending`](Stats::lending) until their child has ended. A chain may be as long as memory allows.
//! So tasks that each spawn and await others run depth first in a full pool.
//!
//! Tasks that need *each other* (by a channel, say) need as many rooms. If they have not got them, and their common parent
//! waits for them, the pool starts one more after a second in which it stood still: no task was polled, and no timer is set.
//! That is the only case in which it exceeds its capacity. Tasks of two pools that wait for each other in a circle, with both pools full,
//! wait for ever.
//!
//! Blocking calls on an own worker are refused: `submit`, `spawn` and `reserve` with [`Full`](SubmitError::Full) in a full pool,
//! [`JoinHandle::join`] of a task that has not ended, `wait_idle` and `wait_released` with `WouldDeadlock`. The futures of
//! `wait_idle_async` and `wait_released_async` return `WouldDeadlock` in a task of the pool, which is in flight itself.
//!
//! # Fairness
//! A worker takes turns between new tasks, tasks that a timer has woken, and all others; a turn ends after 192 polls, or about
//! 200 us, or one longer poll. Timers and queued tasks of a worker whose poll does not return are served by another worker after
//! 5 to 10 ms, if there is one. The room of a task goes to the next caller when the poll ends in which it was dropped.
//!
//! # Memory
//! A task is one block of memory, which is freed when its future was dropped and no handle is left. The pool's lists grow with
//! the live and queued tasks, and are freed by a pool that has rested for a second: a few KiB are left of a million tasks. How
//! much of that the process returns to the system is the allocator's matter: glibc keeps freed blocks for later, and may
//! keep all of them.
//!
//! A future is moved into its block. An unoptimized build moves it over the stack some twenty times meanwhile, so on a stack of
//! 2 MiB it may have 48 KiB there. Pass a larger one as `Box::pin(future)`.
//!
//! # Calls that wait
//! A `_timeout` takes a [`Duration`](std::time::Duration) or an [`Instant`](std::time::Instant), by the pool's clock. An
//! async call returns a future for any runtime.
//!
//! | waits | does not wait | waits for a limited time | async |
//! |---|---|---|---|
//! | [`submit`](AsyncWorkerPool::submit) | [`try_submit`](AsyncWorkerPool::try_submit) | [`submit_timeout`](AsyncWorkerPool::submit_timeout) | [`submit_async`](AsyncWorkerPool::submit_async) |
//! | [`spawn`](AsyncWorkerPool::spawn) | [`try_spawn`](AsyncWorkerPool::try_spawn) | [`spawn_timeout`](AsyncWorkerPool::spawn_timeout) | [`spawn_async`](AsyncWorkerPool::spawn_async) |
//! | [`reserve`](AsyncWorkerPool::reserve) | [`try_reserve`](AsyncWorkerPool::try_reserve) | [`reserve_timeout`](AsyncWorkerPool::reserve_timeout) | [`reserve_async`](AsyncWorkerPool::reserve_async) |
//! | [`JoinHandle::join`] | [`is_finished`](JoinHandle::is_finished) | [`join_timeout`](JoinHandle::join_timeout) | the handle is a future |
//! | `cancel`, then `join` | [`cancel`](JoinHandle::cancel) | `cancel`, then `join_timeout` | [`cancelled`](JoinHandle::cancelled) |
//! | [`wait_idle`](AsyncWorkerPool::wait_idle) | `in_flight` of [`stats`](AsyncWorkerPool::stats) is 0 | [`wait_idle_timeout`](AsyncWorkerPool::wait_idle_timeout) | [`wait_idle_async`](AsyncWorkerPool::wait_idle_async) |
//! | [`wait_released`](AsyncWorkerPool::wait_released) | [`is_released`](AsyncWorkerPool::is_released), and `in_flight` is 0 | [`wait_released_timeout`](AsyncWorkerPool::wait_released_timeout) | [`wait_released_async`](AsyncWorkerPool::wait_released_async) |
//! | [`TaskGroup::spawn`] | [`try_spawn`](TaskGroup::try_spawn) | [`spawn_timeout`](TaskGroup::spawn_timeout) | [`spawn_async`](TaskGroup::spawn_async) |
//! | [`TaskGroup::next`] | [`try_next`](TaskGroup::try_next) | [`next_timeout`](TaskGroup::next_timeout) | [`next_async`](TaskGroup::next_async) |
//! | [`TaskGroup::wait`] | [`is_empty`](TaskGroup::is_empty), after `try_next` | `next_timeout` in a loop | [`wait_async`](TaskGroup::wait_async) |
//! | [`TaskGroup::wait_ok`] (of tasks that may fail) | as for `wait` | as for `wait` | [`wait_ok_async`](TaskGroup::wait_ok_async) |
//! | a group's `next` | [`Map::poll_next`] | a [`timeout`] around the future | [`next_async`](Map::next_async); [`finish`](Map::finish), [`for_each_concurrent`](AsyncPool::for_each_concurrent) |
//!
//! # What blocks, and what it costs
//! A *section* is one critical section of the pool's admission. "No" excludes the time that other threads hold a lock. No
//! lock is held while user code runs.
//!
//! | call | blocks | costs |
//! |---|---|---|
//! | `try_submit`, `try_spawn` | no | one allocation for the task, and one section |
//! | `submit`, `spawn`, their `_timeout` | if the pool is full; refused on an own worker then | the same |
//! | `submit_async`, `spawn_async` | no; the future waits | the same, and one allocation if it has to wait |
//! | `reserve` and its variants | as the `spawn` variant | one section, and one for the task, or for the drop of an unused permit |
//! | the end of a task | no | one section on its worker |
//! | `JoinHandle::join` | until the future was dropped; refused on an own worker before that | nothing if the task has ended |
//! | `JoinHandle::cancel` | no | a push to a run queue; a worker drops the future |
//! | `tune`, `release` | no | one section |
//! | `stats`, a refused or waiting submit | no | one section more for each worker whose tasks have ended uncounted; wakes their joiners |
//! | `release_now` | no | O(live and queued tasks); drops futures that have not started on the calling thread |
//! | `wait_idle`, `wait_released` | yes; refused on an own worker | nothing while they sleep |
//! | a group's `spawn` | as `spawn` | two sections of the group's own lock more, and one at the task's end |
//! | `TaskGroup::next` | until a task has ended; on an own worker, the task is detached | a section of the group's lock |
//! | a map's `next_async` | no; pulls items and calls the function on the calling thread | one section per item for its room |
//! | `sleep` on a worker | no | a push to the worker's heap at its first poll |
//! | drop of the last handle | only with [`DropPolicy::Join`] | as its policy |
//!
//! # Panics
//! A panic in a poll, a destructor or a waker is caught, counted, passed to the panic hook (that of a poll) and returned
//! by the handle. Workers survive. The source and the function of a map run on the consumer's thread; their panics are the
//! consumer's.
//!
//! # Forks
//! A forked child has no workers. Every call that submits, spawns, reserves or waits returns an error in the child
//! ([`SubmitError::Forked`], ..) without taking a lock.
//!
//! # Features
//! `stream`: `AsyncPool::map_stream`, and [`Map`] is a `Stream`. `futures-task`, `hyper`: the pool is their executor.
//! `tower`: `PoolLayer` reserves room for a request before it is accepted. All are off by default.

mod adapters;
mod admission;
mod family;
mod group;
mod map;
mod pace;
mod pool;
mod task;
mod timers;
mod waits;
mod worker;

#[cfg(feature = "tower")]
pub use adapters::{PoolLayer, PoolService, ResponseFuture, ServiceError};
pub use group::TaskGroup;
pub use map::Map;
pub use pool::{
    AsyncFuncPool, AsyncPool, AsyncWorkerPool, Builder, DEFAULT_NAME, JoinHandle, Permit, Stats,
};
#[cfg(not(anthill_loom))]
pub use pool_core::MonotonicClock;
pub use pool_core::{
    Alarm, BuildError, Capacity, Clock, DropPolicy, JoinError, ManualClock, Parker, QueueDepth,
    SubmitError, TaskPanic, Timeout, TuneError, WaitError,
};
pub use task::{Func, Futures, Starts};
pub use timers::{
    Elapsed, Interval, Sleep, TimeLimited, interval, sleep, sleep_until, timeout, yield_now,
};

// Compiles and runs the README's examples.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
