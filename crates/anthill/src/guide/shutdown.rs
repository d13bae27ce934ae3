//! Graceful shutdown, without losing a task: `wait_idle`, `release`, and drop policies.
//!
//! # The `main` that returns
//! When `main` returns, the process ends, whatever its threads are doing. So wait before it does,
//! in one of three ways.
//!
//! **`wait_idle`** waits until nothing is in flight; the pool stays open.
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
//! **`release`** accepts nothing from now on and does not block: waiting submitters get their tasks
//! back, accepted tasks still run, idle workers end. `wait_released` waits for the end: every
//! accepted task has run and every worker's *thread* is gone, its thread-locals dropped. It may be
//! called any number of times, by any number of threads, also after it timed out.
//! `release_timeout` is both in one.
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
//! pool.wait_released()?; // Still so.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **[`DropPolicy::Join`](crate::DropPolicy::Join)** makes the drop of the last handle do that.
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
//! pool of the process is never dropped, so it takes a [`wait_idle`](crate::wait_idle).
//!
//! # In an async program
//! All of these block, and so does the drop under `DropPolicy::Join`: on a thread of a runtime, they
//! hold up every other future there. `wait_idle_async`, `wait_released_async` and `release_async` are
//! futures, and need no runtime of their own. They join no threads: a future is ready when the last
//! worker is gone, whose thread may still drop its thread-locals. After it the drop has nothing to
//! wait for but that.
//!
//! ```
//! use anthill::Pool;
//!
//! # testkit::block_on(async {
//! let pool = Pool::builder().capacity(2).build()?;
//! pool.submit_async(|| ()).await?;
//! pool.release_async(None).await?; // Or with a deadline, by the pool's clock.
//! assert_eq!((pool.stats().completed, pool.running()), (1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Stopping sooner
//! `release_now` releases and takes out what has not started: a typed pool gives the arguments
//! back, a pool of closures says how many there were. Their handles end with
//! [`Released`](crate::JoinError::Released). `DropPolicy::Discard` does it at the drop.
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
//! - In an async program, `release_async` with a deadline takes the place of `release_timeout`.
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
//! A task that owns a handle of its pool keeps it open. One that submits itself again and again
//! holds a [`WeakPool`](crate::WeakPool) instead, and stops when it can no longer be upgraded.
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
//! while received.recv().is_ok() {} // It ends by itself.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
