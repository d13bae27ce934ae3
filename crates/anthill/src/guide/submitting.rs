//! Submitting tasks, and what happens at a full pool.
//!
//! While the pool has room, all of these calls accept the task and return. They differ at a full pool:
//!
//! | call | at a full pool | on one of the pool's own workers, at a full pool |
//! |---|---|---|
//! | `submit`, `spawn` | waits in the wait queue | runs the task in place ([`nesting`](super::nesting)) |
//! | `try_submit`, `try_spawn` | returns `Full` | returns `Full` |
//! | `submit_timeout`, `spawn_timeout` | waits for a duration, or until an instant | runs the task in place |
//! | `submit_async`, `spawn_async` | the future waits in the wait queue | the poll runs the task in place |
//!
//! A released pool refuses all tasks. [`on_full`](crate::Builder::on_full) of the builder sets a policy for
//! `submit` and `spawn` at a full pool: wait, refuse, run the task in the caller, or discard the oldest or the
//! newest task. The last two policies require a [`discard_hook`](crate::Builder::discard_hook), which is called
//! for each discarded task. [`max_waiting`](crate::Builder::max_waiting) limits the number of waiters; further
//! submitters are refused.
//!
//! A submit returns when the task is *accepted*, not when it has run. To wait for its end, use a
//! [handle](super::handles).
//!
//! # Refused tasks are returned
//! The error contains the unrun task, which the caller can submit elsewhere or later, run itself, or drop to shed
//! load. `?` into a boxed error needs captures that are `Sync`. `Cell`, `Receiver` and most database connections
//! are not; [`.map_err(SubmitError::without_task)?`](crate::SubmitError::without_task) drops the task and returns
//! the reason.
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
//! pool.submit_timeout(|| (), Duration::from_secs(60))?; // There is room before the time limit.
//! pool.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # In async code
//! Threads and futures wait in one queue, first in, first out. A future enters the queue at its first poll. When
//! its turn comes, its task is accepted, even if the future is not being polled. Dropping the future before that
//! drops the task. The futures work under any runtime; this example uses none:
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
//! # Reserving room
//! A caller can reserve room before it has a task, for example in the `poll_ready` of a `tower` service, or if
//! creating the task is expensive. At a full pool, `reserve`, `try_reserve`, `reserve_timeout` and `reserve_async`
//! behave like the corresponding submits, but return `Full` on one of the pool's own workers. The returned
//! [`Permit`](crate::Permit) submits one task, which cannot fail. Dropping the permit frees the room. The
//! documentation of [`reserve_async`](crate::WorkerPool::reserve_async) shows a `poll_ready`.
//!
//! ```
//! use anthill::Pool;
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! let permit = pool.reserve()?;
//! let order = String::from("fetched only after there was room for it");
//! assert!(permit.spawn(move || order.len()).join()? > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Other errors
//! `NoThread`: the pool has no worker, and the operating system refused to start the first one. If the pool has a
//! worker, a failed thread start is not an error: the task is accepted, and later submits and task ends try again
//! to start a thread.
//!
//! On a host without threads, a pool with `on_full(OnFull::RunInCaller)` runs the tasks of `submit`, `spawn`,
//! `submit_batch` and of a group's calls on the calling thread. Mappings, scopes and `invoke_any` do so in every pool.
//! Other calls return the task: async calls, `reserve`, and keyed tasks, whose order needs a worker.
//!
//! `Forked`: see [`forking`](super::forking).
