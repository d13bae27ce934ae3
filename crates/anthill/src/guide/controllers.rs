//! Controllers: loops that reconcile objects with their desired state.
//!
//! Events come in bursts, and many of them concern the same object. A controller queues the key of the object,
//! not the event. A worker reads the object, compares it with the desired state, and corrects it (a
//! *reconcile loop*). Two workers must not reconcile one object at a time, and an event that arrives meanwhile
//! must not be lost. A [`DedupQueue`](crate::dedup_queue::DedupQueue) is client-go's work queue for that.
//!
//! # A loop
//! ```
//! use anthill::Pool;
//! use anthill::dedup_queue::{DedupRetryQueue, ManualClock};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! let clock = ManualClock::new(); // A program has none: the machine's is the default.
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
//!                 true => key.succeed(),     // Its failures are forgotten.
//!                 false => _ = key.retry(),  // Counted, and tried again after a while.
//!             } // A panic in between drops the guard: the key is done, and can be added again.
//!         }
//!     })?;
//! }
//!
//! queue.add("volume-7")?;
//! queue.add("volume-7")?; // Collapses into the first, or is one more look after it.
//! while attempts.load(Ordering::Relaxed) < 2 {
//!     clock.advance(std::time::Duration::from_secs(1)); // The back-off passes.
//!     std::thread::yield_now();
//! }
//! let drained = queue.drain(); // Refuses adds, waits until nothing is ready and nothing held.
//! assert!(drained.leftovers.is_some_and(|left| left.is_empty()));
//! workers.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What to decide
//! - **How fast it tries again**: a limiter; the default is client-go's, an exponential back-off for
//!   each key and a token bucket for all. Add jitter where many processes fail together.
//! - **When it gives up**: `max_attempts` and `dead_letter`. Never, if not said.
//! - **What `add_after` means for a key that is delayed already**: the earlier time (the default),
//!   the later one, or a debounce, with or without a longest wait.
//! - **What an event does to a key in back-off**: it is tried at once. If that fails it goes back to
//!   wait for the rest of its back-off, and no failure is counted.
//! - **How it ends**: `drain_timeout` from the signal handler's thread. It returns what was left, to
//!   be logged or handed to a successor.
//!
//! Coming from Go: `Done` is the guard's drop, `Forget` and `Done` together are `succeed`,
//! `AddRateLimited` and `Done` together are `retry`.
