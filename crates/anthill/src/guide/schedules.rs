//! Tasks that run later, at a fixed rate, or with a fixed delay.
//!
//! A [`ScheduledPool`](crate::scheduled_pool::ScheduledPool) schedules tasks of an existing pool. One timer
//! thread keeps the time of all schedules and runs no tasks. A due task waits for room in the pool's wait
//! queue, so the capacity applies to it as well. A full pool delays the task.
//!
//! ```
//! use anthill::Pool;
//! use anthill::scheduled_pool::{Missed, ScheduledPool, Series};
//! use std::time::Duration;
//!
//! let pool = Pool::builder().capacity(2).build()?;
//! let scheduled = ScheduledPool::new(pool.clone());
//!
//! let value = scheduled.spawn_after(Duration::from_millis(1), || 7)?;
//! assert_eq!(value.join()?, 7);
//!
//! let report = scheduled.spawn_after(Duration::from_secs(3600), || println!("an hour"))?;
//! assert!(report.cancel()); // Drops the closure at once.
//!
//! // At a fixed rate: runs keep to a grid. A run that lasts longer makes the next ticks missed.
//! let grid = Series::at_fixed_rate(Duration::from_millis(1)).missed(Missed::Skip);
//! let lease = scheduled.spawn_series(Duration::ZERO, &grid, || ())?;
//! // With a fixed delay: each run begins so long after the end of the one before.
//! let sweep = scheduled.spawn_with_fixed_delay(Duration::ZERO, Duration::from_millis(1), || ())?;
//! while lease.runs() < 3 || sweep.runs() < 3 {
//!     std::thread::yield_now();
//! }
//!
//! scheduled.release(); // Series end, one-shots still come, then the pool is released.
//! scheduled.wait_released()?;
//! assert!(pool.is_released());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`task()`](crate::ScheduledPool::task) gives a task or a series a name, and a token that cancels it.
//!
//! # What to decide
//! - **Rate or delay.** A rate for what must keep up with the clock (a lease, a sample); a delay for
//!   what must leave pauses (a sweep, a poll).
//! - **Missed ticks**: `Skip` them (the default), run them all at once one after another (`Burst`),
//!   or begin a new grid from the late run (`Delay`).
//! - **A panic** stops a series, unless it has `OnPanic::Continue`. A join of its handle returns it.
//! - **The release**: `run_pending(false)` drops one-shots that are not due; `continue_series(true)`
//!   goes on until they are cancelled.
//! - **Its end**: `max_runs`, or the task itself. The closure of `spawn_series_until` returns a
//!   `ControlFlow`; that of `spawn_self_paced` also names the delay to its next run. A task that may fail
//!   is tried again by [`spawn_retrying`](crate::ScheduledPool::spawn_retrying), with a back-off.
//! - **The pool**: a `Pool`, or a `MultiPool`, which runs due tasks in a member with a free worker.
//! - **Rest**: [`wait_idle`](crate::ScheduledPool::wait_idle) waits until all due tasks have ended and the pool is
//!   idle. It does not wait for tasks that are due later.
//! - **A quick end**: [`release_now`](crate::ScheduledPool::release_now) returns the schedules that have not
//!   started, to be run here or scheduled elsewhere. A [grace period](super::shutdown) before it lets due tasks
//!   run.
//! - **Another time**: `reset_after` of a handle moves a pending run earlier or later, and returns an error if
//!   the run is already due.
