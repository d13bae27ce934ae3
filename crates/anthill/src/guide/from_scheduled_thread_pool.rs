//! Coming from the crate scheduled-thread-pool.
//!
//! | scheduled-thread-pool | here |
//! |---|---|
//! | `ScheduledThreadPool::new(n)` | `ScheduledPool::new(pool)`, over a [`Pool`](crate::Pool) with `capacity(n)` |
//! | `builder().thread_name_pattern(..)` | `Pool::builder().thread_name(\|slot\| ..)`, or `name(..)` alone; the timer's: `ScheduledPool::builder(pool).thread_name(..)` |
//! | `execute(f)` | `scheduled.pool().submit(f)` |
//! | `execute_after(d, f)` | [`spawn_after(d, f)`](crate::ScheduledPool::spawn_after) |
//! | `execute_at_fixed_rate(first, rate, f)` | [`spawn_at_fixed_rate`](crate::ScheduledPool::spawn_at_fixed_rate) |
//! | `execute_with_fixed_delay(first, delay, f)` | [`spawn_with_fixed_delay`](crate::ScheduledPool::spawn_with_fixed_delay) |
//! | `execute_with_dynamic_delay(first, f)`; `f` returns `Some(delay)` or `None` | [`spawn_self_paced`](crate::ScheduledPool::spawn_self_paced); `Continue(delay)` or `Break(value)` |
//! | `execute_at_dynamic_rate` | the same, less the length of the run |
//! | `JobHandle::cancel` | `cancel` of the handle |
//! | `OnPoolDropBehavior::CompletePendingScheduled`, `DiscardPendingScheduled` | `run_pending(true)`, which is the default; `run_pending(false)` |
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
//! assert_eq!(poll.join()?, 4); // A handle joins, too, and is a future.
//! assert!(renewals.cancel());
//!
//! scheduled.release();
//! scheduled.wait_released()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Differences
//! - **Tasks and time are apart.** There `n` threads keep the time and run the jobs, so `n` long jobs make
//!   all others late. Here one timer thread keeps the time, and due tasks wait for room in the pool
//!   beside everything else that the pool does. Its capacity is what makes them late.
//! - **Workers come and go.** A pool starts threads when there is work; `min_workers(n)` keeps them.
//! - **A late fixed rate skips ticks.** There runs follow one another until they have caught up: that is
//!   `Missed::Burst`.
//! - **A cancel frees at once**: the closure and its place. There the closure stays until it is due.
//! - **A panic ends the series**, here as there; `OnPanic::Continue` goes on.
//! - **Handles are `#[must_use]`.** Dropping one detaches, it does not cancel; for fire and forget say
//!   `drop(scheduled.spawn_after(..)?)`.
