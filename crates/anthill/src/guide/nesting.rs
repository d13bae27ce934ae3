//! Tasks that submit to their own pool (re-entrancy), and locks held meanwhile.
//!
//! In a bounded pool whose tasks wait for room in it, every worker may end up waiting, and none is
//! left to make room: a deadlock. So a blocking submit *on one of the pool's own workers* does not
//! wait at a full pool. [`within_worker`](crate::Builder::within_worker) says what it does instead:
//!
//! | [`WithinWorker`](crate::WithinWorker) | at a full pool |
//! |---|---|
//! | `RunInPlace` (default) | runs the task at once, inside the one that submits it |
//! | `Refuse` | `Full`, with the task |
//! | `Block` | waits as elsewhere; a deadlock if all workers do it |
//!
//! `try_submit` refuses and `submit_async` waits in the wait queue, here as elsewhere.
//!
//! ```
//! use anthill::Pool;
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! let inner = pool.clone();
//! let (outside, inside) = pool
//!     .spawn(move || {
//!         let here = std::thread::current().id();
//!         let there = inner.spawn(|| std::thread::current().id()).unwrap();
//!         (here, there.join().unwrap())
//!     })?
//!     .join()?;
//! assert_eq!(outside, inside);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Tasks in place inside one another take stack, so there is a nesting limit
//! ([`DEFAULT_NESTING_LIMIT`](crate::DEFAULT_NESTING_LIMIT)), at which the submit is refused with
//! `Full`, and the join of a task that has not started with
//! [`JoinError::WouldDeadlock`](crate::JoinError::WouldDeadlock). To go deeper, set
//! [`nesting_limit`](crate::Builder::nesting_limit) and
//! [`stack_size`](crate::Builder::stack_size) together.
//!
//! A task run in place by a submit counts as submitted and completed, but not as in flight: it
//! belongs to the one around it. One that a join runs in place was accepted before; it holds no
//! room, and is in flight until it ends.
//!
//! # Locks held across a submit
//! What you hold while you submit, you hold while the task runs in place. If that task wants the
//! same lock, it waits for its own thread:
//!
//! ```
//! use anthill::Pool;
//! use std::sync::{Arc, Mutex};
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! let (inner, shared) = (pool.clone(), Arc::new(Mutex::new(0)));
//! pool.spawn(move || {
//!     let held = shared.lock().unwrap();
//!     let wanted = Arc::clone(&shared);
//!     // With `lock` instead of `try_lock` this would never return.
//!     inner.submit(move || assert!(wanted.try_lock().is_err())).unwrap();
//!     drop(held);
//! })?
//! .join()?;
//! assert_eq!(pool.stats().panicked, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Ways out: let the lock go first; or build the pool with `Refuse`, keep what comes back, and
//! submit it later. A thread-local that a task borrows is a lock in this sense, too.
//!
//! ```
//! use anthill::{Pool, SubmitError, WithinWorker};
//!
//! let pool = Pool::builder().capacity(1).within_worker(WithinWorker::Refuse).build()?;
//! let inner = pool.clone();
//! let refused = pool.spawn(move || matches!(inner.submit(|| ()), Err(SubmitError::Full(_))))?;
//! assert!(refused.join()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is not seen
//! Only the pool's own workers are known. Two pools whose tasks wait for each other's room can
//! deadlock, and so can a task that waits (at a channel, a barrier) for another that is still
//! queued behind it, unless it says so.
//!
//! # Tasks that block
//! [`blocking`](crate::blocking) says so: while its closure runs, the pool may have one worker and one
//! accepted task more, as often as [`max_compensation`](crate::Builder::max_compensation) allows. Workers
//! that wait for a disk, a server or each other then keep no others from their work.
//!
//! ```
//! use anthill::Pool;
//! use std::sync::mpsc;
//!
//! let pool = Pool::builder().capacity(1).queue_depth(1).max_compensation(1).build()?;
//! let (sender, receiver) = mpsc::channel();
//! let waits = pool.spawn(move || anthill::blocking(|| receiver.recv()))?;
//! pool.submit(move || sender.send("from behind"))?;
//! assert_eq!(waits.join()??, "from behind");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
