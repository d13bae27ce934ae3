//! A work queue of keys: each is delivered once however often it was added, and is never with two
//! workers at a time.
//!
//! What is queued is not work but the name of something to look at: a file, a row, a customer. A
//! worker that gets the name looks, and does what is to be done. So it does not matter how often
//! the name was added meanwhile; and if it is added while a worker is at it, it comes once more.
//! Those are the semantics of client-go's workqueue, which Kubernetes' controllers are made with.
//!
//! ```
//! use dedup_queue::{DedupRetryQueue, Outcome};
//! use std::thread;
//!
//! let queue = DedupRetryQueue::<&str>::new();
//! thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| {
//!             while let Ok(key) = queue.get() {
//!                 match look_at(&key) {
//!                     Ok(()) => key.succeed(),
//!                     Err(_) => _ = key.retry(), // Later, and later each time.
//!                 }
//!             }
//!         });
//!     }
//!     queue.add("a").unwrap();
//!     queue.add("b").unwrap();
//!     queue.add("a").unwrap(); // Merged, unless a worker has it already.
//!     assert_eq!(queue.drain().outcome, Outcome::Finished);
//! });
//! # fn look_at(_key: &str) -> std::io::Result<()> { Ok(()) }
//! ```
//!
//! # When not to use it
//! - For values that must each be delivered: a channel. Here two equal keys are one.
//! - For work that must survive a crash: everything is in memory.
//! - For more than two priorities: keys come in the order in which they became ready, but for those of
//!   [low priority](KeyQueue::low_priority).
//! - For keys that are dear to clone or compare: each is cloned once when it is added, and `Eq`
//!   runs under the queue's lock. Put an `Arc` around them.
//!
//! # The words
//! A delivery of a key is **pending** now, or later, or not at all; and a worker **holds** the key
//! (client-go: it is processing), or none does. Pending now and not held, it is **ready** (client-go:
//! queued); pending now and held, **dirty**: it is ready again when it is let go. Pending later, it is
//! **delayed**, held or not, and **falls due**. Neither pending nor held, but remembered for its
//! **failures**, it **rests**. A **guard** ([`Held`]) is a key in a worker's
//! hands. To **let go** is to drop it, or to say how the work went.
//!
//! # Three layers
//! | type | adds | guards |
//! |---|---|---|
//! | [`DedupQueue`] | `add`, `low_priority`, `get`, `remove`, `wait_idle`, `shut_down`, `drain` | `done` |
//! | [`DedupDelayQueue`] | `add_after`, `add_at`, `remove_delayed` | `retry_after` |
//! | [`DedupRetryQueue`] | `add_rate_limited`, `add_after_backoff`, `failures`, `forget` | `succeed`, `retry`, `retry_failed_after`, `forget` |
//!
//! Each has everything of those above it. They are one type, [`KeyQueue`], with another last
//! parameter, so code for any of them is generic over [`Layer`].
//!
//! # What always holds
//! 1. At most one delivery of a key is pending, beside the one that a worker has. A key is with one
//!    worker at most.
//! 2. No key is lost: not by a worker that panics, a `get` that times out, a future or a drain that is
//!    dropped, nor by shutting down, which returns what is left.
//! 3. Nothing delayed is early, and an `add` is never late: it means now, and absorbs a delay.
//! 4. [`GetError::Closed`] is final.
//! 5. At most one waiting worker is woken for each key that becomes ready; another one only if that
//!    was a future which was dropped. Besides, a thread is woken to keep the time for the others, all
//!    are when the queue is closed, and futures when no alarm can be set for them.
//! 6. What runs of users' code (metrics, limiters, hooks, wakers, drops of keys) runs without the lock,
//!    on a thread that does not count as waiting. So it may wait, also for other workers of the queue.
//!
//! # What blocks, and what it costs
//! | call | blocks | costs |
//! |---|---|---|
//! | `add` | no | one section of the queue's lock; one look-up; a clone of the key |
//! | `get` and its kin | until a key is ready | one section, no look-up |
//! | `try_get`, `get_async` | no; the future waits | the same |
//! | letting go | no | one section; a removal from the table; O(records), amortised O(1), when few of many keys are left |
//! | `add_after`, `retry`, .. | no | the same and O(log delayed); a reading of the clock |
//! | what falls due | | O(log delayed) for each, in the next section, whichever call it is |
//! | `remove`, `failures`, `forget` | no | one section, one look-up |
//! | `stats`, `len` | no | one section |
//! | `entries` | no | a section and a clone of each key, for some dozens of keys at a time |
//! | `drain` | until nothing is ready or held | nothing while it sleeps; at its end O(all keys) |
//! | `wait_idle` | until nothing is ready, held or delayed | nothing while it sleeps; meanwhile no section is a short one |
//! | `shut_down` | no | one section, O(who waits) |
//!
//! "No" means: for no longer than others hold the lock, and none of them holds it while it runs
//! user code other than `Eq` of keys, and `Clone` in `entries`. No thread is started, but for the clock's alarm where only
//! futures wait for delayed keys. The clock is read only while metrics are on or times are noted, or
//! something is delayed, or failures may expire.
//!
//! # Panics
//! A panic of a worker lets its key go. A panic in a key's `Eq`, `Hash` or `Clone` changes nothing,
//! and comes out of the call. Panics in metrics, in waking and dropping wakers, in dropping alarms, and in
//! dropping a key that an add did not need are caught; one in a waker's `clone` comes out of the poll,
//! before that has done anything. One in a limiter or in the dead-letter hook comes out of the call that
//! asked, and so does one of the clock, but a key is let go all the same. The library itself panics only
//! where a method says so.
//!
//! # Forks
//! In a process that was forked after a queue was made, `get` and every other call that would wait for a key
//! return [`GetError::Forked`]. A drain ends with [`Outcome::Forked`] and what is left, and `wait_idle`
//! returns `false` unless the queue is idle. Such a process makes a queue of its own.
//!
//! # Features
//! | feature | default | what it does |
//! |---|---|---|
//! | `stream` | no | `KeyQueue::stream`: guards as a `futures_core::Stream` |
//!
//! # Where it comes from
//! [client-go](https://github.com/kubernetes/client-go)'s workqueue: the dirty and the processing
//! set, the limiters, the metrics. What differs, case by case, and why, is in `docs/client-go.md` of
//! the repository. Guards, leftovers, expiry and the one lock for all of it are ours.
#![forbid(unsafe_code)]

