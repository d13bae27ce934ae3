//! Migrating from the crate scheduled-thread-pool.
//!
//! | scheduled-thread-pool | anthill |
//! |---|---|
//! | `ScheduledThreadPool::new(n)` | `ScheduledPool::new(pool)`, over a [`Pool`](crate::Pool) with `capacity(n)` |
//! | `builder().thread_name_pattern(..)` | `Pool::builder().name(..)`, or `thread_name(\|slot\| ..)`; for the timer thread `ScheduledPool::builder(pool).thread_name(..)` |
//! | `execute(f)` | `scheduled.pool().submit(f)` |
//! | `execute_after(d, f)` | [`spawn_after(d, f)`](crate::ScheduledPool::spawn_after) |
//! | `execute_at_fixed_rate(first, rate, f)` | [`spawn_at_fixed_rate`](crate::ScheduledPool::spawn_at_fixed_rate) |
//! | `execute_with_fixed_delay(first, delay, f)` | [`spawn_with_fixed_delay`](crate::ScheduledPool::spawn_with_fixed_delay) |
//! | `execute_with_dynamic_delay(first, f)`; `f` returns `Some(delay)` or `None` | [`spawn_self_paced`](crate::ScheduledPool::spawn_self_paced); `Continue(delay)` or `Break(value)` |
//! | `execute_at_dynamic_rate` | the same, minus the duration of the run |
//! | `JobHandle::cancel` | `cancel` of the handle |
//! | `OnPoolDropBehavior::CompletePendingScheduled`, `DiscardPendingScheduled` | `run_pending(true)` (the default), `run_pending(false)` |
//!
//! ```
//! use anthill::{Pool, ScheduledPool};
//! use std::ops::ControlFlow::{Break, Continue};
//! use std::time::Duration;
//!
//! let scheduled = ScheduledPool::new(Pool::builder().capacity(2).build()?);
//! let ms = Duration::from_millis(1);
//!
//! let renewals = scheduled.spawn_at_fixed_rate(Duration::ZERO, ms, || println!("renew"))?;
//! // execute_with_dynamic_delay
//! let mut tries = 0;
//! let poll = scheduled.spawn_self_paced(Duration::ZERO, move || {
//!     tries += 1;
//!     if tries < 4 { Continue(tries * ms) } else { Break(tries) }
//! })?;
//! assert_eq!(poll.join()?, 4); // A handle can be joined or awaited.
//! assert!(renewals.cancel());
//!
//! scheduled.release();
//! scheduled.wait_released()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Differences
//! - **Timer and workers are separate.** scheduled-thread-pool's threads both keep the time and run the jobs. Here a
//!   timer thread keeps the time, and due tasks wait for room in the pool like other tasks of the pool.
//! - **Workers start on demand and end when idle.** `min_workers(n)` keeps n of them.
//! - **A late fixed rate skips ticks.** scheduled-thread-pool makes up for them, like `Missed::Burst`.
//! - **`cancel` drops the closure at once.** scheduled-thread-pool keeps it until it is due.
//! - **A panic ends the series** in both; with `OnPanic::Continue` the series continues.
//! - **Handles are `#[must_use]`.** Dropping a handle detaches its task and does not cancel it. To ignore a handle,
//!   write `drop(scheduled.spawn_after(..)?)`.
