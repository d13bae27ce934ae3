//! Cancelling tasks: removing unstarted ones, and asking running ones to stop.
//!
//! A thread cannot be stopped safely from outside. So a running task is *asked* to stop. It checks a token
//! periodically, or waits on the token instead of sleeping, and returns.
//!
//! ```
//! use anthill::{CancelToken, JoinError, Pool};
//! use std::time::Duration;
//!
//! let pool = Pool::builder().capacity(1).queue_depth(1).build()?;
//! let shutdown = CancelToken::new();
//! let token = shutdown.clone();
//! let poller = pool.task().name("poller").cancelled_by(&shutdown).spawn(move || {
//!     let mut rounds = 0_u64;
//!     while !token.wait_timeout(Duration::from_millis(1)) { // An interruptible sleep.
//!         rounds += 1;
//!     }
//!     rounds
//! })?;
//! let behind = pool.task().cancelled_by(&shutdown).spawn(|| "never run")?;
//! shutdown.cancel();
//! assert!(matches!(poller.join(), Ok(_) | Err(JoinError::Cancelled))); // Stopped, or not started.
//! assert!(matches!(behind.join(), Err(JoinError::Cancelled)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | call | unstarted task | running task |
//! |---|---|---|
//! | [`CancelToken::cancel`](crate::CancelToken::cancel), also of a parent token | is dropped when a worker reaches it; a call that waits for room returns its task | is asked to stop |
//! | [`JoinHandle::cancel`](crate::JoinHandle::cancel) | is dropped at once and frees its room; returns `true` | is asked to stop; returns `false` |
//! | [`TaskGroup::cancel`](crate::TaskGroup::cancel) | is dropped at once | is asked to stop |
//! | [`TaskGroup::cancel_at`](crate::TaskGroup::cancel_at), at the deadline | is dropped at once | is asked to stop |
//! | [`release_now`](crate::Pool::release_now) | is removed and counted | is asked to stop |
//! | [`release`](crate::Pool::release), with or without a time limit | runs | continues |
//! | [`start_before`](crate::TaskBuilder::start_before) | is not run after the deadline: [`JoinError::Expired`](crate::JoinError::Expired) | continues |
//!
//! [`drop_guard`](crate::CancelToken::drop_guard) cancels a token when the guard is dropped, whether by a
//! return, a `?`, a panic or a dropped future.
//!
//! A task without a token calls [`current()`](crate::current)`.`[`is_cancelled()`](crate::Current::is_cancelled).
//! It returns `true` if the task was asked to stop by its handle, its group, one of its tokens, or
//! `release_now`.
//!
//! A [shutdown with a grace period](super::shutdown) waits for the tasks first, then asks the remaining tasks to
//! stop.
