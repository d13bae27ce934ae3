//! How workers start and end, state per worker, and changing the capacity.
//!
//! # Growing and shrinking
//! A submit or the end of a task starts a worker if a task is queued, no worker is searching or waking up, and
//! the capacity allows another worker. A worker ends after it has been idle for the keep-alive. There is no
//! service thread: idle workers sleep with a time limit, and the first one that wakes ends all expired ones. A
//! pool at its minimum of workers makes no wake-ups.
//!
//! | to | use |
//! |---|---|
//! | start n workers when the pool is built, and keep them | [`min_workers`](crate::Builder::min_workers) |
//! | start n workers when the pool is built, and let them end when idle | [`prestart`](crate::Builder::prestart) |
//! | never end a worker | `keep_alive(None)` |
//! | use the workers in turn, and allocate memory for them ahead | [`preallocate`](crate::Builder::preallocate) |
//!
//! By default the worker that became idle last is reused: its caches are warm, and the others expire. With
//! `preallocate`, the worker that has been idle longest is reused, so a steady light load keeps all workers alive.
//!
//! # Idle workers
//! A worker without work spins and yields for some microseconds, then parks. After searches that found no task it
//! spins less. An idle pool takes no processor time. If tasks arrive every tenth of a millisecond, workers park
//! between them, and each task costs a wake-up.
//!
//! # State per worker
//! Values that are expensive to create and cannot be shared (a connection, a parser, a large buffer) can be kept
//! per worker. [`builder_with_state`](crate::FuncPool::builder_with_state) creates the state on each worker's
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
//! into a table of states.
//!
//! # Changing the capacity
//! `tune` changes the capacity at any time. An increase accepts waiters from the head of the wait queue at once.
//! After a decrease, excess idle workers end at once, and excess busy workers end after their tasks. No worker is
//! started until the excess is gone. Accepted tasks still run.
//!
//! While a task is in [`blocking`](super::nesting#tasks-that-block), the pool may exceed its capacity by one worker,
//! within [a limit](crate::Builder::max_compensation).
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
//! assert_eq!((pool.running(), pool.free()), (2, Some(0))); // Both workers are still busy.
//! done.wait();
//! pool.wait_idle()?;
//! assert_eq!(pool.tune(0), Err(TuneError::ZeroCapacity));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Queue depth, keep-alive and the other settings are fixed when the pool is built.
