//! Parallel maps, scoped tasks, task groups and first success for the pools of [`pool_core`] and
//! `multi_pool`, as one extension trait: [`PoolExt`].
//!
//! The pool itself bounds and runs single tasks. This crate holds the calls that can be built on
//! that, so a program that needs none of them compiles none of them.
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
//!
//! # What blocks, and what it costs
//! A *section* is one critical section of a lock.
//!
//! | call | blocks | costs |
//! |---|---|---|
//! | a mapping's `next`, `for_each`, `try_for_each` | until the next result is ready; an own worker runs items itself | one section per item, shared with the previous one if possible |
//! | `scope`, `ScopedJoinHandle::join` | until its tasks have ended; the caller runs those that have not started | one or two allocations per task |
//! | `TaskGroup::next`, `wait`, `try_wait`, `invoke_any` | until one task, or all, have ended; an own worker runs those that have not started | one section of the group's own lock at each task's end |

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
pub use scope::{Scope, ScopedJoinHandle, ScopedMap};
pub use task_group::TaskGroup;

/// The extension trait, for `use pool_util::prelude::*`.
pub mod prelude {
    pub use crate::PoolExt;
}

// What the README shows is compiled and run.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
