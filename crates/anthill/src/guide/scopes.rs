//! Scopes: tasks that borrow.
//!
//! A task of a pool may run after the call that handed it over has returned, so it owns what it works
//! on. In a [`scope`](crate::PoolExt::scope) it may borrow: the scope returns when the last of its tasks has
//! ended.
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
//! While it waits, the calling thread runs tasks of the scope that have not started, and no others: no
//! stranger's task ends up on your stack. So a scope needs no free worker. It may be nested, be used
//! inside a task, and run on a pool that is full or released, or in a forked child: then the caller does
//! it all.
//!
//! [`join`](crate::pool_util::ScopedJoinHandle::join) runs the joined task if it has not started, and no other one.
//! So tasks may spawn and join others as deep as calls may go.
//!
//! A task that was [submitted](crate::Scope::submit) and panics makes the scope panic at its end, as a
//! thread of [`std::thread::scope`] does. One that was [spawned](crate::Scope::spawn) is its handle's
//! affair.
//!
//! [`scope.task()`](crate::Scope::task) gives a task a name, a token that cancels it, and a time to be
//! started by; [`try_map`](crate::Scope::try_map) maps until the first error.
//!
//! # Not for
//! Splitting one computation into thousands of pieces of a microsecond: rayon's work stealing is made for
//! that. A scope's task costs an allocation or two.
