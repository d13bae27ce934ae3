//! Migrating from threadpool, rayon, or tokio's `spawn_blocking`.
//!
//! # threadpool
//! | threadpool | anthill |
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
//! threadpool's queue is unlimited. Replace `Unlimited` by a depth to make submitters wait at a full queue.
//! Threads start when there is work (`prestart(n)` starts them at once), a panic does not end its worker, and
//! `wait_idle` on a worker returns an error instead of hanging.
//!
//! # rayon
//! Keep rayon for splitting a computation over the cores (`par_iter`, `join`). Use a pool for tasks that block, and
//! for queues that must be bounded.
//!
//! | rayon | anthill |
//! |---|---|
//! | `ThreadPoolBuilder::num_threads(n)` | `capacity(n)`, and `min_workers(n)` to keep them |
//! | `pool.spawn(f)` | `submit(f)`; a panic does not abort the process |
//! | `pool.install(f)` | `spawn(f)`, then `join` |
//! | `current_thread_index().is_some()` | `is_own_worker()` |
//! | `map_init`, a `thread_local!` per thread | [`FuncPool::builder_with_state`](crate::FuncPool::builder_with_state); the state is dropped with its worker |
//! | `start_handler`, `exit_handler`, `panic_handler` | `start_hook`, `stop_hook`, `panic_hook` |
//! | `scope(\|s\| s.spawn(..))` | [`scope`](super::scopes), for tasks that block |
//! | `par_iter().map(f)`, if `f` blocks | [`map`](super::mapping) |
//! | `join`, splitting a computation | not provided |
//!
//! A rayon worker that waits runs arbitrary other tasks. A worker of anthill that waits runs only the task it waits
//! for. rayon's global pool has an unlimited queue; the default pool of anthill is bounded.
//!
//! # `spawn_blocking`
//! | tokio | anthill |
//! |---|---|
//! | `block_in_place(f)` | [`blocking(f)`](crate::blocking), within the builder's `max_compensation` |
//! | `spawn_blocking(f).await` | `pool.spawn_async(f).await?.await` |
//! | `max_blocking_threads(n)`, with an unlimited queue | `capacity(n)`, and a queue depth |
//! | `thread_keep_alive(d)` | `keep_alive(d)` |
//! | `JoinHandle::abort` (before the start) | [`cancel`](crate::JoinHandle::cancel) |
//! | `JoinError::is_panic`, `into_panic` | `JoinError::Panicked`, `into_panic` |
//! | `Runtime::shutdown_timeout(d)` | `release_timeout(d)` |
//!
//! The first `await` waits until the task is accepted, which is the backpressure; the second waits for the value.
//! Dropping the first future withdraws the task; dropping the second detaches it.
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
//! assert_eq!(bytes, std::fs::read("Cargo.toml")?.len() as u64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
