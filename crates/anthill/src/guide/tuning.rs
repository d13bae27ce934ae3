//! Growing, shrinking, and changing the capacity of a pool that runs.
//!
//! # By itself
//! A worker is started when a task is queued, no worker is searching or on its way, and the
//! capacity allows one more; at a submit or at a task's end. It ends when it has been idle for the
//! keep-alive: each worker times its own sleep, and the first to wake retires all that are due.
//! There is no service thread, and a pool at its minimum of workers makes no wake-ups.
//!
//! | to | use |
//! |---|---|
//! | keep n workers however long they idle, started at once | [`min_workers`](crate::Builder::min_workers) |
//! | start n at once, to be forgotten when they idle | [`prestart`](crate::Builder::prestart) |
//! | never end one | `keep_alive(None)` |
//! | have every worker take its turn, from slots allocated ahead | [`preallocate`](crate::Builder::preallocate) |
//!
//! With `preallocate` the worker that idled longest is reused, so steady light work keeps all of
//! them young and the pool hardly shrinks. Without it the one that idled last is reused (its
//! caches are warm), and the others expire.
//!
//! # While it waits
//! A worker without work spins and yields for some microseconds before it parks, and spins less
//! after searches that found nothing. So an idle pool takes no processor time, and where tasks come
//! a tenth of a millisecond apart, workers sleep in between: each task then costs a wake-up.
//!
//! # Something for each worker
//! A connection, a parser, a large buffer: what is dear to make and cannot be shared belongs to a worker.
//! [`builder_with_state`](crate::FuncPool::builder_with_state) makes one on each worker's thread as that
//! starts, hands it to every call there, and drops it there before the worker ends. It need not be `Send`.
//!
//! ```
//! use anthill::FuncPool;
//! use std::collections::HashMap;
//!
//! let lengths = FuncPool::builder_with_state(HashMap::new, |known, word: String| {
//!     let length = word.len();
//!     *known.entry(word).or_insert(length) // No lock: each worker knows its own.
//! });
//! let lengths = lengths.capacity(2).build()?;
//! assert_eq!(lengths.spawn("leafcutter".to_owned())?.join()?, 10);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! Closures of a [`Pool`](crate::Pool) have the [slot](crate::Current::worker) of their worker, an index
//! into a table of your own.
//!
//! # While tasks block
//! A task that waits for long may [say so](super::nesting#tasks-that-block), and the pool has one worker
//! more meanwhile, within [a limit](crate::Builder::max_compensation).
//!
//! # By you
//! `tune` changes the capacity at any time. More: the waiters at the head of the wait queue are
//! accepted at once. Less: idle excess workers end at once and busy ones after their task; nothing
//! new is started until the excess has drained. Accepted tasks that have not started are then run by
//! the workers that are left.
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
