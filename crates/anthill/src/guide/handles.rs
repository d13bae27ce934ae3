//! Join handles: joining, joining inside tasks, cancelling.
//!
//! `spawn` returns a [`JoinHandle`](crate::JoinHandle). It can be joined (`join`, `join_timeout`, `try_join`),
//! and it is a future under any runtime. Dropping it detaches the task, which still runs; its value is dropped
//! as a part of the task.
//!
//! ```
//! use anthill::FuncPool;
//!
//! let lengths = FuncPool::builder(|word: &'static str| word.len()).capacity(2).build()?;
//! let ant = lengths.spawn("ant")?;
//! let hill = lengths.spawn("hill")?;
//! assert_eq!(ant.join()? + hill.join()?, 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! When a join returns, the pool's room and figures show the task's end already: with capacity 1,
//! `join` and then `try_submit` succeeds.
//!
//! # Joining with a time limit
//! A join that times out returns the handle. The task continues.
//!
//! ```
//! use anthill::Pool;
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! let (send, receive) = mpsc::channel();
//! let handle = pool.spawn(move || receive.recv())?;
//!
//! let Err(handle) = handle.join_timeout(Duration::from_millis(1)) else {
//!     unreachable!("nothing has been sent")
//! };
//! send.send(5)?;
//! assert_eq!(handle.join()?, Ok(5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Joining inside a task
//! A worker that joins an unstarted task of its own pool runs it in place. So tasks that wait for tasks they
//! spawned need no free worker. The worker runs no *other* task meanwhile (no work stealing), so unrelated
//! tasks do not run on its stack and under its locks. If the awaited task is running elsewhere, the join
//! blocks. A task that is joined in place frees its room at once.
//!
//! At the [nesting limit](super::nesting) the join returns
//! [`JoinError::WouldDeadlock`](crate::JoinError::WouldDeadlock), and the task runs later. A join with a time
//! limit runs no task in place, because it could not keep the limit.
//!
//! ```
//! use anthill::Pool;
//!
//! fn fibonacci(pool: &Pool, n: u32) -> u64 {
//!     if n < 2 {
//!         return u64::from(n);
//!     }
//!     let inner = pool.clone();
//!     let left = pool.spawn(move || fibonacci(&inner, n - 1)).unwrap();
//!     fibonacci(pool, n - 2) + left.join().unwrap()
//! }
//!
//! // One worker is enough: a full pool runs what its own worker spawns in place.
//! let pool = Pool::builder().capacity(1).build()?;
//! let inner = pool.clone();
//! assert_eq!(pool.spawn(move || fibonacci(&inner, 10))?.join()?, 55);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Two tasks that join each other wait for ever, as two threads would. Waiting for the whole pool
//! on one of its workers is refused: [`WouldDeadlock`](crate::WaitError::WouldDeadlock).
//!
//! A poll runs nothing in place either: it is not to block. So a task that *blocks on a future* of
//! its own pool (`block_on(handle)`, `block_on(pool.submit_async(..))`) holds its worker meanwhile,
//! and waits for ever if every worker does so. In a task use `join` and `submit`; or let each poll be
//! a task of its own, as an executor on the pool does.
//!
//! # Cancelling
//! A task that has not started can be taken back. Its room is free at once, and what it captured
//! is dropped on the calling thread. A task that runs is not interrupted: it is asked to
//! stop, and may [look](super::cancelling) whether it was.
//!
//! ```
//! use anthill::{JoinError, Pool};
//! use std::sync::{Arc, mpsc};
//!
//! let pool = Pool::builder().capacity(1).queue_depth(1).build()?;
//! let (open, gate) = mpsc::channel::<()>();
//! pool.submit(move || gate.recv())?; // Holds the only worker.
//!
//! let captured = Arc::new(());
//! let held = Arc::clone(&captured);
//! let queued = pool.spawn(move || drop(held))?;
//! assert!(queued.cancel());
//! assert_eq!(Arc::strong_count(&captured), 1);
//! assert!(matches!(queued.join(), Err(JoinError::Cancelled)));
//! # drop(open);
//! # pool.wait_idle()?;
//! # assert_eq!(pool.stats().cancelled, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
