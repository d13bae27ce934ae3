//! Controllers: loops that reconcile objects with their desired state.
//!
//! Events come in bursts, and many of them concern the same object. So a controller queues the object's key
//! instead of the event. A worker reads the object, compares it with the desired state, and corrects it. Two
//! workers must not reconcile the same object at a time, and an event that arrives during a reconciliation must
//! not be lost. A [`DedupQueue`](crate::dedup_queue::DedupQueue) guarantees both, like client-go's work queue.
//!
//! # Example
//! ```
//! use anthill::Pool;
//! use anthill::dedup_queue::{DedupRetryQueue, ManualClock};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! let clock = ManualClock::new(); // For the example. By default, the queue uses the system's clock.
//! let queue = DedupRetryQueue::<&str>::builder().clock(clock.clone()).build();
//! let attempts = Arc::new(AtomicU32::new(0));
//! let reconcile = {
//!     let attempts = Arc::clone(&attempts);
//!     move |_name: &str| attempts.fetch_add(1, Ordering::Relaxed) > 0 // Fails once.
//! };
//!
//! let workers = Pool::builder().capacity(2).build()?;
//! for _ in 0..2 {
//!     let (queue, reconcile) = (queue.clone(), reconcile.clone());
//!     workers.submit(move || {
//!         while let Ok(key) = queue.get() {
//!             match reconcile(*key) {
//!                 true => key.succeed(),     // Resets the failure count.
//!                 false => _ = key.retry(),  // Counts the failure and retries after a back-off.
//!             } // A panic drops the guard, so the key can be added again.
//!         }
//!     })?;
//! }
//!
//! queue.add("volume-7")?;
//! queue.add("volume-7")?; // Merged with the first add, or delivered once more if that one has started.
//! while attempts.load(Ordering::Relaxed) < 2 {
//!     clock.advance(std::time::Duration::from_secs(1)); // The back-off passes.
//!     std::thread::yield_now();
//! }
//! let drained = queue.drain(); // Refuses adds, and waits until no key is ready or held.
//! assert!(drained.leftovers.is_some_and(|left| left.is_empty()));
//! workers.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Settings
//! - **Back-off**: a rate limiter. The default is client-go's: an exponential back-off per key and a token
//!   bucket over all keys. Add jitter if many processes fail at the same time.
//! - **Giving up**: `max_attempts` and `dead_letter`. By default a key is retried for ever.
//! - **`add_after` for a key that is already delayed**: the earlier time wins (the default), the later time
//!   wins, or the delay restarts (debounce), with or without a maximum wait.
//! - **Shutdown**: `drain_timeout` returns the keys that are left, to be logged or handed to a successor.
//!
//! An `add` of a key in back-off delivers the key at once. If that attempt fails, the key waits for the rest of
//! its back-off, and the failure is not counted.
//!
//! [`from_client_go`](super::from_client_go) maps the calls of client-go to this queue.
