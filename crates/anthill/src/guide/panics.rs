//! What becomes of a panic in a task.
//!
//! It is caught, counted, shown to the panic hook, and given to the handle if there is one. The
//! worker lives on, and the pool's figures stay exact. Nothing is printed beyond what std's own
//! panic hook prints; with the feature `log` or `tracing` it is reported there too.
//!
//! ```
//! use anthill::{JoinError, Pool};
//! use std::sync::{Arc, Mutex};
//!
//! let reports = Arc::new(Mutex::new(Vec::new()));
//! let written = Arc::clone(&reports);
//! let pool = Pool::builder()
//!     .capacity(1)
//!     .name("unpack")
//!     .panic_hook(move |panic| {
//!         let message = panic.message().unwrap_or("no text").to_owned();
//!         written.lock().unwrap().push((panic.pool().to_owned(), message));
//!     })
//!     .build()?;
//!
//! let handle = pool.spawn(|| -> u32 { panic!("not an archive") })?;
//! match handle.join() {
//!     Err(JoinError::Panicked(panicked)) => {
//!         assert_eq!(panicked.message(), Some("not an archive"));
//!         // To let it go on here: std::panic::resume_unwind(panicked.into_payload())
//!     }
//!     other => unreachable!("{other:?}"),
//! }
//! assert_eq!(*reports.lock().unwrap(), [("unpack".to_owned(), "not an archive".to_owned())]);
//! assert_eq!((pool.stats().panicked, pool.running()), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The hook returns before the handle learns of the panic, and before
//! [`wait_released`](crate::WorkerPool::wait_released) does. A panic in the hook itself, in a start
//! or stop hook, in the destructor of what a task captured or returned, in a waker, or in the
//! destructor of a payload goes no further either.
//!
//! A program built with `panic = "abort"` ends at the first panic, here as everywhere.
//!
//! A panicking task may leave behind what it shares with others half changed. Locks of std are
//! poisoned for that reason; a pool cannot know.
