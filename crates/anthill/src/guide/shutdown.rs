//! Graceful shutdown: `wait_idle`, `release`, and drop policies.
//!
//! # Before `main` returns
//! When `main` returns, the process ends without waiting for its threads. To run all accepted tasks first, use
//! one of three ways.
//!
//! **`wait_idle`** waits until no task is in flight. The pool stays open.
//!
//! ```
//! use anthill::Pool;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! let pool = Pool::builder().capacity(2).build()?;
//! let sum = Arc::new(AtomicU32::new(0));
//! for n in 1..=10 {
//!     let sum = Arc::clone(&sum);
//!     pool.submit(move || sum.fetch_add(n, Ordering::Relaxed))?;
//! }
//! pool.wait_idle()?;
//! assert_eq!(sum.load(Ordering::Relaxed), 55);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The value of a handle may be published just after `wait_idle` returns, so join the handles, too.
//!
//! **`release`** closes the pool without blocking: waiting submitters get their tasks back, accepted tasks
//! still run, idle workers end. `wait_released` waits until all accepted tasks have run and all worker
//! threads are joined. It may be called any number of times, from any thread. `release_timeout` does both.
//!
//! ```
//! use anthill::{Pool, SubmitError};
//! use std::time::Duration;
//!
//! let pool = Pool::builder().capacity(2).queue_depth(8).build()?;
//! for _ in 0..8 {
//!     pool.submit(|| ())?;
//! }
//! pool.release_timeout(Duration::from_secs(60))?;
//! assert_eq!((pool.stats().completed, pool.running()), (8, 0));
//! assert!(matches!(pool.submit(|| ()), Err(SubmitError::Released(_))));
//! pool.wait_released()?; // Returns at once.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **[`DropPolicy::Join`](crate::DropPolicy::Join)**: the drop of the last handle releases the pool and waits for
//! its end.
//!
//! ```
//! use anthill::{DropPolicy, Pool};
//!
//! let pool = Pool::builder().capacity(2).drop_policy(DropPolicy::Join).build()?;
//! let handle = pool.spawn(|| "done")?;
//! drop(pool);
//! assert!(handle.is_finished());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The default is `Drain`: accepted tasks run, but the drop does not wait for them. The default
//! pool of the process is never dropped: call [`wait_idle`](crate::wait_idle).
//!
//! # In an async program
//! All of these calls block, and so does the drop under `DropPolicy::Join`. On a thread of a runtime, use
//! `wait_idle_async`, `wait_released_async` and `release_async` instead. The last two do not join threads: the last
//! worker's thread may still be dropping its thread-locals when the future is ready.
//!
//! ```
//! use anthill::Pool;
//!
//! # testkit::block_on(async {
//! let pool = Pool::builder().capacity(2).build()?;
//! pool.submit_async(|| ()).await?;
//! pool.release_async().await?; // Or `release_timeout_async`.
//! assert_eq!((pool.stats().completed, pool.running()), (1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Stopping sooner
//! `release_now` releases the pool and removes the tasks that have not started. A `FuncPool` returns their
//! arguments, a `Pool` their number. Their handles return [`Released`](crate::JoinError::Released).
//! `DropPolicy::Discard` does the same at the drop.
//!
//! ```
//! use anthill::FuncPool;
//! use std::sync::{Mutex, mpsc};
//!
//! let (open, gate) = mpsc::channel::<()>();
//! let gate = Mutex::new(gate);
//! let (start, started) = mpsc::channel();
//! let pool = FuncPool::builder(move |n: u32| {
//!     start.send(n).unwrap();
//!     _ = gate.lock().unwrap().recv();
//! })
//! .capacity(1)
//! .queue_depth(9)
//! .build()?;
//! for n in 0..3 {
//!     pool.submit(n)?;
//! }
//! assert_eq!(started.recv()?, 0);
//! assert_eq!(pool.release_now(), [1, 2]);
//! drop(open);
//! pool.wait_released()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Running tasks are never interrupted.
//!
//! # With a grace period
//! `release_timeout` gives accepted tasks time to run. If it times out, `release_now` removes the tasks that have
//! not started and [asks the running tasks to stop](super::cancelling). It does not wait for the running tasks;
//! `wait_released` does.
//!
//! ```
//! use anthill::{Pool, WaitError};
//! use std::time::Duration;
//!
//! let pool = Pool::builder().capacity(2).queue_depth(8).build()?;
//! for _ in 0..8 {
//!     pool.submit(|| ())?;
//! }
//! match pool.release_timeout(Duration::from_secs(60)) {
//!     Ok(()) => assert_eq!(pool.stats().completed, 8),
//!     Err(WaitError::TimedOut) => println!("{} tasks were not run", pool.release_now()),
//!     Err(other) => return Err(other.into()),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - Call `release_now` only after `TimedOut`. After [`Rebooted`](crate::WaitError::Rebooted) the pool is open
//!   again, and its tasks belong to the caller of `reboot`.
//! - A reboot between the two calls is not detected, and `release_now` would remove the new tasks. A program that
//!   reboots its pool must hold a mutex across these two calls, and across `reboot`.
//! - In an async program, use `release_timeout_async` instead of `release_timeout`. Both return `TimedOut` only after
//!   the time, also in a [forked child](super::forking) and in a process that may start no thread.
//! - `release_timeout` of a `MultiPool` reports an error for each pool: match on `WaitError::from(error)`.
//! - For a `ScheduledPool`, call `release`, then `wait_released_timeout`, then `release_now`.
//!
//! # Reopening
//! `reboot` reopens a released pool at any time, even while its workers are ending. Calls that wait for the
//! pool's end return [`Rebooted`](crate::WaitError::Rebooted).
//!
//! ```
//! use anthill::Pool;
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! assert!(pool.release());
//! assert!(!pool.release(), "already released");
//! assert!(pool.reboot());
//! assert_eq!(pool.spawn(|| 1)?.join()?, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Tasks that hold their pool
//! A task that owns a handle of its pool keeps the pool open. A task that submits itself again should hold a
//! [`WeakPool`](crate::WeakPool), and end when the upgrade fails.
//!
//! ```
//! use anthill::{Pool, WeakPool};
//! use std::sync::mpsc::{Sender, channel};
//!
//! fn tick(pool: WeakPool, ticks: Sender<()>) {
//!     if ticks.send(()).is_ok() && let Some(open) = pool.upgrade() {
//!         _ = open.try_submit(move || tick(pool, ticks));
//!     }
//! }
//!
//! let pool = Pool::builder().capacity(1).queue_depth(1).build()?;
//! let (ticks, received) = channel();
//! let weak = pool.downgrade();
//! pool.submit(move || tick(weak, ticks))?;
//! assert_eq!(received.iter().take(3).count(), 3);
//! drop(pool);
//! while received.recv().is_ok() {} // Ends after the pool was dropped.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
