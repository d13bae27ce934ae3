//! Migrating from client-go's workqueue, controller-runtime, or kube's `Controller`.
//!
//! # client-go, controller-runtime
//! | client-go | anthill |
//! |---|---|
//! | `NewTypedRateLimitingQueue(limiter)` | [`DedupRetryQueue::new()`](crate::dedup_queue::KeyQueue::new), with client-go's limiter; `builder().limiter(..)` |
//! | `Add`, `AddAfter` | `add`, `add_after` |
//! | `Get`, then `defer Done(key)` | `get`, which returns a guard; dropping the guard is the `Done` |
//! | `Forget(key)` and `Done(key)` | [`succeed`](crate::dedup_queue::Held::succeed) |
//! | `AddRateLimited(key)` and `Done(key)` | [`retry`](crate::dedup_queue::Held::retry) |
//! | `AddRateLimited(key)` for an event, without a `Get` | [`add_rate_limited`](crate::dedup_queue::KeyQueue::add_rate_limited). Unlike client-go's it costs nothing while the key waits already: events neither lengthen a back-off nor use up the bucket that all keys share |
//! | `AddAfter(key, d)` and `Done(key)` | [`retry_after`](crate::dedup_queue::Held::retry_after); after a failure, `retry_failed_after` |
//! | `NumRequeues(key)` | `failures` |
//! | `Result{RequeueAfter: d}` | `retry_after(d)` |
//! | priority queue: `LowPriority` (-100) for resyncs and the initial list | [`low_priority()`](crate::dedup_queue::KeyQueue::low_priority)`.add(key)` |
//! | a resync of a key in back-off | [`add_after_backoff`](crate::dedup_queue::KeyQueue::add_after_backoff), which causes no additional attempt |
//! | `Len`, metrics | `len`, `stats`; `metrics(..)` with client-go's metric names |
//! | (no listing of the keys) | [`entries`](crate::dedup_queue::KeyQueue::entries) |
//! | `ShutDown`, `ShutDownWithDrain` | `shut_down`; `drain`, `drain_timeout`, which return the keys that are left |
//! | `MaxConcurrentReconciles` | the number of workers |
//! | `ParallelizeUntil` | [`for_each`](crate::for_each) on a pool, below |
//!
//! # kube
//! | kube | anthill |
//! |---|---|
//! | `Controller::run(reconcile, error_policy, ctx)` | your own loop, as below |
//! | `Action::await_change()` | `succeed()` |
//! | `Action::requeue(d)` from `reconcile` | `retry_after(d)` |
//! | `Action::requeue(d)` from `error_policy` | `retry()`, with the queue's back-off; or `retry_failed_after(d)` |
//! | `scheduler`, which keeps the earlier of two times | `Policy::Earliest`, the default |
//! | `Config::debounce(d)` | `Policy::Debounce`, `Policy::DebounceMaxWait` |
//! | `Config::concurrency(n)` | `n` workers |
//! | `graceful_shutdown_on` | `drain_timeout`, `drain_async` |
//! | watches, stores, owners | not provided: use kube's `watcher` and `reflector` to fill the queue |
//!
//! ```
//! use anthill::dedup_queue::{DedupRetryQueue, Held, ManualClock, Retrying};
//! use std::time::Duration;
//!
//! enum Failure {
//!     Later(Duration), // "429, Retry-After"
//!     Other,
//! }
//!
//! fn reconcile(key: &str, failures: u32) -> Result<Option<Duration>, Failure> {
//!     match (key, failures) {
//!         ("busy", 0) => Err(Failure::Later(Duration::from_secs(30))),
//!         ("broken", 0..=2) => Err(Failure::Other),
//!         ("lease", _) => Ok(Some(Duration::from_secs(10))), // Renew it then.
//!         _ => Ok(None),
//!     }
//! }
//!
//! fn work(key: Held<'_, &'static str, Retrying>) {
//!     match reconcile(&key, key.failures()) {
//!         Ok(None) => key.succeed(),
//!         Ok(Some(delay)) => {
//!             key.forget();
//!             key.retry_after(delay);
//!         }
//!         Err(Failure::Later(delay)) => _ = key.retry_failed_after(delay),
//!         Err(Failure::Other) => _ = key.retry(),
//!     }
//! }
//!
//! let clock = ManualClock::new(); // For the example. By default, the queue uses the system's clock.
//! let queue = DedupRetryQueue::<&str>::builder().clock(clock.clone()).build();
//! for key in ["busy", "broken", "lease", "fine"] {
//!     queue.low_priority().add_after_backoff(key)?; // For the initial list, and for resyncs.
//! }
//! queue.add("fine")?; // For an event. It is delivered first.
//! assert_eq!(*queue.try_get()?, "fine");
//! for _ in 0..30 {
//!     while let Ok(key) = queue.try_get() {
//!         work(key);
//!     }
//!     clock.advance(Duration::from_secs(1));
//! }
//! let waiting: Vec<&str> = queue.entries().map(|entry| entry.key).collect();
//! assert_eq!(waiting.len(), 2, "`busy` and `lease` are delayed: {waiting:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # `ParallelizeUntil`
//! [`for_each`](crate::for_each) calls a function with each item on a pool's workers and waits for all calls.
//! `try_for_each` stops at the first error, so a function that checks a token can stop it, like a cancelled
//! context. A panic stops it, too, and is returned as a [`MapError`](crate::MapError). For functions that borrow,
//! use a [scope](super::scopes).
//!
//! ```
//! use anthill::{CancelToken, Pool};
//! use anthill::prelude::*;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! let pool = Pool::builder().capacity(4).build()?;
//! let (stop, sum) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
//! let (stopped, total) = (stop.clone(), Arc::clone(&sum));
//! pool.try_for_each(0..100, move |piece| {
//!     if stopped.is_cancelled() {
//!         return Err(std::io::Error::other("cancelled"));
//!     }
//!     total.fetch_add(piece, Ordering::Relaxed);
//!     Ok(())
//! })?;
//! assert_eq!(sum.load(Ordering::Relaxed), 4950);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Differences
//! - **The guard ends the delivery.** A panic, an early `return` or a `?` drops the guard, which releases the key
//!   and leaves its failure count unchanged. Call `succeed` or `retry` to change the count.
//! - **An `add` of a key in back-off** delivers the key at once. If that attempt fails, it is not counted, so
//!   events do not lengthen the back-off. client-go counts it.
//! - **Failure counts expire** after an hour without activity (`failure_expiry`). client-go keeps them until
//!   `Forget`.
//! - **An `add` absorbs a delay**: `add` followed by `add_after` is one delivery, at once. In client-go it is
//!   two.
//! - **A drain also waits for ready keys**, and returns the delayed ones. client-go's drain waits only for the
//!   keys being processed, and discards the delayed ones.
//! - **Low priority does not starve**: while both lanes have keys, one delivery in eight is from the low lane.
//!
//! `docs/client-go.md` of the repository compares each behaviour and names its test.
//! [`controllers`](super::controllers) describes the loop.
