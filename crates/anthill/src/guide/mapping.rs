//! Mapping an iterator: in order, with flat memory.
//!
//! [`map`](crate::PoolExt::map) calls a function with each item on the pool's workers, and returns a lazy
//! iterator over the results in the order of the items. It pulls the source at most a
//! [window](crate::Map::window) ahead of the results. So the source may be a file of any length, a channel,
//! or endless.
//!
//! ```
//! use anthill::Pool;
//! use anthill::prelude::*;
//! use std::io::{BufRead, Cursor};
//!
//! let pool = Pool::builder().capacity(4).build()?;
//! let log = Cursor::new("GET /\nPOST /orders\nGET /orders\n");
//! // The source may borrow and block: it is pulled on this thread.
//! let words = pool.map(log.lines(), |line| line.map(|line| line.split(' ').count()));
//! for count in words {
//!     assert_eq!(count??, 2);
//! }
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! | to get | call |
//! |---|---|
//! | results in the order of the items | [`map`](crate::PoolExt::map) |
//! | results as soon as they are ready | [`map_unordered`](crate::PoolExt::map_unordered) |
//! | an end at the first error | [`try_map`](crate::PoolExt::try_map), [`try_map_unordered`](crate::PoolExt::try_map_unordered) |
//! | no results | [`for_each`](crate::PoolExt::for_each), [`try_for_each`](crate::PoolExt::try_for_each) |
//! | results as a stream (feature `stream`) | `Map::into_stream` |
//! | items or results that borrow | [`Scope::map`](crate::Scope::map) |
//!
//! # Errors and panics
//! Each result is a `Result`. An item that panics gives [`MapError::Panicked`](crate::MapError) in its
//! place; collected into a `Result`, the first one ends the loop and, as the iterator is dropped, the
//! mapping.
//!
//! ```
//! use anthill::{MapError, Pool};
//! use anthill::prelude::*;
//!
//! let pool = Pool::builder().capacity(2).build()?;
//! let numbers = pool.try_map(["1", "2", "x", "4"], str::parse::<u32>);
//! let numbers: Result<Vec<u32>, _> = numbers.collect();
//! assert!(matches!(numbers, Err(MapError::Failed(_))));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! If the function returns `anyhow::Error` or a boxed error, [`into_error`](crate::MapError::into_error)
//! precedes the `?`:
//!
//! ```
//! use anthill::{MapError, Pool};
//! use anthill::prelude::*;
//!
//! let pool = Pool::builder().capacity(2).build()?;
//! let sizes = pool.try_map(["Cargo.toml"], |path| anyhow::Ok(std::fs::metadata(path)?.len()));
//! let sizes: anyhow::Result<Vec<u64>> =
//!     sizes.map(|size| size.map_err(MapError::into_error)).collect();
//! assert!(sizes?[0] > 0);
//! # anyhow::Ok(())
//! ```
//!
//! If the pool is released, the mapping ends with [`MapError::Refused`](crate::MapError) after the results of
//! the started items. [`into_unstarted`](crate::Map::into_unstarted) returns the items that were pulled and
//! not started.
//!
//! # Sharing the pool
//! A mapping uses up to all workers of the pool, and follows [`tune`](crate::Pool::tune) as items end. Other
//! tasks get a worker within a millisecond plus the length of one item. In a multi-pool, a member whose
//! workers are blocked does not delay the mapping. On a worker of the same pool, `next` calls the function
//! itself instead of waiting, so mappings may be nested up to the [nesting limit](super::nesting).
//!
//! # Cost
//! Two short sections of a lock per item, and a wake-up of the caller per batch. Items should take a
//! microsecond or more; combine smaller ones.
