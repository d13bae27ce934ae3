//! Parallel maps, scoped tasks, task groups and keyed tasks for the pools of [`pool_core`] and `multi_pool`,
//! as an extension trait: [`PoolExt`].
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
//! | `Keyed::submit`, `spawn` and their variants | if the pool is full; an own worker is refused then | as the pool's call, plus a hash and two short sections of one shard of the keys |
//! | `TaskGroup::next`, `wait`, `wait_ok`, `invoke_any` | until one task, or all, have ended; an own worker runs those that have not started | one section of the group's own lock at each task's end |
//!
//! # Calls that wait
//! A `_timeout` takes a [`Duration`](std::time::Duration) or an [`Instant`](std::time::Instant), by
//! the pool's clock. An async call returns a future for any runtime. Where a form does not exist, the
//! table names an alternative. The `try_` in `try_map` and `try_for_each` is that of [`Iterator::try_for_each`]:
//! their closures may fail.
//!
//! | waits | does not wait | waits for a limited time | async |
//! |---|---|---|---|
//! | [`TaskGroup::spawn`], [`submit`](TaskGroup::submit) | [`try_spawn`](TaskGroup::try_spawn), [`try_submit`](TaskGroup::try_submit) | [`spawn_timeout`](TaskGroup::spawn_timeout), [`submit_timeout`](TaskGroup::submit_timeout) | [`spawn_async`](TaskGroup::spawn_async), [`submit_async`](TaskGroup::submit_async) |
//! | a group's [`task()`](TaskGroup::task)'s [`submit`](pool_core::TaskBuilder::submit), [`spawn`](pool_core::TaskBuilder::spawn) | [`try_submit`](pool_core::TaskBuilder::try_submit), [`try_spawn`](pool_core::TaskBuilder::try_spawn) | [`submit_timeout`](pool_core::TaskBuilder::submit_timeout), [`spawn_timeout`](pool_core::TaskBuilder::spawn_timeout) | the group's `submit_async` and `spawn_async`, without options |
//! | [`Keyed::submit`], [`spawn`](Keyed::spawn) | [`try_submit`](Keyed::try_submit), [`try_spawn`](Keyed::try_spawn) | [`submit_timeout`](Keyed::submit_timeout), [`spawn_timeout`](Keyed::spawn_timeout) | [`submit_async`](Keyed::submit_async), [`spawn_async`](Keyed::spawn_async) |
//! | [`TaskGroup::next`] | [`try_next`](TaskGroup::try_next) | [`next_timeout`](TaskGroup::next_timeout) | [`next_async`](TaskGroup::next_async) |
//! | [`TaskGroup::wait`] | [`is_empty`](TaskGroup::is_empty), after `try_next` | [`wait_timeout`](TaskGroup::wait_timeout) | [`wait_async`](TaskGroup::wait_async) |
//! | [`TaskGroup::wait_ok`] (of tasks that return a `Result`) | as for `wait` | [`cancel_at`](TaskGroup::cancel_at), when the group is made; `next_timeout`, in a loop | [`wait_ok_async`](TaskGroup::wait_ok_async) |
//! | [`Map`]'s `next` | [`ready`](Map::ready) is not 0 | [`MapCanceller::cancel`], from another thread | `into_stream`, with the feature `stream` |
//! | [`for_each`](PoolExt::for_each), [`try_for_each`](PoolExt::try_for_each) | `submit_batch` and a group | `try_for_each`: the first error ends it | `into_stream` of a [`map`](PoolExt::map) |
//! | [`scope`](PoolExt::scope) | a group: a scope's tasks borrow, so it has to wait for them | [`start_before`](pool_core::TaskBuilder::start_before), [`cancelled_by`](pool_core::TaskBuilder::cancelled_by), for each task | a group |
//! | [`ScopedJoinHandle::join`] | [`is_finished`](ScopedJoinHandle::is_finished) | as for `scope` | a group's `next_async` |
//! | [`invoke_any`](PoolExt::invoke_any) | a group | a group with `cancel_at` | [`invoke_any_async`](PoolExt::invoke_any_async) |

mod error;
mod ext;
mod invoke_any;
mod keyed;
mod map;
mod scope;
mod subqueue;
mod task_group;
mod unwind;

pub use error::MapError;
pub use ext::PoolExt;
pub use keyed::Keyed;
#[cfg(feature = "stream")]
pub use map::MapStream;
pub use map::{Map, MapCanceller};
pub use scope::{Scope, ScopedJoinHandle, ScopedMap};
pub use task_group::TaskGroup;

/// Contains the extension trait, for `use pool_util::prelude::*`.
pub mod prelude {
    pub use crate::PoolExt;
}

// Compiles and runs the README's examples.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
