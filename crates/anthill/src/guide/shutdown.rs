//! Graceful shutdown without losing tasks: `wait_idle`, `release`, and drop policies.
//!
//! # Before `main` returns
//! When `main` returns, the process ends and does not wait for its threads. So wait first, in one of three
//! ways.
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
//! (A handle's value is published just after the pool's figures change, so join those you hold.)
//!
//! **`release`** closes the pool without blocking: waiting submitters get their tasks back, accepted tasks
//! still run, idle workers end. `wait_released` waits until all accepted tasks have run and all worker
//! threads are joined. Any number of threads may call it any number of times, even after a time-out.
//! `release_timeout` does both.
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
//! **[`DropPolicy::Join`](crate::DropPolicy::Join)** makes the drop of the last handle do the same.
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
//! All of these calls block, and so does the drop under `DropPolicy::Join`. On a thread of a runtime, they
//! delay all other futures there. Use `wait_idle_async`, `wait_released_async` and `release_async`, which work
//! under any runtime. They do not join threads: the last worker's thread may still be dropping its
//! thread-locals when the future is ready. A later drop of the pool waits only for that.
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
//! No call ends a task that runs.
//!
//! # With a grace period
//! `release_timeout` gives accepted tasks time to run. If the time runs out, `release_now` removes the
//! tasks that have not started and [asks the running ones to stop](super::cancelling). It does not wait
//! for these; `wait_released` does.
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
//! - Only a timeout may lead to `release_now`. After [`Rebooted`](crate::WaitError::Rebooted) the pool is
//!   open again, and its tasks belong to the caller of `reboot`.
//! - A reboot between the two calls is not detected: `release_now` then closes the reopened pool and
//!   removes its new tasks. A program that reboots its pool holds one mutex across the two calls and
//!   across `reboot`.
//! - In an async program, `release_timeout_async` takes the place of `release_timeout`.
//! - A `MultiPool`'s `release_timeout` reports an error for each pool: match on `WaitError::from(error)`.
//! - A `ScheduledPool` uses `release`, then `wait_released_timeout`. Its `release_now` returns the schedules that
//!   have not started.
//!
//! # Opening again
//! `reboot` opens a released pool, at any time: workers that have not ended go on. A call that
//! waits for the end, which now does not come, returns [`Rebooted`](crate::WaitError::Rebooted).
//!
//! ```
//! use anthill::Pool;
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! assert!(pool.release());
//! assert!(!pool.release(), "it is released already");
//! assert!(pool.reboot());
//! assert_eq!(pool.spawn(|| 1)?.join()?, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Tasks that hold their pool
//! A task that owns a handle of its pool keeps the pool open. A task that submits itself repeatedly should hold
//! a [`WeakPool`](crate::WeakPool), and stop when the upgrade fails.
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
//! while received.recv().is_ok() {} // Ends when the pool is gone.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
