//! Async programs: blocking work, beside any runtime.
//!
//! | blocks | as a future | dropped before its end |
//! |---|---|---|
//! | `submit(task)` | `submit_async(task).await` | the task is taken back, and dropped |
//! | `spawn(task)`, then `join()` | `spawn_async(task).await?.await` | the first: as above; the second detaches |
//! | `wait_idle`, `wait_released` | `wait_idle_async`, `wait_released_async` | nothing |
//! | `release`, then the wait | `release_async` | the pool stays released |
//! | [`TaskGroup::next`](crate::TaskGroup::next), `wait` | `next_async`, `wait_async` | nothing is lost: the next call gets it |
//! | `DelayQueue::take`, `push` | `take_async`, `push_async`; a `Stream` | nothing is taken; the value is dropped |
//! | `DedupQueue::get`, `drain` | `get_async`, `drain_async`; a `Stream` | nothing is taken; what is left stays for the next drain |
//! | `ScheduledHandle::join` | `handle.await` | the task runs all the same |
//!
//! They need no runtime and start none: the thread that makes room, or ends the task, calls the waker.
//! So they work under tokio, smol, an executor of yours, and mixed: one pool, threads and futures in
//! one queue, first come, first served.
//!
//! ```
//! use anthill::Pool;
//! use anthill::prelude::*;
//! use std::time::Duration;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!     let disk = Pool::builder().capacity(8).name("disk").build()?;
//!
//!     // The first await is the back-pressure, the second the value.
//!     let text = disk.spawn_async(|| std::fs::read_to_string("Cargo.toml")).await?.await??;
//!     assert!(text.contains("[package]"));
//!
//!     // Several, as they end.
//!     let group = disk.group();
//!     for name in ["Cargo.toml", "README.md"] {
//!         group.spawn_async(move || std::fs::metadata(name).map(|file| file.len())).await?;
//!     }
//!     while let Some(length) = group.next_async().await {
//!         assert!(length?? > 0);
//!     }
//!
//!     disk.release_async(None).await?;
//!     Ok(())
//! }
//! # // What the text says of time-outs holds for any of these futures.
//! # const _: Duration = Duration::ZERO;
//! ```
//!
//! # What bites
//! - **A plain `submit` blocks the runtime's thread** when the pool is full. In async code call
//!   `submit_async`, or `try_submit` and handle `Full`.
//! - **A pool's worker is no runtime's thread.** A task that needs one takes a `Handle` along and calls
//!   `handle.block_on(..)`, which holds the worker meanwhile.
//! - **`select!` and time-outs drop futures.** The table says what each drop means. A value that must not
//!   be lost is not in a handle that is dropped: take it to the end, or send it through a channel.
//! - **Dropping a handle does not stop its task.** `cancel` takes back what has not started; what runs
//!   has to look whether it was [asked to stop](super::cancelling).
//! - **A future that is ready does not yield.** A loop over `get_async` or `take_async` that finds
//!   something each time keeps its thread: let it yield now and then.
//! - **Futures that wait for time** are woken by the clock's one helper thread, or, with the features
//!   `tokio` and `async-io`, by the runtime's own timer.
