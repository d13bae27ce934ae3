//! Coming from threadpool, rayon, or tokio's `spawn_blocking`.
//!
//! # threadpool
//! | threadpool | here |
//! |---|---|
//! | `ThreadPool::new(n)` | `Pool::builder().capacity(n).queue_depth(QueueDepth::Unlimited)` |
//! | `execute` | [`submit`](crate::Pool::submit) |
//! | `join` | [`wait_idle`](crate::WorkerPool::wait_idle) |
//! | `set_num_threads` | [`tune`](crate::WorkerPool::tune) |
//! | `max_count`, `active_count`, `queued_count`, `panic_count` | `capacity`, `busy`, `queued`, `stats().panicked` |
//! | `Builder::thread_name`, `thread_stack_size` | `name`, `stack_size` |
//!
//! ```
//! use anthill::{Pool, QueueDepth};
//! use std::sync::mpsc::channel;
//!
//! let pool = Pool::builder().capacity(4).queue_depth(QueueDepth::Unlimited).build()?;
//! let (send, receive) = channel();
//! for n in 0..8 {
//!     let send = send.clone();
//!     pool.submit(move || send.send(n).unwrap())?;
//! }
//! pool.wait_idle()?;
//! drop(send);
//! assert_eq!(receive.iter().sum::<i32>(), 28);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An unlimited queue is what threadpool has. A depth bounds it, and then submitters wait: that is
//! what you came for. Threads are started when there is work (`prestart(n)` starts them at once),
//! a panic leaves its worker alive, and `wait_idle` on a worker is an error, not a hang.
//!
//! # rayon
//! Stay there for what rayon is for: splitting a computation over the cores (`par_iter`, `join`). Come here with what blocks, and with what must be bounded.
//!
//! | rayon | here |
//! |---|---|
//! | `ThreadPoolBuilder::num_threads(n)` | `capacity(n)`, and `min_workers(n)` to keep them |
//! | `pool.spawn(f)` | `submit(f)`; a panic does not abort the process |
//! | `pool.install(f)` | `spawn(f)`, then `join` |
//! | `current_thread_index().is_some()` | `is_own_worker()` |
//! | `map_init`, a `thread_local!` per thread | [`FuncPool::builder_with_state`](crate::FuncPool::builder_with_state): it ends with its worker |
//! | `start_handler`, `exit_handler`, `panic_handler` | `start_hook`, `stop_hook`, `panic_hook` |
//! | `scope(\|s\| s.spawn(..))` | [`scope`](super::scopes), for tasks that block |
//! | `par_iter().map(f)` over what blocks | [`map`](super::mapping) |
//! | `join`, splitting a computation | not offered |
//!
//! A worker of rayon that waits runs other tasks meanwhile, whichever come. A worker here runs, at
//! most, the very task it waits for. And rayon's global pool is never full; this one says so.
//!
//! # `spawn_blocking`
//! | tokio | here |
//! |---|---|
//! | `block_in_place(f)` | [`blocking(f)`](crate::blocking), within the builder's `max_compensation` |
//! | `spawn_blocking(f).await` | `pool.spawn_async(f).await?.await` |
//! | `max_blocking_threads(n)` (and a queue without end) | `capacity(n)`, and a queue depth |
//! | `thread_keep_alive(d)` | `keep_alive(d)` |
//! | `JoinHandle::abort` (before the start) | [`cancel`](crate::JoinHandle::cancel) |
//! | `JoinError::is_panic`, `into_panic` | `JoinError::Panicked`, `into_panic` |
//! | `Runtime::shutdown_timeout(d)` | `release_timeout(d)` |
//!
//! The first `await` is the back-pressure: it ends when the task is accepted. The second is for
//! the value. Dropping the first takes the task back; dropping the second detaches it.
//!
//! ```
//! use anthill::Pool;
//!
//! async fn length(pool: &Pool, path: &'static str) -> Result<u64, Box<dyn std::error::Error>> {
//!     let opened = pool.spawn_async(move || std::fs::metadata(path)).await?;
//!     Ok(opened.await??.len())
//! }
//! # use std::future::Future;
//! # use std::task::{Context, Poll, Waker};
//! # let pool = Pool::builder().capacity(1).build()?;
//! # let mut future = std::pin::pin!(length(&pool, "Cargo.toml"));
//! # let bytes = loop {
//! #     match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
//! #         Poll::Ready(bytes) => break bytes?,
//! #         Poll::Pending => std::thread::yield_now(),
//! #     }
//! # };
//! assert_eq!(bytes, std::fs::read("Cargo.toml")?.len() as u64); // As any runtime yields it.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
