//! Mapping an iterator in parallel, in order and with bounded memory.
//!
//! [`map`](crate::PoolExt::map) calls a function with each item on the pool's workers, and returns a lazy
//! iterator over the results in the order of the items. It pulls at most a [window](crate::Map::window) of items
//! ahead of the results. So the source may be a file of any length, a channel, or endless.
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
//! | results up to the first error | [`try_map`](crate::PoolExt::try_map), [`try_map_unordered`](crate::PoolExt::try_map_unordered) |
//! | only the calls, without results | [`for_each`](crate::PoolExt::for_each), [`try_for_each`](crate::PoolExt::try_for_each) |
//! | results as a stream (feature `stream`) | `Map::into_stream` |
//! | items or results that borrow | [`Scope::map`](crate::Scope::map) |
//!
//! # Errors and panics
//! Each item of the returned iterator is a `Result`. If the function panics for an item, the result of this item
//! is [`MapError::Panicked`](crate::MapError), and a `map` continues. Collecting into a `Result` stops at the first
//! error; dropping the iterator then cancels the rest of the mapping.
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
//! If the function returns `anyhow::Error` or a boxed error, call
//! [`into_error`](crate::MapError::into_error) before the `?`:
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
//! If the pool is released, the items that were pulled before still run, and the last result is
//! [`MapError::Refused`](crate::MapError). So they do after a `release_now`, if one of them is running; a
//! [canceller](crate::Map::canceller) drops those that have not started. Items that wait for others which were not pulled wait
//! for ever: look at `current().is_cancelled()` in them, which is true after a `release_now`.
//! [`into_unstarted`](crate::Map::into_unstarted) returns the items that were pulled but not started.
//!
//! # Sharing the pool
//! A mapping uses up to all workers of the pool, and adapts to [`tune`](crate::Pool::tune) at the end of the next
//! item. While its items compute, it uses about one worker per core, because more would only take turns. While they
//! sleep, for example at a disk or a socket, it grows, at most twofold in a millisecond, to as many workers as keep
//! the cores busy, or all. (Linux says whether a thread sleeps. On other systems a mapping grows in either case.)
//! Each of many items that sleep for less than some milliseconds starts sooner as a task of its own. So a pool for
//! tasks that block can run mappings that compute. Tasks of a [scope](super::scopes) are started in the same way.
//! Other tasks get a worker within a millisecond plus the duration of one item. In a multi-pool, a member whose
//! workers are blocked does not delay the mapping. On a worker of the same pool, `next` calls the function itself
//! instead of waiting, so mappings may be nested. The [nesting limit](super::nesting) does not apply to them.
//!
//! Items may wait for each other if the pool has a worker, and the window a place, for each of them. That is not
//! enough on a worker of a full pool, where the caller may run one of them itself, nor in a multi-pool, where an item
//! may be assigned to a member whose workers are blocked.
//!
//! The source may wait for earlier items, as in a walk of a tree whose items add to the source. If no worker is free
//! for an item, an owner on a worker of the pool runs it before it pulls the next one. If the operating system refuses
//! to start the first thread, the calling thread runs all items; a stream ends with `NoThread` instead.
//!
//! # Cost
//! Each item takes a lock twice, and each batch of results wakes the caller once. Combine items that take less
//! than a microsecond.
