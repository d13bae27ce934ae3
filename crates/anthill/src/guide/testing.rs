//! Testing code that uses a pool, without sleeping.
//!
//! # Time
//! Every time-out and the keep-alive go through the pool's [`Clock`](crate::Clock). Give it a
//! [`ManualClock`](crate::ManualClock), let the waiter go to sleep, *see* that it sleeps, and move
//! time by hand: a test of an hour's time-out takes no time and cannot be too slow.
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
//!     clock.wait_for_sleepers(1); // It is enqueued as a waiter.
//!     clock.advance(HOUR);
//!     let refused = waiter.join().unwrap();
//!     assert!(matches!(refused, Err(SubmitError::TimedOut(_))));
//! });
//! drop(open);
//! pool.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An idle worker sleeps for its keep-alive, so it is a sleeper of the clock, too:
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
//!     thread::yield_now(); // It is awake, and on its way out.
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Order
//! Hold tasks at a channel or a barrier, as on these pages: a task that waits at a gate keeps its
//! worker busy until the test has made its assertions. `waiting()` says when a submitter waits for
//! room. [`wait_idle`](crate::WorkerPool::wait_idle) says when all is done.
//!
//! # Threads that cannot be started
//! [`thread_gate`](crate::Builder::thread_gate) is asked before each start; its error counts as
//! the operating system's refusal.
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
//! task(); // It came back.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
