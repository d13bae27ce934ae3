//! Things that fall due: a heap of them, and a queue that hands each out when its time has come.
//!
//! [`DelayHeap`] orders values by a time that is a number. It has no clock, no lock and no thread,
//! and needs an allocator only. [`DelayQueue`] puts a clock and a lock around it: many threads and
//! many futures push into it and take out of it, each entry is taken once, and never early.
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
//! queue.close(); // What is in it still comes, at its time.
//! assert_eq!(queue.take()?.value, "first");
//! assert_eq!(queue.take()?.value, "second");
//! assert!(queue.take().unwrap_err().is_closed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # When not to use it
//! - To run something later: `scheduled-pool` does that over this heap.
//! - To survive a restart: everything is in memory.
//! - For points of the wall clock: time is monotonic, and does not jump when a clock is set.
//!
//! # What always holds
//! 1. Nothing is early: what is taken was due by the queue's clock. Times are never rounded
//!    down.
//! 2. Entries of one time come in the order of their pushes and resets.
//! 3. An id finds its own entry or none, however old it is and whatever queue it is from.
//! 4. Nothing is lost: not by a consumer that times out, nor by a future that is dropped before it is ready,
//!    nor by closing, which returns what is left.
//! 5. At most one waiter is on its way to each entry that has fallen due. One that is woken
//!    and takes it leaves it at one wake-up; a future that is woken and dropped has its wake-up
//!    passed on to the next.
//!
//! In a forked child each call that would wait returns `Forked` instead (`wait_idle`: `false`).
//!
//! # Features
//! | feature | default | what it does |
//! |---|---|---|
//! | `std` | yes | `DelayQueue`; without it, `DelayHeap` alone |
//! | `channel` | no | `DelayQueue::channel`: due entries through a crossbeam channel |
//! | `stream` | no | `DelayQueue::stream`: due entries as a `futures_core::Stream` |
//! | `tokio` | no | `TokioClock`: futures are timed by tokio's own timer |
//! | `async-io` | no | `AsyncIoClock`: futures are timed by async-io's own timer |
//!
//! # Where it comes from
//! Java's `DelayQueue` has one thread wait for the head and the others without a time, and passes
//! that duty on along every path; here a clock's alarm is its heir where only futures wait. Java's
//! `ScheduledThreadPoolExecutor` keeps equals in order. The indexed heap with ids that know their
//! generation is the slab of many a timer.
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
pub use sync_shim::{Alarm, Clock, ManualClock, Parker};

// What the README shows is compiled and run.
#[cfg(all(doctest, feature = "std", not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
