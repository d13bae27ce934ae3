//! Panics of tasks: how they are caught, reported and returned.
//!
//! The pool catches the panic of a task, counts it, calls the panic hook, and passes the panic to the handle if
//! there is one. The worker survives. The pool prints nothing; std's panic hook does, and the features `log` and
//! `tracing` report the panic there, too.
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
//!         // To continue the panic: std::panic::resume_unwind(panicked.into_payload())
//!     }
//!     other => unreachable!("{other:?}"),
//! }
//! assert_eq!(*reports.lock().unwrap(), [("unpack".to_owned(), "not an archive".to_owned())]);
//! assert_eq!((pool.stats().panicked, pool.running()), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The hook has returned before a join of the handle or [`wait_released`](crate::WorkerPool::wait_released)
//! returns. The pool also catches panics of the panic hook itself, of start and stop hooks, of wakers, and of the
//! destructors of captures, values and payloads.
//!
//! A program built with `panic = "abort"` ends at the first panic.
//!
//! A panicking task may leave shared data inconsistent. The pool cannot detect that; std's locks are poisoned.
