//! Blocking, refusing, timed and asynchronous submits.
//!
//! While there is room all of them do the same: the task is accepted and the call returns. What
//! differs is the full pool, and it is chosen by the call, and by the builder for those that do not say it:
//!
//! | call | at a full pool | on one of the pool's own workers, at a full pool |
//! |---|---|---|
//! | `submit`, `spawn` | waits in the wait queue | runs the task in place ([`nesting`](super::nesting)) |
//! | `try_submit`, `try_spawn` | refuses | refuses |
//! | `submit_timeout`, `submit_timeout`, `spawn_..` | waits so long | runs it in place |
//! | `submit_async`, `spawn_async` | a future, waits in the wait queue | waits in the wait queue |
//!
//! A released pool refuses all of them. What `submit` and `spawn` do at a full pool is the builder's to say:
//! with [`on_full`](crate::Builder::on_full) they refuse as well, run the task in the caller, or discard the oldest
//! or the newest task. What is discarded goes to a [`discard_hook`](crate::Builder::discard_hook), without which such a
//! pool is not built. With
//! [`max_waiting`](crate::Builder::max_waiting) a submitter that would be one waiter too many is refused.
//!
//! A wait ends when the task is *accepted*, not when it has run. For that, take a
//! [handle](super::handles).
//!
//! # A refused task comes back
//! Unrun and whole, in the error, so it can be tried elsewhere or later, run by the caller (Java's
//! `CallerRunsPolicy`), or dropped to shed load. `?` works too, if everything the task captures is `Sync`.
//! A `Cell`, a `Receiver` and most database connections are not: then
//! `.map_err(SubmitError::without_task)?` passes the reason on and drops the task. That always compiles
//! ([`SubmitError::without_task`](crate::SubmitError::without_task)).
//!
//! ```
//! use anthill::{FuncPool, SubmitError};
//! use std::sync::mpsc;
//!
//! let (open, gate) = mpsc::channel::<()>();
//! let gate = std::sync::Mutex::new(gate);
//! let pool = FuncPool::builder(move |_: String| _ = gate.lock().unwrap().recv())
//!     .capacity(1)
//!     .build()?;
//! pool.submit("first".to_owned())?; // The only worker waits at the gate.
//!
//! match pool.try_submit("second".to_owned()) {
//!     Err(SubmitError::Full(task)) => assert_eq!(task, "second"),
//!     other => unreachable!("{other:?}"),
//! }
//! drop(open);
//! pool.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # With a time limit
//! ```
//! use anthill::{Pool, SubmitError};
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! let (open, gate) = mpsc::channel::<()>();
//! pool.submit(move || gate.recv())?;
//!
//! let refused = pool.submit_timeout(|| (), Duration::from_millis(1));
//! assert!(matches!(refused, Err(SubmitError::TimedOut(_))));
//!
//! drop(open);
//! pool.submit_timeout(|| (), Duration::from_secs(60))?; // Room comes first.
//! pool.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # As a future
//! Threads and futures wait in one queue, first in, first out. A future enters it when it is first
//! polled; from then on its task is accepted in its turn whether it is polled or not. Dropped before
//! that, it takes its task with it. Any runtime will do, here none at all:
//!
//! ```
//! use anthill::Pool;
//! use std::pin::pin;
//! use std::sync::mpsc;
//! use std::task::{Context, Poll, Waker};
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! let (open, gate) = mpsc::channel::<()>();
//! pool.submit(move || gate.recv())?;
//!
//! let (done, ran) = mpsc::channel();
//! let mut entering = pin!(pool.submit_async(move || done.send("ran").unwrap()));
//! let mut context = Context::from_waker(Waker::noop());
//! assert!(entering.as_mut().poll(&mut context).is_pending());
//! assert_eq!(pool.waiting(), 1);
//!
//! drop(open);
//! assert_eq!(ran.recv()?, "ran"); // The future was not polled meanwhile.
//! assert!(matches!(entering.poll(&mut context), Poll::Ready(Ok(()))));
//! # use std::future::Future;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Room first, the task later
//! A caller that is to say whether it can take more work before it gets any (a `tower` service), or
//! whose task is not to be made in vain, reserves room: `reserve`, `try_reserve`, `reserve_timeout`,
//! `reserve_timeout` and `reserve_async` do at a full pool what their submits do, but that an own
//! worker is refused. The [`Permit`](crate::Permit) hands one task over without any way to fail, and
//! gives its room back if it is dropped. The page of
//! [`reserve_async`](crate::WorkerPool::reserve_async) shows a `poll_ready`.
//!
//! ```
//! use anthill::Pool;
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! let permit = pool.reserve()?;
//! let order = String::from("taken off the queue now that there is room for it");
//! assert!(permit.spawn(move || order.len()).join()? > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What else may come back
//! `NoThread`: there is no worker and the operating system refused the first one. While a worker
//! lives, a refused thread is no error: the task is accepted and each later submit and task end
//! tries again. `Forked`: see [`forking`](super::forking).
