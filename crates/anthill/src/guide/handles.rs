//! Join handles: getting a task's value, and cancelling the task.
//!
//! `spawn` returns a [`JoinHandle`](crate::JoinHandle), which can be joined (`join`, `join_timeout`, `try_join`)
//! or awaited under any runtime. Dropping the handle detaches the task: it still runs, and its value is dropped.
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
//! When a join returns, the pool has already freed the task's room and updated its statistics. So with capacity
//! 1, a `try_submit` after the `join` succeeds.
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
//! A worker that joins an unstarted task of its own pool runs that task in place. So tasks can join the tasks they
//! spawned, even if no other worker is free, up to the [nesting limit](super::nesting). The worker runs no *other*
//! task during the join (there is no work stealing), so unrelated tasks never run on its stack or while it holds
//! locks. If the joined task is running elsewhere, the join blocks.
//!
//! At the [nesting limit](super::nesting) the join returns
//! [`JoinError::WouldDeadlock`](crate::JoinError::WouldDeadlock), and the task runs later. A join with a time
//! limit runs no task in place, because it could exceed the limit.
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
//! // One worker is enough: at a full pool, a task that a worker spawns runs in place.
//! let pool = Pool::builder().capacity(1).build()?;
//! let inner = pool.clone();
//! assert_eq!(pool.spawn(move || fibonacci(&inner, 10))?.join()?, 55);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Two tasks that join each other deadlock, as two threads would. `wait_idle` and `wait_released` on one of the
//! pool's own workers return [`WouldDeadlock`](crate::WaitError::WouldDeadlock).
//!
//! A task that *blocks on a future* of its own pool holds its worker, so a poll on a worker of the same pool does
//! what the blocking call does there: `block_on(handle)` runs the task in place, and
//! `block_on(pool.wait_idle_async())` returns `WouldDeadlock`. A future that was only created on a worker, and is
//! polled by another thread, waits. `docs/decisions/deadlocks.md` in the repository
//! lists all calls that wait.
//!
//! # Cancelling
//! `cancel` removes a task that has not started. It frees the room at once and drops the task's captures on the
//! calling thread. A running task is not interrupted but [asked to stop](super::cancelling).
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
