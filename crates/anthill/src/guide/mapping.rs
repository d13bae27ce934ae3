//! Mapping an iterator: in order, with flat memory.
//!
//! [`map`](crate::PoolExt::map) calls a function with each item, on the pool's workers, and gives the
//! results in the items' order. It is an iterator itself, and lazy: it pulls the source as results
//! are asked for, never more than a [window](crate::Map::window) ahead. So the source may be a file
//! of any length, a channel, or endless.
//!
//! ```
//! use anthill::Pool;
//! use anthill::prelude::*;
//! use std::io::{BufRead, Cursor};
//!
//! let pool = Pool::builder().capacity(4).build()?;
//! let log = Cursor::new("GET /\nPOST /orders\nGET /orders\n");
//! // The source borrows and blocks as it likes: it is pulled here, on this thread.
//! let words = pool.map(log.lines(), |line| line.map(|line| line.split(' ').count()));
//! for count in words {
//!     assert_eq!(count??, 2);
//! }
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! | you want | call |
//! |---|---|
//! | results in the items' order | [`map`](crate::PoolExt::map) |
//! | results as they come | [`map_unordered`](crate::PoolExt::map_unordered) |
//! | the first error to stop it | [`try_map`](crate::PoolExt::try_map), [`try_map_unordered`](crate::PoolExt::try_map_unordered) |
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
//! A pool that is released in the middle ends it with [`MapError::Refused`](crate::MapError), after the
//! results of what had started. [`into_unstarted`](crate::Map::into_unstarted) gives the items back that
//! were pulled and never started.
//!
//! # Its share of the pool
//! A mapping runs on as many workers as the pool has, also if the pool is [tuned](crate::Pool::tune)
//! meanwhile: it follows as items end. Between its items other tasks get their turn, after a millisecond
//! and the item that runs then. On a multi-pool a member whose workers are blocked holds up nothing. On
//! a worker of the same pool `next` calls the
//! function itself rather than wait, so mappings may be nested as deep as the
//! [nesting limit](super::nesting) allows.
//!
//! # Cost
//! Two short sections of a lock for each item, and a wake-up of the caller for each batch. It pays for
//! items of a microsecond and more; put smaller ones together.
