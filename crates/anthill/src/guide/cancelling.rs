//! Cancelling: taking back what has not started, and asking what runs to stop.
//!
//! A thread cannot be stopped from outside without harm. So a task that runs is *asked*, and ends by
//! itself: it looks now and then, or waits with a token where it would sleep.
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
//!     while !token.wait_timeout(Duration::from_millis(1)) { // A sleep that can be ended.
//!         rounds += 1;
//!     }
//!     rounds
//! })?;
//! let behind = pool.task().cancelled_by(&shutdown).spawn(|| "never run")?;
//! shutdown.cancel();
//! assert!(matches!(poller.join(), Ok(_) | Err(JoinError::Cancelled))); // Stopped, or not begun.
//! assert!(matches!(behind.join(), Err(JoinError::Cancelled)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | who asks | what has not started | what runs |
//! |---|---|---|
//! | [`CancelToken::cancel`](crate::CancelToken::cancel), and so its children | is dropped when its turn comes; a call that waits for room gives up, with its task | is asked |
//! | [`JoinHandle::cancel`](crate::JoinHandle::cancel) | is dropped at once, and its room is free: `true` | is asked: `false` |
//! | [`TaskGroup::cancel`](crate::TaskGroup::cancel) | the same, of all | is asked |
//! | [`TaskGroup::cancel_at`](crate::TaskGroup::cancel_at), when its time has come | the same, of all | is asked |
//! | [`release_now`](crate::Pool::release_now) | is taken out, and counted | is asked |
//! | [`release`](crate::Pool::release), with or without a time limit | runs | is not asked |
//! | [`start_before`](crate::TaskBuilder::start_before) | is not run if it comes too late: [`JoinError::Expired`](crate::JoinError::Expired) | goes on |
//!
//! [`drop_guard`](crate::CancelToken::drop_guard) cancels a token when the code that waits for the tasks
//! goes away, by a return, a `?`, a panic or a dropped future.
//!
//! Code that has no token at hand asks [`current`](crate::current): whatever was cancelled, the task's
//! handle, its group, its tokens or the pool, [`is_cancelled`](crate::Current::is_cancelled) shows it.
//!
//! A [shutdown with a grace period](super::shutdown) lets tasks finish first, and asks the remaining ones to stop
//! when the period is over.
