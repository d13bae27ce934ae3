//! Parallel maps, scoped tasks, task groups and first success for the pools of [`pool_core`] and
//! `multi_pool`, as one extension trait: [`PoolExt`].
//!
//! The pool itself bounds and runs single tasks. This crate contains the calls that are built on that,
//! so programs that do not use them need not compile them.
//!
//! ```
//! use pool_core::Pool;
//! use pool_util::PoolExt;
//!
//! let pool = Pool::builder().capacity(4).build()?;
//! let squares: Result<Vec<u64>, _> = pool.map(1..=100, |n| n * n).collect();
//! assert_eq!(squares?.iter().sum::<u64>(), 338_350);
//!
//! let mut numbers = vec![3, 1, 2];
//! pool.scope(|scope| scope.submit(|| numbers.sort_unstable()));
//! assert_eq!(numbers, [1, 2, 3]);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

mod error;
mod ext;
mod invoke_any;
mod map;
mod scope;
mod subqueue;
mod task_group;

pub use error::MapError;
pub use ext::PoolExt;
#[cfg(feature = "stream")]
pub use map::MapStream;
pub use map::{Map, MapCanceller};
pub use scope::{Scope, ScopedJoinHandle, ScopedMap, ScopedTaskBuilder};
pub use task_group::TaskGroup;

/// Contains the extension trait, for `use pool_util::prelude::*`.
pub mod prelude {
    pub use crate::PoolExt;
}

// Compiles and runs the README's examples.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
