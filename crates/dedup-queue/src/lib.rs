//! A work queue of keys, for controllers. A key that is added many times is delivered once, and is
//! held by at most one worker at a time.
//!
//! A key names an object: a file, a row, a customer. The worker that gets the key reads the object
//! and does the necessary work, so adds of the same key can be merged. A key that is added while a
//! worker holds it is delivered once more. These are the semantics of client-go's workqueue, on
//! which Kubernetes' controllers are built.
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
//!                     Err(_) => _ = key.retry(), // With increasing delays.
//!                 }
//!             }
//!         });
//!     }
//!     queue.add("a").unwrap();
//!     queue.add("b").unwrap();
//!     queue.add("a").unwrap(); // Merged, unless a worker already holds `a`.
//!     assert_eq!(queue.drain().outcome, Outcome::Finished);
//! });
//! # fn look_at(_key: &str) -> std::io::Result<()> { Ok(()) }
//! ```
//!
//! # When not to use it
//! - For values that must each be delivered: use a channel. Equal keys are merged here.
//! - For work that must survive a crash: all keys are in memory.
//! - For more than two priorities: there is only [low priority](KeyQueue::low_priority).
//! - For keys that are expensive to clone or compare: each is cloned once when it is added, and
//!   `Eq` runs under the queue's lock. Put an `Arc` around them.
//!
//! # Terms
//! A key's delivery is **pending** now, pending later, or not pending; and the key is **held** by a
//! worker (client-go: processing) or not. A key that is pending now and not held is **ready**
//! (client-go: queued). A key that is pending now and held is **dirty**: it becomes ready when it
//! is released. A key that is pending later is **delayed**, held or not, and **falls due** at its
//! time. A key that is neither pending nor held, but remembered for its **failures**, is
//! **resting**. A **guard** ([`Held`]) represents a key that a worker holds. The worker
//! **releases** the key by dropping the guard, or by reporting how the work ended.
//!
//! # Three layers
//! | type | adds | guards |
//! |---|---|---|
//! | [`DedupQueue`] | `add`, `low_priority`, `get`, `remove`, `wait_idle`, `shut_down`, `drain` | `done` |
//! | [`DedupDelayQueue`] | `add_after`, `add_at`, `remove_delayed` | `retry_after` |
//! | [`DedupRetryQueue`] | `add_rate_limited`, `add_after_backoff`, `failures`, `forget` | `succeed`, `retry`, `retry_failed_after`, `forget` |
//!
//! Each layer has all methods of the layers above it. They are aliases of one type, [`KeyQueue`],
//! with different last parameters, so code for any of them can be generic over [`Layer`].
//!
//! # Guarantees
//! 1. At most one delivery of a key is pending, in addition to the one that a worker holds. At most
//!    one worker holds a key.
//! 2. No key is lost if a worker panics, a `get` times out, or a future or a drain is dropped.
//!    Shutting down returns the remaining keys.
//! 3. No delayed key is early. An `add` makes the key ready at once, and replaces a delay.
//! 4. [`GetError::Closed`] is final.
//! 5. At most one waiting worker is notified for each key that becomes ready, and another one only
//!    if the first was a future that was dropped. In addition, a thread is notified to keep the
//!    time for the others, all waiters are notified when the queue is closed, and futures when no
//!    alarm can be set for them.
//! 6. User code (metrics, limiters, hooks, wakers, drops of keys) runs without the lock, on a
//!    thread that does not count as waiting. So it may wait, even for other workers of the queue.
//!
//! # Calls that wait
//! A `_timeout` takes a `Duration` or an `Instant`, by the queue's clock. An async call returns a future
//! for any runtime.
//!
//! | waits | does not wait | waits for a limited time | async |
//! |---|---|---|---|
//! | [`get`](KeyQueue::get) | [`try_get`](KeyQueue::try_get) | [`get_timeout`](KeyQueue::get_timeout) | [`get_async`](KeyQueue::get_async) |
//! | [`get_batch`](KeyQueue::get_batch) | [`try_get_batch`](KeyQueue::try_get_batch) | [`get_batch_timeout`](KeyQueue::get_batch_timeout) | [`get_batch_async`](KeyQueue::get_batch_async) |
//! | [`wait_idle`](KeyQueue::wait_idle) | `ready`, `held` and `delayed` of [`stats`](KeyQueue::stats) are 0 | [`wait_idle_timeout`](KeyQueue::wait_idle_timeout) | [`wait_idle_async`](KeyQueue::wait_idle_async) |
//! | [`drain`](KeyQueue::drain) | `drain_timeout` with `Duration::ZERO`; [`shut_down`](KeyQueue::shut_down) without the leftovers | [`drain_timeout`](KeyQueue::drain_timeout) | [`drain_async`](KeyQueue::drain_async) |
//!
//! # Blocking and cost
//! | call | blocks | cost |
//! |---|---|---|
//! | `add` | no | one section of the queue's lock; one look-up; a clone of the key |
//! | `get` and variants | until a key is ready | one section, no look-up |
//! | `try_get`, `get_async` | no; the future waits | the same |
//! | releasing a key | no | one section; a removal from the table; O(records), amortised O(1), when few of many keys are left |
//! | `add_after`, `retry`, .. | no | the same and O(log delayed); a reading of the clock |
//! | a key that falls due | | O(log delayed), in the next section, whichever call it belongs to |
//! | `remove`, `failures`, `forget` | no | one section, one look-up |
//! | `stats`, `len` | no | one section |
//! | `entries` | no | a section and a clone of each key, for some dozens of keys at a time |
//! | `drain` | until no key is ready or held | nothing while it sleeps; at its end O(all keys) |
//! | `wait_idle` | until no key is ready, held or delayed | nothing while it sleeps; other calls cannot use short sections during the wait |
//! | `shut_down` | no | one section, O(waiters) |
//!
//! "No" excludes the time that other threads hold the lock. The only user code that runs under the
//! lock is `Eq` of keys, and `Clone` in `entries`. No thread is started, except the clock's alarm
//! if only futures wait for delayed keys. The clock is read only while metrics are on, times are
//! recorded, a key is delayed, or failures may expire.
//!
//! # Panics
//! A panic of a worker releases its key. A panic in a key's `Eq`, `Hash` or `Clone` propagates to
//! the caller and changes nothing. Panics in metrics, in waking and dropping wakers, in dropping
//! alarms, and in dropping a key that an add did not need are caught. A panic in a waker's `clone`
//! propagates from the poll, which has then done nothing. A panic in a limiter, in the dead-letter
//! hook or in the clock propagates to the caller, but a key is released nevertheless. The library
//! itself panics only where a method documents it.
//!
//! # Forks
//! In a forked child, `get` and every other call that would wait for a key return
//! [`GetError::Forked`]. A drain ends with [`Outcome::Forked`] and the remaining keys, and
//! `wait_idle` returns `false` unless the queue is idle. A child should create its own queue.
//!
//! # Features
//! | feature | default | effect |
//! |---|---|---|
//! | `stream` | no | `KeyQueue::stream`: guards as a `futures_core::Stream` |
//!
//! # Origin
//! The dirty and the processing set, the limiters and the metrics come from
//! [client-go](https://github.com/kubernetes/client-go)'s workqueue. `docs/client-go.md` in the
//! repository lists the differences and their reasons.
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
pub use sync_shim::{Alarm, Clock, ManualClock, Parker, Timeout};

// The README's examples are compiled and run.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
