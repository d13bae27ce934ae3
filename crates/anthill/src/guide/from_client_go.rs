//! Coming from client-go's workqueue, controller-runtime, or kube's `Controller`.
//!
//! # client-go, controller-runtime
//! | client-go | here |
//! |---|---|
//! | `NewTypedRateLimitingQueue(limiter)` | [`DedupRetryQueue::new()`](crate::dedup_queue::KeyQueue::new), with client-go's limiter; `builder().limiter(..)` |
//! | `Add`, `AddAfter` | `add`, `add_after` |
//! | `Get`, then `defer Done(key)` | `get`: a guard, whose drop is the `Done` |
//! | `Forget(key)` and `Done(key)` | [`succeed`](crate::dedup_queue::Held::succeed) |
//! | `AddRateLimited(key)` and `Done(key)` | [`retry`](crate::dedup_queue::Held::retry) |
//! | `AddAfter(key, d)` and `Done(key)` | [`retry_after`](crate::dedup_queue::Held::retry_after); if it failed, `retry_failed_after` |
//! | `NumRequeues(key)` | `failures` |
//! | `Result{RequeueAfter: d}` | `retry_after(d)` |
//! | priority queue: `LowPriority` (-100) for resyncs and the initial list | [`low_priority()`](crate::dedup_queue::KeyQueue::low_priority)`.add(key)` |
//! | a resync of a key in back-off | [`add_after_backoff`](crate::dedup_queue::KeyQueue::add_after_backoff), so it brings no extra try |
//! | `Len`, metrics | `len`, `stats`, `metrics(..)` under the same names |
//! | the keys: not to be had | [`entries`](crate::dedup_queue::KeyQueue::entries) |
//! | `ShutDown`, `ShutDownWithDrain` | `shut_down`, `drain`, with a deadline, and what is left |
//! | `MaxConcurrentReconciles` | so many workers |
//! | `ParallelizeUntil` | [`for_each`](crate::for_each) on a pool, below |
//!
//! # kube
//! | kube | here |
//! |---|---|
//! | `Controller::run(reconcile, error_policy, ctx)` | a loop of yours, as below |
//! | `Action::await_change()` | `succeed()` |
//! | `Action::requeue(d)` from `reconcile` | `retry_after(d)` |
//! | `Action::requeue(d)` from `error_policy` | `retry()`, which backs off by itself; or `retry_failed_after(d)` |
//! | `scheduler`, which keeps the earliest of two times | `Policy::Earliest`, the default |
//! | `Config::debounce(d)` | `Policy::Debounce`, `Policy::DebounceMaxWait` |
//! | `Config::concurrency(n)` | `n` workers |
//! | `graceful_shutdown_on` | `drain_timeout`, `drain_async` |
//! | watches, stores, owners | not here: kube's `watcher` and `reflector` feed the queue |
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
//!         ("lease", _) => Ok(Some(Duration::from_secs(10))), // To be renewed.
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
//! let clock = ManualClock::new(); // A program has none: the machine's is the default.
//! let queue = DedupRetryQueue::<&str>::builder().clock(clock.clone()).build();
//! for key in ["busy", "broken", "lease", "fine"] {
//!     queue.low_priority().add_after_backoff(key)?; // The initial list, and each resync.
//! }
//! queue.add("fine")?; // An event: it comes first.
//! assert_eq!(*queue.try_get()?, "fine");
//! for _ in 0..30 {
//!     while let Ok(key) = queue.try_get() {
//!         work(key);
//!     }
//!     clock.advance(Duration::from_secs(1));
//! }
//! let waiting: Vec<&str> = queue.entries().map(|entry| entry.key).collect();
//! assert_eq!(waiting.len(), 2, "busy, and the lease: {waiting:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # `ParallelizeUntil`
//! [`for_each`](crate::for_each) calls a function with each item on a pool's workers and waits for all calls.
//! `try_for_each` stops at the first error, which takes the place of the cancelled context. A
//! panicking call stops it too and is reported in the [`MapError`](crate::MapError). For functions that borrow,
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
//! - **A guard ends a delivery, however it ends.** A panic, an early `return` or a `?` lets the key go; it
//!   neither forgets the failures nor counts one. Say `succeed` or `retry`.
//! - **An event in back-off** (`add`) has the key tried at once, and that try is not counted if it fails: the
//!   back-off is not lengthened by events. In client-go each counts.
//! - **Failures expire** after an hour at rest, unless `failure_expiry` says otherwise; client-go's map
//!   keeps them until `Forget`.
//! - **An `add` absorbs a delay**: `add` and then `add_after` is one delivery, at once. In client-go it is
//!   two.
//! - **A drain waits for all that is ready**, too, and returns what is delayed. client-go's waits for what
//!   is processed, and what is delayed vanishes.
//! - **Low priority does not starve**: one delivery in eight is of the low lane while there are both.
//!
//! All of it, behaviour by behaviour and with the test for each, is in `docs/client-go.md` of the
//! repository. [`controllers`](super::controllers) is the guide to such a loop.
