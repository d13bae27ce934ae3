//! Scopes: tasks that borrow.
//!
//! A task of a pool may outlive the function that submitted it, so it owns its data. A task of a
//! [`scope`](crate::PoolExt::scope) may borrow, because the scope returns after all of its tasks have ended.
//!
//! ```
//! use anthill::Pool;
//! use anthill::prelude::*;
//!
//! let pool = Pool::builder().capacity(4).build()?;
//! let mut pixels = vec![1_u8; 1_000];
//! let brightest = pool.scope(|scope| {
//!     let rows: Vec<_> = pixels
//!         .chunks_mut(100)
//!         .map(|row| {
//!             scope.spawn(move || {
//!                 row.iter_mut().for_each(|pixel| *pixel *= 2);
//!                 row.iter().copied().max()
//!             })
//!         })
//!         .collect();
//!     rows.into_iter().filter_map(|row| row.join().ok().flatten()).max()
//! });
//! assert_eq!((brightest, pixels[999]), (Some(2), 2));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! While it waits, the calling thread runs tasks of the scope that have not started, and no other tasks. So
//! a scope needs no free worker. Scopes may be nested and used inside tasks. If the pool is full or released,
//! or in a forked child, the caller runs all tasks.
//!
//! [`join`](crate::pool_util::ScopedJoinHandle::join) runs the joined task if it has not started, and no other one.
//! So tasks may spawn and join other tasks as deeply as functions may call each other.
//!
//! A task that was [submitted](crate::Scope::submit) and panics makes the scope panic at its end, as a
//! thread of [`std::thread::scope`] does. The handle of a [spawned](crate::Scope::spawn) task returns its
//! panic.
//!
//! [`scope.task()`](crate::Scope::task) sets a task's name, a token that cancels it, and its latest
//! start. [`try_map`](crate::Scope::try_map) maps until the first error.
//!
//! # When not to use it
//! To split a computation into thousands of pieces of a microsecond: use rayon, which steals work. A task of
//! a scope costs one or two allocations.
