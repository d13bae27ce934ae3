//! Tasks that run later, at a fixed rate, or with a fixed delay.
//!
//! A [`ScheduledPool`](crate::scheduled_pool::ScheduledPool) stands over a pool that you have. One
//! timer thread keeps the time of all schedules and runs none of them: a due task waits for room in
//! the pool's wait queue like any other, so the capacity holds for it too, and a full pool makes it
//! late, not lost.
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
//! assert!(report.cancel()); // At once, and what the closure held is dropped.
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
//! - **Over what**: a `Pool`, or a `MultiPool`, whose pool with a worker free gets what is due.
//! - **Rest**: [`wait_idle`](crate::ScheduledPool::wait_idle) waits until nothing that is due is left to end
//!   and the pool is idle. What is due later is not waited for.
//! - **A quick end**: [`release_now`](crate::ScheduledPool::release_now) gives back what never started, to be
//!   run here or scheduled elsewhere. A [grace period](super::shutdown) before it lets due tasks run.
//! - **Another time**: `reset_after` of a handle moves a pending run, earlier or later, and says if its
//!   time has come first.
