//! Blocking work in async programs, under any runtime.
//!
//! | blocking call | future | effect of dropping the future early |
//! |---|---|---|
//! | `submit(task)` | `submit_async(task).await` | the task is withdrawn and dropped |
//! | `spawn(task)`, then `join()` | `spawn_async(task).await?.await` | first future: the task is withdrawn and dropped; second future: the task is detached |
//! | `wait_idle`, `wait_released` | `wait_idle_async`, `wait_released_async` | none |
//! | `release`, then the wait | `release_async` | the pool stays released |
//! | [`TaskGroup::next`](crate::TaskGroup::next), `wait` | `next_async`, `wait_async` | no value is lost; the next call returns it |
//! | `DelayQueue::take`, `push` | `take_async`, `push_async`; a `Stream` | `take_async` takes no value; `push_async` drops its value |
//! | `DedupQueue::get`, `drain` | `get_async`, `drain_async`; a `Stream` | no key is taken; the next drain continues |
//! | `ScheduledHandle::join` | `handle.await` | the task still runs |
//!
//! The futures work under tokio, smol and any other executor: the thread that frees room or ends the task calls
//! the waker. Threads and futures wait in the same queue, first come, first served.
//!
//! ```
//! use anthill::Pool;
//! use anthill::prelude::*;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!     let disk = Pool::builder().capacity(8).name("disk").build()?;
//!
//!     // The first await waits for room, the second for the value.
//!     let text = disk.spawn_async(|| std::fs::read_to_string("Cargo.toml")).await?.await??;
//!     assert!(text.contains("[package]"));
//!
//!     // Several tasks, in the order in which they end.
//!     let group = disk.group();
//!     for name in ["Cargo.toml", "README.md"] {
//!         group.spawn_async(move || std::fs::metadata(name).map(|file| file.len())).await?;
//!     }
//!     while let Some(length) = group.next_async().await {
//!         assert!(length?? > 0);
//!     }
//!
//!     disk.release_async().await?;
//!     Ok(())
//! }
//! ```
//!
//! # Pitfalls
//! - **`submit` blocks the runtime's thread** at a full pool. In async code call `submit_async`, or call
//!   `try_submit` and handle `Full`.
//! - **Workers are not runtime threads.** A task that needs a runtime gets a `Handle` and calls
//!   `handle.block_on(..)`, which blocks the worker.
//! - **`select!` and time-outs drop futures**, with the effects in the table. Dropping a handle loses its
//!   value; send values that must not be lost through a channel.
//! - **Dropping a handle does not stop its task.** `cancel` removes a task that has not started. A running
//!   task has to check whether it was [asked to stop](super::cancelling).
//! - **A ready future does not yield.** A loop over `get_async` or `take_async` keeps its thread while values
//!   are ready. Call the runtime's `yield_now` in such a loop.
//! - **Futures with a time limit** are woken by a helper thread, or by the runtime's timer with the features
//!   `tokio` and `async-io`.