mod add;
mod builder;
mod core;
mod drain;
mod drain_waiters;
mod entries;
mod error;
mod fail;
mod finish;
mod get;
mod held;
mod idle;
mod keys;
mod layer;
mod limiter;
mod lock;
mod low;
mod metrics;
mod policy;
mod queue;
mod recording;
mod records;
mod slab;
mod state;
#[cfg(feature = "stream")]
mod stream;

pub use builder::{Builder, DEFAULT_FAILURE_EXPIRY, controller_limiter};
pub use core::{Hasher, Key};
pub use drain::{Delayed, DrainFuture, Drained, Leftovers, StillHeld};
pub use entries::{Entries, Entry};
pub use error::{GetError, ShutDown};
pub use get::GetFuture;
pub use held::Held;
pub use layer::{Delaying, Delays, Layer, Plain, Retries, Retrying};
pub use limiter::{
    Exponential, FastSlow, Jitter, Jittered, MaxOf, RateLimiter, TokenBucket, WithMaxWait,
};
pub use low::LowPriority;
pub use metrics::Metrics;
pub use policy::{Added, Outcome, Pending, Policy, Retried};
pub use queue::{DedupDelayQueue, DedupQueue, DedupRetryQueue, KeyQueue, Stats};
pub use recording::{BUCKETS, Figures, Histogram, RecordingMetrics};
#[cfg(feature = "stream")]
pub use stream::GetStream;
#[cfg(not(anthill_loom))]
pub use sync_shim::MonotonicClock;
pub use sync_shim::{Clock, ManualClock};

// What the README shows is compiled and run.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
