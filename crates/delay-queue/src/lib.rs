//! A heap of values by due time, and a queue whose entries can be taken once they are due.
//!
//! [`DelayHeap`] orders values by a numeric time. It has no clock, lock or thread, and needs only
//! an allocator. [`DelayQueue`] adds a clock and a lock: many threads and many futures push entries
//! and take them. Each entry is taken once, and never early.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use delay_queue::DelayQueue;
//!
//! let queue = DelayQueue::new();
//! let soon = Instant::now() + Duration::from_millis(2);
//! queue.push_at("second", soon)?;
//! let id = queue.push("never mind", Duration::from_millis(1))?;
//! queue.push_at("first", soon - Duration::from_millis(1))?;
//! assert_eq!(queue.cancel(id), Some("never mind"));
//!
//! queue.close(); // Entries that are in the queue can still be taken when due.
//! assert_eq!(queue.take()?.value, "first");
//! assert_eq!(queue.take()?.value, "second");
//! assert!(queue.take().unwrap_err().is_closed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # When not to use it
//! - To run a task later: use `scheduled-pool`.
//! - If entries must survive a restart: use `durable-queue`.
//! - For wall-clock times: time is monotonic, and does not follow changes of the system's clock.
//!
//! # Guarantees
//! 1. No entry is early: a taken entry is due by the queue's clock. Times are never rounded down.
//! 2. Entries with equal times leave in the order of their pushes and resets.
//! 3. An id matches its own entry or none, even if it is old or belongs to another queue.
//! 4. No entry is lost if a consumer times out or a future is dropped before it is ready. Closing
//!    returns the remaining entries or still delivers them.
//! 5. At most one waiter is notified for each due entry. A notified future that is dropped passes
//!    its notification to the next waiter.
//!
//! In a forked child each call that would wait returns `Forked` instead (`wait_idle`: `false`).
//!
//! # Calls that wait
//! A `_timeout` takes a `Duration` or an `Instant`, by the queue's clock. An async call returns a future for any
//! runtime.
//!
//! | waits | does not wait | waits for a limited time | async |
//! |---|---|---|---|
//! | [`push`](DelayQueue::push) | [`try_push`](DelayQueue::try_push) | [`push_timeout`](DelayQueue::push_timeout) | [`push_async`](DelayQueue::push_async) |
//! | [`push_at`](DelayQueue::push_at) | [`try_push_at`](DelayQueue::try_push_at) | [`push_at_timeout`](DelayQueue::push_at_timeout) | [`push_at_async`](DelayQueue::push_at_async) |
//! | [`take`](DelayQueue::take) | [`try_take`](DelayQueue::try_take) | [`take_timeout`](DelayQueue::take_timeout) | [`take_async`](DelayQueue::take_async) |
//! | [`take_many`](DelayQueue::take_many) | [`try_take_many`](DelayQueue::try_take_many) | [`take_many_timeout`](DelayQueue::take_many_timeout) | [`take_many_async`](DelayQueue::take_many_async) |
//! | [`wait_idle`](DelayQueue::wait_idle) | [`is_empty`](DelayQueue::is_empty) | [`wait_idle_timeout`](DelayQueue::wait_idle_timeout) | [`wait_idle_async`](DelayQueue::wait_idle_async) |
//! | `Feeder::stop` | drop the handle: the thread continues | none: it interrupts the thread, which ends at once | none, for the same reason |
//!
//! # Features
//! | feature | default | effect |
//! |---|---|---|
//! | `std` | yes | `DelayQueue`; without it, `DelayHeap` alone |
//! | `channel` | no | `DelayQueue::channel`: due entries through a crossbeam channel |
//! | `stream` | no | `DelayQueue::stream`: due entries as a `futures_core::Stream` |
//! | `tokio` | no | `TokioClock`: futures are timed by tokio's own timer |
//! | `async-io` | no | `AsyncIoClock`: futures are timed by async-io's own timer |
//!
//! # Origin
//! As in Java's `DelayQueue`, one thread waits for the head while the others wait without a
//! time-out. If only futures wait, an alarm of the clock replaces that thread. Entries with equal
//! times keep their order, as in Java's `ScheduledThreadPoolExecutor`.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(feature = "std")]
mod builder;
#[cfg(all(feature = "channel", not(anthill_loom)))]
mod channel;
#[cfg(all(any(feature = "tokio", feature = "async-io"), not(anthill_loom)))]
mod clocks;
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod epoch;
#[cfg(feature = "std")]
mod error;
#[cfg(feature = "std")]
mod expired;
#[cfg(all(feature = "std", any(feature = "channel", anthill_loom)))]
#[doc(hidden)]
pub mod feeder;
mod heap;
#[cfg(feature = "std")]
mod idle;
#[cfg(feature = "std")]
mod lock;
#[cfg(feature = "std")]
mod push;
#[cfg(feature = "std")]
mod queue;
#[cfg(feature = "std")]
mod state;
#[cfg(feature = "stream")]
mod stream;
#[cfg(feature = "std")]
mod take;
#[cfg(feature = "std")]
mod take_many;
#[cfg(feature = "std")]
pub mod wait;
#[cfg(feature = "std")]
mod wait_queue;

#[cfg(all(feature = "channel", not(anthill_loom)))]
pub use self::channel::Feeder;
#[cfg(all(feature = "async-io", not(anthill_loom)))]
pub use self::clocks::AsyncIoClock;
#[cfg(all(feature = "tokio", not(anthill_loom)))]
pub use self::clocks::TokioClock;
#[cfg(feature = "stream")]
pub use self::stream::TakeStream;
#[cfg(feature = "std")]
pub use self::{
    builder::Builder,
    error::{BuildError, PushError, TakeError},
    expired::{Due, Expired, Leftover, Stats, Upcoming},
    idle::WaitIdleFuture,
    push::PushFuture,
    queue::DelayQueue,
    take::TakeFuture,
    take_many::{BATCH_ROOM, TakeManyFuture},
};
pub use heap::{
    CheckedOut, DelayHeap, DrainReady, Entry, EntryId, IntoIter, Iter, NEVER, ReserveError,
};
#[cfg(all(feature = "std", not(anthill_loom)))]
pub use sync_shim::MonotonicClock;
#[cfg(feature = "std")]
pub use sync_shim::{Alarm, Clock, ManualClock, Parker, Timeout};

// The README's examples are compiled and run.
#[cfg(all(doctest, feature = "std", not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
