//! Delayed and periodic tasks for a pool: once, at a fixed rate, or with a fixed delay between runs.
//!
//! A [`ScheduledPool`] runs its tasks in a [`pool_core::Pool`]. One timer thread sleeps until the
//! earliest schedule is due and submits it to the pool. In a full pool the task waits for room in the
//! same queue as blocked threads and futures. The timer thread runs no tasks.
//!
//! Each scheduled pool has its own timer thread, from its first schedule to its end. Clones of a handle
//! share it, so a program with many components shares one scheduled pool.
//!
//! ```
//! use std::time::Duration;
//! use pool_core::Pool;
//! use scheduled_pool::ScheduledPool;
//!
//! let pool = Pool::builder().capacity(2).build()?;
//! let scheduled = ScheduledPool::new(pool.clone());
//!
//! let series = scheduled.spawn_at_fixed_rate(
//!     Duration::ZERO,            // Delay before the first run.
//!     Duration::from_millis(1),  // Period, from due time to due time.
//!     || println!("renew the lease"),
//! )?;
//! let value = scheduled.spawn_after(Duration::from_millis(3), || 7)?.join()?;
//! assert_eq!(value, 7);
//! assert!(series.cancel());
//!
//! scheduled.release(); // Accepts no more schedules; the end of the last one releases the pool.
//! scheduled.wait_released()?;
//! assert!(pool.is_released());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # When not to use it
//! - For calendars ("every Monday at nine"): due times are monotonic. Use `durable-queue` with cron patterns.
//! - For values that become due, rather than tasks: use `delay-queue`.
//! - For schedules that survive a restart: all state is in memory. Use `durable-queue`.
//!
//! # Guarantees
//! 1. No run starts early: a run starts when `now >= due` by the pool's clock.
//! 2. Runs of a series never overlap. A fixed rate keeps to its grid of due times, however late a run is.
//! 3. A pending schedule is not in flight: `wait_idle` ignores it. A due schedule joins the pool's wait
//!    queue in first-in, first-out order; `max_waiting` and `nonblocking` do not apply to it.
//! 4. Cancelling is amortised O(log n) and frees the closure, the heap entry and the place in the wait
//!    queue before it returns. The heap shrinks when less than a quarter of it is in use, but not past an
//!    entry that is still there. Either the cancel or the run succeeds, never both and never neither.
//! 5. Every accepted schedule ends, and its handle returns the outcome.
//! 6. No arithmetic overflows: a time too far away to express means never, and delays no other schedule.
//!
//! # Terms
//! A **schedule** is a task with a time: one run, or a **series** of them. It is **pending** until
//! it is **due**; then it waits for room or runs. The runs of a series at a fixed rate are due at
//! **ticks**; a tick is **missed** if the previous run is still waiting or running. For other terms
//! see [`pool_core`].
//!
//! # Calls that wait
//! A `_timeout` takes a `Duration` or an `Instant`, by the pool's clock. An async call returns a future for any
//! runtime.
//!
//! | waits | does not wait | waits for a limited time | async |
//! |---|---|---|---|
//! | [`join`](ScheduledHandle::join) | [`try_join`](ScheduledHandle::try_join) | [`join_timeout`](ScheduledHandle::join_timeout) | the handle is a future |
//! | [`wait_idle`](ScheduledPool::wait_idle) | `unended` and `pending` of [`stats`](ScheduledPool::stats) are equal | [`wait_idle_timeout`](ScheduledPool::wait_idle_timeout) | [`wait_idle_async`](ScheduledPool::wait_idle_async) |
//! | [`wait_released`](ScheduledPool::wait_released) | [`is_released`](ScheduledPool::is_released), and `unended` of `stats` is 0 | [`wait_released_timeout`](ScheduledPool::wait_released_timeout) | [`wait_released_async`](ScheduledPool::wait_released_async) |
//! | [`release`](ScheduledPool::release), then `wait_released` | `release` alone | `release`, then `wait_released_timeout` | [`release_async`](ScheduledPool::release_async), [`release_timeout_async`](ScheduledPool::release_timeout_async) |
//!
//! # Blocking and cost
//! | call | blocks | costs |
//! |---|---|---|
//! | `spawn_after`, `spawn_at`, `spawn_series`, `spawn_retrying`, .. | no; the first call starts the timer thread | one allocation, O(log n), one critical section |
//! | `cancel` | no | O(log n); drops the captures on this thread |
//! | `reset_after`, `reset_at` | no | O(log n), one critical section |
//! | `join` | until the schedule has ended | no CPU time while blocked |
//! | `stats`, `pending` | no | one critical section |
//! | `release` | no | O(n) |
//! | `release_now` | no | O(n log n), and one allocation for each schedule |
//! | `wait_idle`, `wait_released` | yes; fails on the pool's own workers, also as a future | no CPU time while blocked |
//!
//! # When threads cannot be started
//! If the timer thread cannot be started, the call that needed it returns the task. If a task is due, the
//! pool has no worker, and the operating system fails to start one, the timer keeps the task and the tasks
//! after it in order, and retries after 1 ms, 2 ms and so on, up to a second. No task is lost, and cancels
//! and releases apply to these tasks as well. A pool with `min_workers(1)` always has a worker.
//!
//! If a due task needs a new worker, the timer thread starts it and calls the pool's thread gate, if any.
//! The gate and a custom clock are the only user code on the timer thread. A gate that blocks delays every
//! schedule.
//!
//! # When another handle releases the pool
//! A release of the pool also releases the scheduled pool. The releasing thread ends the schedules that
//! are pending or wait for room with [`Released`](pool_core::JoinError::Released). Tasks that the pool has
//! accepted still run, except a task that the timer is submitting at that moment. A reboot of the pool
//! does not reopen the scheduled pool: build another one. The old scheduled pool neither releases the
//! rebooted pool nor waits for its end.
//!
//! # Several pools
//! A scheduled pool can use a `MultiPool`. A due task goes to a pool with a free worker, else to one with
//! room, else to the one with the fewest tasks, and waits for room in that pool only, whereas a submitter
//! waits in all pools. The multi-pool's strategy is user code and is not called.
//!
//! # Panics
//! The pool catches and counts a panic of a task and calls its panic hook; the handle returns the panic. A
//! panic ends a series, except with [`OnPanic::Continue`]. The library itself does not panic on any input.
#![forbid(unsafe_code)]

mod base;
mod body;
mod builder;
mod error;
mod executor;
mod handle;
pub mod internals;
mod life;
mod owner;
mod plan;
mod pool;
mod request;
mod rest;
mod retry;
mod schedule;
mod series;
mod state;
mod stats;
mod task_builder;
mod timer;
mod unstarted;
mod unwind;
mod wait_async;

pub use base::Base;
pub use builder::Builder;
pub use error::{ResetError, ScheduleError};
pub use handle::{ScheduledHandle, SeriesHandle};
pub use plan::Missed;
pub use pool::{ScheduledPool, WeakScheduledPool};
pub use retry::Retry;
pub use series::{OnPanic, Series};
pub use stats::Stats;
pub use task_builder::TaskBuilderExt;
pub use timer::DEFAULT_THREAD_NAME;
pub use unstarted::{Unstarted, UnstartedSchedule, UnstartedTask};

// Compiles and runs the README's examples.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
