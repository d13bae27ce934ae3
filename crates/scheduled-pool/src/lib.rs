//! Tasks that a pool runs later, at a fixed rate, or with a fixed delay.
//!
//! A [`ScheduledPool`] runs its tasks in a [`pool_core::Pool`]. One timer thread sleeps until the
//! earliest schedule is due, and submits it to the pool. If the pool is full the task waits for room
//! in the same queue as threads and futures. The timer thread runs no task.
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
//!     Duration::ZERO,            // The first run, from now.
//!     Duration::from_millis(1),  // From tick to tick, however long a run takes.
//!     || println!("renew the lease"),
//! )?;
//! let value = scheduled.spawn_after(Duration::from_millis(3), || 7)?.join()?;
//! assert_eq!(value, 7);
//! assert!(series.cancel());
//!
//! scheduled.release(); // Takes no more, and releases the pool when nothing is left.
//! scheduled.wait_released()?;
//! assert!(pool.is_released());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # When not to use it
//! - For calendars ("every Monday at nine"): it knows delays and points of monotonic time, which
//!   neither jump with the wall clock nor follow it.
//! - For values that fall due, rather than tasks to be run: that is `delay-queue`.
//! - For schedules that survive a restart: everything is in memory.
//!
//! # What always holds
//! 1. Nothing runs early: a run begins when `now >= due` by the pool's clock.
//! 2. A series never overlaps with itself. Lateness counts from the due time: a fixed rate keeps
//!    to its grid however late a run comes.
//! 3. A pending schedule is not in flight: `wait_idle` ignores it. A due one joins the pool's one
//!    wait queue, first come, first served; `max_waiting` and `nonblocking` do not concern it.
//! 4. Cancelling is O(log n), amortised, and frees at once: the closure, the entry in the heap, the
//!    place in the wait queue. The heap's memory is given back when less than a quarter of it is in use,
//!    but for what lies before a schedule that stays. Either the cancel or the run wins, never both, never neither.
//! 5. Every accepted schedule ends, and its handle says how.
//! 6. No arithmetic overflows: a time too far away to express is never, and delays no other.
//!
//! # The words
//! A **schedule** is a task with a time: one run, or a **series** of them. It is **pending** until
//! it is **due**; then it waits for room, or runs. The runs of a series at a fixed rate are due at
//! **ticks**; a tick is **missed** if the run before, waiting or running, has not ended at it. The
//! other words are those of [`pool_core`].
//!
//! # What blocks, and what it costs
//! | call | blocks | costs |
//! |---|---|---|
//! | `spawn_after`, `spawn_at`, `spawn_series`, `spawn_retrying`, .. | no; the first starts the timer thread | one allocation, O(log n), one critical section |
//! | `cancel` | no | O(log n); drops the captures here |
//! | `reset_after`, `reset_at` | no | O(log n), one critical section |
//! | `join` | until the end | nothing while it sleeps |
//! | `stats`, `pending` | no | one critical section |
//! | `release` | no | O(n) |
//! | `release_now` | no | O(n log n), and a box for each schedule; gives them back |
//! | `wait_idle`, `wait_released` | yes; refused on an own worker | nothing while it sleeps |
//!
//! # If there are no threads
//! If the timer thread cannot be started, the call that needed it returns the task. If a task falls
//! due, the pool has no worker at all, and the operating system refuses to start one, the timer
//! holds the task and those after it, in order, and tries again after a millisecond, then two, up
//! to a second. Nothing is lost; cancels and releases find it. In a pool with `min_workers(1)` this
//! cannot happen.
//!
//! If a due task needs a new worker, the timer thread starts it, and calls the pool's thread gate, if
//! there is one. Beside a clock of your own that is the one piece of user code on the timer thread. A
//! gate that blocks delays every schedule.
//!
//! # If the pool is released elsewhere
//! Another handle of the pool may release it. Then the scheduled pool is released too, what is pending or waits for room ends with [`Released`](pool_core::JoinError::Released) at
//! once, on the thread that released the pool, and what the pool has accepted still runs, unless it
//! is being offered at that very moment. A reboot of the pool does not bring the scheduled pool
//! back: make another one. Nor does the old one touch the rebooted pool: it neither releases it nor
//! waits for its end.
//!
//! # Several pools
//! It stands over a `MultiPool` as well. A due task goes to a pool that has a
//! worker free, or room, or the fewest tasks, and waits there if need be: in one pool's wait queue, where
//! a submitter stands in all of them. The pools' strategy, which is user code, is not asked.
//!
//! # Panics
//! As in the pool: caught, counted, shown to its panic hook, given to the handle. A panic ends a
//! series, unless [`OnPanic`] says otherwise. The library panics on no input.
#![forbid(unsafe_code)]

mod base;
mod body;
mod builder;
mod error;
mod executor;
mod handle;
pub mod internals;
mod life;
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

// What the README shows is compiled and run.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
