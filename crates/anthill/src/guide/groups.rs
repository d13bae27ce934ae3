//! Groups: tasks that are waited for, taken as they end, or cancelled together.
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
//! | you want | call |
//! |---|---|
//! | the next that ends | [`next`](crate::TaskGroup::next), [`next_timeout`](crate::TaskGroup::next_timeout), [`next_async`](crate::TaskGroup::next_async) |
//! | all of them | [`wait`](crate::TaskGroup::wait), [`wait_timeout`](crate::TaskGroup::wait_timeout), [`wait_async`](crate::TaskGroup::wait_async) |
//! | to take back what has not started | [`cancel`](crate::TaskGroup::cancel), or drop it |
//! | the first panic to do so; a task's own `Err`, too | [`cancel_on_error`](crate::TaskGroup::cancel_on_error); [`cancel_on_failure`](crate::TaskGroup::cancel_on_failure) |
//! | a point in time to do so | [`cancel_at`](crate::TaskGroup::cancel_at) |
//! | the first error of tasks that return a `Result` | [`try_wait`](crate::TaskGroup::try_wait), [`try_wait_async`](crate::TaskGroup::try_wait_async) |
//! | tasks without a value among them | [`submit`](crate::TaskGroup::submit), [`try_submit`](crate::TaskGroup::try_submit), [`submit_async`](crate::TaskGroup::submit_async): waited for, counted and cancelled like the others, and `next` passes over their good ends |
//! | to hand over where nothing may block | [`spawn_async`](crate::TaskGroup::spawn_async), [`try_spawn`](crate::TaskGroup::try_spawn) |
//! | the first success alone | [`Pool::invoke_any`](crate::Pool::invoke_any), [`invoke_any_async`](crate::Pool::invoke_any_async) |
//!
//! A wait ends with [`JoinError::Forked`](crate::JoinError::Forked) in a forked child. A cancel and a deadline reach a
//! task that a worker runs in place while it waits for its group, too: it is asked to stop.
//!
//! A group's tasks stand in the pool's one queue like any others, and any thread, a task of the group
//! too, may hand over more. [Mapping](super::mapping) is the cheaper way where the tasks are one function
//! and come from one iterator.
