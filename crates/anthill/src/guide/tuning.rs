//! Starting and ending workers, state per worker, and changing the capacity.
//!
//! # Automatic growth and shrinking
//! A submit or the end of a task starts a worker if a task is queued, no worker is searching or waking up, and
//! the capacity allows another. A worker ends when it has been idle for the keep-alive: workers sleep with a
//! time limit, and the first that wakes ends all expired ones. There is no service thread, and a pool at its
//! minimum of workers makes no wake-ups.
//!
//! | to | use |
//! |---|---|
//! | keep n workers however long they idle, started at once | [`min_workers`](crate::Builder::min_workers) |
//! | start n at once, which may end later | [`prestart`](crate::Builder::prestart) |
//! | never end a worker | `keep_alive(None)` |
//! | use the workers in turn, from slots allocated ahead | [`preallocate`](crate::Builder::preallocate) |
//!
//! With `preallocate`, the worker that has been idle longest is reused, so that a steady light load keeps all
//! workers alive. Without it, the worker that became idle last is reused, whose caches are warm, and the others
//! expire.
//!
//! # Idle workers
//! A worker without work spins and yields for some microseconds before it parks, and spins less after failed
//! searches. So an idle pool takes no processor time. If tasks arrive every tenth of a millisecond, workers
//! sleep between them, and each task costs a wake-up.
//!
//! # State per worker
//! Values that are expensive to create and cannot be shared (a connection, a parser, a large buffer) belong to
//! a worker. [`builder_with_state`](crate::FuncPool::builder_with_state) creates the state on each worker's
//! thread when it starts, passes it to every call on that thread, and drops it there before the worker ends.
//! The state need not be `Send`.
//!
//! ```
//! use anthill::FuncPool;
//! use std::collections::HashMap;
//!
//! let lengths = FuncPool::builder_with_state(HashMap::new, |known, word: String| {
//!     let length = word.len();
//!     *known.entry(word).or_insert(length) // No lock: each worker has its own map.
//! });
//! let lengths = lengths.capacity(2).build()?;
//! assert_eq!(lengths.spawn("leafcutter".to_owned())?.join()?, 10);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! Closures of a [`Pool`](crate::Pool) can use the [slot](crate::Current::worker) of their worker as an index
//! into your own table.
//!
//! # Blocking tasks
//! While a task is in [`blocking`](super::nesting#tasks-that-block), the pool may have one more worker, within
//! [a limit](crate::Builder::max_compensation).
//!
//! # Changing the capacity
//! `tune` changes the capacity at any time. If it grows, waiters at the head of the wait queue are accepted at
//! once. If it shrinks, excess idle workers end at once and excess busy workers after their tasks. No worker is
//! started until the excess is gone. The remaining workers run the accepted tasks.
//!
//! ```
//! use anthill::{Pool, TuneError};
//! use std::sync::{Arc, Barrier};
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! let (met, done) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
//! let attend = |pool: &Pool| {
//!     let (met, done) = (Arc::clone(&met), Arc::clone(&done));
//!     pool.try_submit(move || {
//!         met.wait();
//!         done.wait();
//!     })
//! };
//! attend(&pool)?;
//! assert!(attend(&pool).is_err(), "the only worker is busy");
//! pool.tune(2)?;
//! attend(&pool)?;
//! met.wait(); // Both tasks run.
//! assert_eq!((pool.running(), pool.free()), (2, Some(0)));
//!
//! pool.tune(1)?;
//! assert_eq!((pool.running(), pool.free()), (2, Some(0))); // Draining; never negative.
//! done.wait();
//! pool.wait_idle()?;
//! assert_eq!(pool.tune(0), Err(TuneError::ZeroCapacity));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Queue depth, keep-alive and the other settings are fixed when the pool is built.
