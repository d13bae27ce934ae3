//! Bounded pools of futures, or a runtime's own `spawn`.
//!
//! A [`Pool`](crate::Pool) holds a thread for each running task. An [`AsyncPool`](crate::AsyncPool) (feature `async-pool`)
//! runs futures: fifty thousand may wait for sockets or timers on two threads. Both have a hard capacity, one fair wait
//! queue of threads and futures, and the same errors.
//!
//! | you have | use |
//! |---|---|
//! | more asynchronous work than should run at once: pages to fetch, requests to forward, messages to send | `AsyncPool` |
//! | calls that block: files, databases, DNS, foreign functions | [`Pool`](crate::Pool), also [from async code](super::asynchronous) |
//! | one task per connection, and nothing that has to be bounded | the runtime's own `spawn` |
//! | a few futures that belong to one task | `join!`, `select!`, `FuturesUnordered` |
//! | futures that are not `Send` | a runtime with a local executor |
//! | work in the request's own future, for example a call to a database with a pool of connections | a semaphore, or the bound of that pool |
//!
//! ```
//! use anthill::AsyncPool;
//! use anthill::async_pool::{sleep, timeout};
//! use std::time::Duration;
//!
//! async fn fetch(page: u32) -> String {
//!     sleep(Duration::from_millis(1)).await; // A request.
//!     format!("page {page}")
//! }
//!
//! let pool = AsyncPool::builder().name("fetch").capacity(100).build()?;
//! let group = pool.group();
//! for page in 0..1_000 {
//!     // Blocks this thread while 100 are running. In a future: `spawn_async(..).await`.
//!     group.spawn(timeout(Duration::from_secs(60), fetch(page)))?;
//! }
//! while let Some(text) = group.next() {
//!     assert!(text??.starts_with("page"));
//! }
//! assert!(pool.stats().peak_live <= 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Why not a semaphore and `spawn`
//! The usual bound in async code is a semaphore: acquire a permit, then `spawn` a future that owns it. That is enough for many programs.
//! The differences are in the corners:
//!
//! | | semaphore and tokio's `spawn` | `AsyncPool` |
//! |---|---|---|
//! | a future that is aborted | its permit is returned when a worker drops the future; `abort` does not wait for that | [`cancelled`](crate::async_pool::JoinHandle::cancelled) waits until the future has been dropped and its room is free |
//! | a permit is granted to a future that nobody polls | the permit is idle until that future is polled or dropped | `submit_async` leaves its future in the wait queue, and it starts without another poll |
//! | submits from threads | block on the runtime, or a channel | `submit`, `spawn`, in the same queue as futures |
//! | the bound changes at run time | permits are forgotten one by one as they are returned | `tune` |
//! | shutdown | count the tasks yourself | `release`, `wait_released`; or `release_now`, which drops all futures |
//! | a task that waits for a task of its own full pool | waits for ever | lends it its room |
//!
//! # When the runtime's `spawn` is the better choice
//! - **Nothing has to be bounded**, or the number of tasks is bounded by something else, such as a limit on connections.
//! - **The tasks mostly do I/O of that runtime.** A runtime wakes a task on a thread that polls its sockets. Under a pool, the
//!   runtime's thread wakes a worker of the pool, which costs a hand-over between threads for each event.
//! - **The program relies on the runtime's tools**: tokio's console and paused clock, `spawn_local`, `block_in_place`.
//! - **A second set of worker threads is unwelcome**, for example because the cores are divided among pinned threads.
//!
//! # Sockets and timers of tokio
//! Workers that enter a runtime can poll its sockets, timers and files. The runtime has to run: a multi-thread
//! runtime has its own threads, a current-thread runtime needs a thread that is in its `block_on`.
//!
//! ```
//! use anthill::AsyncPool;
//! use std::time::Duration;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let runtime = tokio::runtime::Handle::current();
//!     let pool = AsyncPool::builder()
//!         .capacity(100)
//!         .around_worker(move |run| {
//!             let _entered = runtime.enter();
//!             run(); // Until the pool ends.
//!         })
//!         .build()?;
//!     let greeting = pool.spawn_async(async {
//!         let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//!         let client = tokio::net::TcpStream::connect(listener.local_addr()?);
//!         let (client, server) = (client.await?, listener.accept().await?.0);
//!         tokio::time::sleep(Duration::from_millis(1)).await;
//!         server.try_write(b"hello")?;
//!         client.readable().await?;
//!         let mut greeting = [0; 5];
//!         client.try_read(&mut greeting)?;
//!         std::io::Result::Ok(greeting)
//!     });
//!     assert_eq!(&greeting.await?.await??, b"hello");
//!     Ok(())
//! }
//! ```
//!
//! `async_pool::sleep` and `timeout` cost less than the runtime's timers on the pool's workers: an entry in the worker's
//! heap. async-io's sockets need no guard.
//!
//! # Many items
//! [`map`](crate::AsyncPool::map) pulls an item only when there is room for its future, and its results come in order or as
//! completed. Its futures run on the pool, also while the consumer is busy with a result. A buffered stream of futures polls
//! none of them in that time, so their time-outs expire and their peers hang up.
//!
//! ```
//! use anthill::AsyncPool;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let pool = AsyncPool::builder().capacity(100).build()?;
//!     let mut squares = pool.map(1..=1_000_u64, 10, |n| async move { n * n });
//!     let mut sum = 0;
//!     while let Some(square) = squares.next_async().await {
//!         sum += square?;
//!     }
//!     assert_eq!(sum, 333_833_500);
//!
//!     // Stops at the first `Err`, and returns after the other futures have been dropped.
//!     let parse = |text: &'static str| async move { text.parse::<u8>().map(drop) };
//!     let failed = pool.for_each_concurrent(["1", "2", "x"], 10, parse).await?;
//!     assert!(failed.is_err());
//!     Ok(())
//! }
//! ```
//!
//! # Pitfalls
//! - **A future that blocks holds a worker.** The other workers take over its timers and queued tasks, but not its thread. Use
//!   a `Pool` for blocking calls.
//! - **`submit` blocks its thread** at a full pool. In async code call `submit_async`. On an own worker, `submit` is refused.
//! - **A permit is room.** A permit that is kept while its owner waits for something else leaves room unused.
//! - **`cancel` is a request.** The future is dropped at its next suspension, so a future that never suspends runs to its end.
