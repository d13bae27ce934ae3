//! Tasks that run later, at a fixed rate, or with a fixed delay.
//!
//! A [`ScheduledPool`](crate::scheduled_pool::ScheduledPool) runs tasks on an existing pool when they are due. One
//! timer thread serves all schedules and runs no tasks. Due tasks wait for room in the pool's wait queue, so the
//! pool's capacity applies to them, and a full pool delays them.
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
//! // At a fixed rate. Ticks that pass while the previous run is still running are missed.
//! let grid = Series::at_fixed_rate(Duration::from_millis(1)).missed(Missed::Skip);
//! let lease = scheduled.spawn_series(Duration::ZERO, &grid, || ())?;
//! // With a fixed delay between the end of a run and the start of the next.
//! let sweep = scheduled.spawn_with_fixed_delay(Duration::ZERO, Duration::from_millis(1), || ())?;
//! while lease.runs() < 3 || sweep.runs() < 3 {
//!     std::thread::yield_now();
//! }
//!
//! scheduled.release(); // Ends the series. The pool is released after the pending one-shot tasks have run.
//! scheduled.wait_released()?;
//! assert!(pool.is_released());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Options
//! - **Rate or delay.** Use a fixed rate for work that must keep up with the clock (renewing a lease, sampling),
//!   and a fixed delay for work that must leave pauses (sweeping, polling).
//! - **Missed ticks** are skipped (`Missed::Skip`, the default), made up for one after another (`Burst`), or the
//!   later ticks are shifted (`Delay`).
//! - **A panic** ends a series, unless it has `OnPanic::Continue`. A join of the handle returns the panic.
//! - **End of a series**: after `max_runs`, when the closure of `spawn_series_until` returns
//!   `ControlFlow::Break`, or when the handle or a token cancels it. The closure of `spawn_self_paced` also
//!   returns the delay to the next run. [`spawn_retrying`](super::retrying) runs a task until it succeeds.
//! - **Name and token**: [`task()`](crate::ScheduledPool::task).
//! - **Another time**: `reset_after` of a handle moves a pending run earlier or later. It returns an error if the
//!   run is already due.
//! - **Multi-pools**: a `MultiPool` runs due tasks in a member with a free worker.
//! - **Cron patterns** need a [`DurableQueue`](super::durable).
//!
//! # Computers that sleep
//! All delays use the monotonic clock of the operating system. It does not jump when the wall clock is set. On Linux and
//! macOS it stands still while the computer is suspended, so a task that is due in an hour runs an hour after the
//! resumption; on Windows it continues. On Linux, this clock counts the suspended time, too. It looks at least every
//! 20 ms, because a sleeping thread is not told of a resumption:
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use anthill::delay_queue::{Alarm, Clock, MonotonicClock, Parker};
//! use anthill::{Pool, ScheduledPool};
//! use std::task::Waker;
//! use std::time::{Duration, Instant};
//!
//! #[derive(Clone, Debug)]
//! struct BootTime(Instant, Duration); // A time of both clocks.
//!
//! fn boot_time() -> Duration {
//!     let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
//!     // SAFETY: the pointer is valid during the call.
//!     unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
//!     Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
//! }
//!
//! impl Clock for BootTime {
//!     fn now(&self) -> Instant {
//!         self.0 + (boot_time() - self.1)
//!     }
//!     fn park_until(&self, parker: &Parker, when: Instant) -> bool {
//!         while self.now() < when {
//!             let look = (when - self.now()).min(Duration::from_millis(20));
//!             if MonotonicClock.park_until(parker, Instant::now() + look) {
//!                 return true;
//!             }
//!         }
//!         false
//!     }
//!     fn wake_at(&self, _: Instant, _: Waker) -> std::io::Result<Alarm> {
//!         Err(std::io::ErrorKind::Unsupported.into()) // Threads only: no timed futures.
//!     }
//! }
//!
//! let clock = BootTime(Instant::now(), boot_time());
//! let scheduled = ScheduledPool::new(Pool::builder().capacity(2).clock(clock).build()?);
//! assert_eq!(scheduled.spawn_after(Duration::from_millis(1), || "due")?.join()?, "due");
//! # }
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # Waiting and releasing
//! - [`wait_idle`](crate::ScheduledPool::wait_idle) waits until all due tasks have ended and the pool is idle. It
//!   does not wait for tasks that are due later.
//! - `release` ends series and keeps pending one-shot tasks. With `run_pending(false)` on the builder it drops
//!   pending tasks; with `continue_series(true)` series continue until they are cancelled.
//! - [`release_now`](crate::ScheduledPool::release_now) returns the schedules that have not started. The program can
//!   run them or schedule them elsewhere. A [grace period](super::shutdown) before it lets due tasks run.
