//! Task groups: joining tasks as they end, waiting for all of them, or cancelling them together.
//!
//! ```
//! use anthill::Pool;
//! use anthill::prelude::*;
//!
//! let pool = Pool::builder().capacity(4).build()?;
//! let group = pool.group();
//! for host in ["one", "two", "three"] {
//!     group.spawn(move || format!("{host}: up"))?;
//! }
//! while let Some(answer) = group.next() {
//!     println!("{}", answer?);
//! }
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! | to | call |
//! |---|---|
//! | take the next task that ends | [`next`](crate::TaskGroup::next), [`next_timeout`](crate::TaskGroup::next_timeout), [`next_async`](crate::TaskGroup::next_async) |
//! | wait for all tasks | [`wait`](crate::TaskGroup::wait), [`wait_timeout`](crate::TaskGroup::wait_timeout), [`wait_async`](crate::TaskGroup::wait_async) |
//! | cancel the tasks that have not started | [`cancel`](crate::TaskGroup::cancel), or drop the group |
//! | cancel them at the first panic; at the first panic or `Err` | [`cancel_on_error`](crate::TaskGroup::cancel_on_error); [`cancel_on_failure`](crate::TaskGroup::cancel_on_failure) |
//! | cancel them at a deadline | [`cancel_at`](crate::TaskGroup::cancel_at) |
//! | get the first error of tasks that return a `Result` | [`wait_ok`](crate::TaskGroup::wait_ok), [`wait_ok_async`](crate::TaskGroup::wait_ok_async) |
//! | add tasks without a value, which `next` skips unless they fail | [`submit`](crate::TaskGroup::submit), [`try_submit`](crate::TaskGroup::try_submit), [`submit_async`](crate::TaskGroup::submit_async) |
//! | add tasks without blocking | [`spawn_async`](crate::TaskGroup::spawn_async), [`try_spawn`](crate::TaskGroup::try_spawn) |
//! | get only the first success | [`PoolExt::invoke_any`](crate::PoolExt::invoke_any), [`invoke_any_async`](crate::PoolExt::invoke_any_async) |
//!
//! A cancelled group stays cancelled: further tasks are returned in
//! [`SubmitError::Cancelled`](crate::SubmitError::Cancelled), so a loop that adds tasks ends after the first failure. So is a task
//! that waits for room, unless it gets the room of the task that has failed: then it is cancelled if it has not started.
//!
//! ```
//! # use anthill::{MapError, Pool, SubmitError};
//! # use anthill::prelude::*;
//! # let pool = Pool::builder().capacity(2).build()?;
//! let group = pool.group().cancel_on_failure();
//! for number in 0_u64.. {
//!     match group.spawn(move || if number == 4 { Err("four") } else { Ok(()) }) {
//!         Ok(()) => {}
//!         Err(SubmitError::Cancelled(_)) => break,
//!         Err(refused) => return Err(refused.without_task().into()),
//!     }
//! }
//! assert!(matches!(group.wait_ok(), Err(MapError::Failed("four"))));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! A wait that times out, or whose future is dropped, keeps the first error of the tasks that it has taken for the
//! next wait.
//!
//! Groups of futures ([`async_pool::TaskGroup`]) have the same calls, without options. Their
//! `cancel` drops futures that have started, and no member starts in a group that was cancelled before.
//!
//! The tasks of a group are queued like other tasks of the pool. Any thread may add tasks, including tasks of the
//! group, which share it in an `Arc`: then its drop cancels nothing while a task still has it. To call one function
//! with the items of an iterator, [mapping](super::mapping) is cheaper. A crawler whose pages name further pages:
//!
//! ```
//! # #[cfg(feature = "async-pool")] {
//! use std::pin::Pin;
//! use std::sync::Arc;
//!
//! use anthill::AsyncPool;
//! use anthill::async_pool::TaskGroup;
//!
//! /// Adds the links of a page to the group. Boxed, because it adds tasks of its own type.
//! fn visit(group: Arc<TaskGroup<u32>>, page: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
//!     Box::pin(async move {
//!         for link in [2 * page, 2 * page + 1].into_iter().filter(|&link| link < 100) {
//!             // Waits for room without a thread. If the pool is full of such tasks they lend it theirs.
//!             let added = group.spawn_async(visit(Arc::clone(&group), link)).await;
//!             added.expect("nobody cancels the group");
//!         }
//!         page
//!     })
//! }
//!
//! let pool = AsyncPool::builder().capacity(4).build()?;
//! let group = Arc::new(pool.group());
//! group.spawn(visit(Arc::clone(&group), 1)).map_err(|refused| refused.without_task())?;
//! let mut pages = 0;
//! while let Some(page) = group.next() {
//!     page?;
//!     pages += 1;
//! }
//! assert_eq!(pages, 99);
//! # }
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! In a forked child, waits return [`JoinError::Forked`](crate::JoinError::Forked).
