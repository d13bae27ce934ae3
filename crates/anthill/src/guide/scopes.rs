//! Scopes: tasks that borrow from the caller.
//!
//! A task of a pool may outlive the function that submitted it, so it must own its data. A task of a
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
//! While the calling thread waits for the scope's end, it runs tasks of the scope that have not started, and no
//! other tasks. So a scope makes progress even if no worker is free. If the pool is full or released, or in a
//! forked child, the caller runs all tasks. Scopes may be nested and used inside tasks.
//!
//! [`join`](crate::pool_util::ScopedJoinHandle::join) runs the joined task if it has not started. So tasks may
//! spawn and join other tasks as deeply as functions may call each other. The [nesting limit](super::nesting) does
//! not apply. After each 128 levels on one stack, a join continues on the stack of another thread, so that a
//! recursion of a few thousand levels does not overflow the stack of a worker:
//!
//! ```
//! use anthill::prelude::*;
//! use anthill::{JoinError, Pool};
//!
//! fn depth(pool: &Pool, levels: u32) -> Result<u32, JoinError> {
//!     if levels == 0 {
//!         return Ok(0);
//!     }
//!     pool.scope(|scope| scope.spawn(|| depth(pool, levels - 1)).join())?.map(|below| below + 1)
//! }
//!
//! let pool = Pool::builder().capacity(2).build()?;
//! assert_eq!(depth(&pool, 1_000)?, 1_000);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! If a [submitted](crate::Scope::submit) task panics, the scope panics at its end, like
//! [`std::thread::scope`]. The panic of a [spawned](crate::Scope::spawn) task is returned by its handle.
//!
//! [`scope.task()`](crate::Scope::task) sets a task's name, cancel token and latest start.
//! [`try_map`](crate::Scope::try_map) maps until the first error.
//!
//! # When not to use it
//! A task of a scope costs one or two allocations. To split a computation into thousands of pieces of a
//! microsecond, use rayon.
