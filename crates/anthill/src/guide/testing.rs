//! Testing code that uses a pool, without sleeping.
//!
//! # Time
//! All time-outs and the keep-alive use the pool's [`Clock`](crate::Clock). A test passes a
//! [`ManualClock`](crate::ManualClock) to the builder, waits until a thread sleeps on the clock, and advances it.
//! So a test of a time-out of an hour takes no time and does not depend on the machine's speed.
//!
//! ```
//! use anthill::{ManualClock, Pool, SubmitError};
//! use std::sync::mpsc;
//! use std::thread;
//! use std::time::Duration;
//!
//! const HOUR: Duration = Duration::from_secs(3600);
//! let clock = ManualClock::new();
//! let pool = Pool::builder().capacity(1).clock(clock.clone()).build()?;
//! let (open, gate) = mpsc::channel::<()>();
//! pool.submit(move || gate.recv())?; // Holds the only worker.
//!
//! thread::scope(|scope| {
//!     let waiter = scope.spawn(|| pool.submit_timeout(|| (), HOUR));
//!     clock.wait_for_sleepers(1); // The submitter waits for room.
//!     clock.advance(HOUR);
//!     let refused = waiter.join().unwrap();
//!     assert!(matches!(refused, Err(SubmitError::TimedOut(_))));
//! });
//! drop(open);
//! pool.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An idle worker also sleeps on the clock, for its keep-alive:
//!
//! ```
//! use anthill::{ManualClock, Pool};
//! use std::thread;
//! use std::time::Duration;
//!
//! let clock = ManualClock::new();
//! let pool = Pool::builder()
//!     .capacity(1)
//!     .keep_alive(Duration::from_secs(10))
//!     .clock(clock.clone())
//!     .build()?;
//! pool.spawn(|| ())?.join()?;
//! clock.wait_for_sleepers(1);
//! clock.advance(Duration::from_secs(9));
//! assert_eq!(pool.running(), 1);
//! clock.advance(Duration::from_secs(1));
//! while pool.running() > 0 {
//!     thread::yield_now(); // The worker is ending.
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Code that waits, works and waits again, such as retries and series, is tested in rounds.
//! [`advance_to_next`](crate::ManualClock::advance_to_next) advances to the next due time, and returns when as many
//! threads wait on the clock as before. Workers whose keep-alive does not end do not wait on it:
//!
//! ```
//! use anthill::{ManualClock, Pool, ScheduledPool};
//! use std::time::Duration;
//!
//! let clock = ManualClock::new();
//! let pool = Pool::builder().capacity(1).keep_alive(None).clock(clock.clone()).build()?;
//! let scheduled = ScheduledPool::new(pool);
//! let minute = Duration::from_secs(60);
//! let sweep = scheduled.spawn_with_fixed_delay(minute, minute, || println!("sweep"))?;
//! for round in 1..=3 {
//!     assert_eq!(clock.advance_to_next(), minute);
//!     assert_eq!(sweep.runs(), round);
//! }
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # Order
//! To keep workers busy until the test has made its assertions, let tasks block at a channel or a barrier, as on
//! these pages. `waiting()` shows whether a submitter waits for room.
//! [`wait_idle`](crate::WorkerPool::wait_idle) returns when all tasks have ended.
//!
//! # Threads that cannot be started
//! The pool calls [`thread_gate`](crate::Builder::thread_gate) before it starts a thread. An error has the same
//! effect as a refusal by the operating system.
//!
//! ```
//! use anthill::{Pool, SubmitError};
//! use std::io;
//!
//! let pool = Pool::builder()
//!     .capacity(1)
//!     .thread_gate(|| Err(io::ErrorKind::WouldBlock.into()))
//!     .build()?;
//! let Err(SubmitError::NoThread(task, why)) = pool.submit(|| ()) else {
//!     unreachable!("there is no worker")
//! };
//! assert_eq!(why.kind(), io::ErrorKind::WouldBlock);
//! task(); // The error contains the task.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
