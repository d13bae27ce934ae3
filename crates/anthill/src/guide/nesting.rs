//! Tasks that submit to their own pool, and tasks that block.
//!
//! If the tasks of a bounded pool waited for room in the same pool, all workers could wait at once: a deadlock.
//! So a blocking submit *on one of the pool's own workers* does not wait at a full pool.
//! [`within_worker`](crate::Builder::within_worker) sets what it does instead:
//!
//! | [`WithinWorker`](crate::WithinWorker) | at a full pool |
//! |---|---|
//! | `RunInPlace` (default) | runs the task at once, inside the submitting task |
//! | `Refuse` | returns `Full` with the task |
//! | `Block` | waits; a deadlock if all workers wait |
//!
//! The setting applies to futures, too, if they are polled on one of the pool's own workers: a task that polls a
//! future of `submit_async` to its end holds its worker meanwhile. `try_submit` refuses, as on other threads.
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
//! Tasks that run in place use the stack of the task around them, so their nesting is limited
//! ([`DEFAULT_NESTING_LIMIT`](crate::DEFAULT_NESTING_LIMIT)). At the limit a submit returns `Full`, and the
//! join of an unstarted task returns [`JoinError::WouldDeadlock`](crate::JoinError::WouldDeadlock). To nest
//! deeper, increase [`nesting_limit`](crate::Builder::nesting_limit) and
//! [`stack_size`](crate::Builder::stack_size) together. Scopes and mappings have [no limit](super::scopes).
//!
//! In a pool without a queue, a chain of tasks that each submit the next one nests for as long as the other workers
//! wait for a core: on a machine under load it may reach the limit although a worker is about to be free. Give such a
//! pool a queue.
//!
//! A task that a submit runs in place counts as submitted and completed but not as in flight, because it is part
//! of the surrounding task. A task that a join runs in place holds no room, and is in flight until it ends.
//!
//! # Locks held across a submit
//! A lock that the submitter holds is still held while the task runs in place. If the task takes the same lock,
//! it deadlocks:
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
//!     // `lock` instead of `try_lock` would never return.
//!     inner.submit(move || assert!(wanted.try_lock().is_err())).unwrap();
//!     drop(held);
//! })?
//! .join()?;
//! assert_eq!(pool.stats().panicked, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Release the lock before the submit, or build the pool with `Refuse` and submit the returned task later. A
//! `RefCell` in a thread-local that is borrowed across a submit causes the same problem.
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
//! # Deadlocks that are not detected
//! A pool recognizes only its own workers. Two pools can deadlock if their tasks wait for room in the other pool.
//! A task deadlocks if it waits at a channel or a barrier for a task that is queued behind it, unless it waits
//! inside `blocking`.
//!
//! # Tasks that block
//! While a task is in [`blocking`](crate::blocking), the pool may have one more worker and one more accepted task,
//! up to [`max_compensation`](crate::Builder::max_compensation) of each ([`DEFAULT_MAX_COMPENSATION`](crate::DEFAULT_MAX_COMPENSATION), 16). So workers that wait for a disk, a server
//! or each other do not delay other tasks.
//!
//! ```
//! use anthill::Pool;
//! use std::sync::mpsc;
//!
//! let pool = Pool::builder().capacity(1).queue_depth(1).build()?;
//! let (sender, receiver) = mpsc::channel();
//! let waits = pool.spawn(move || anthill::blocking(|| receiver.recv()))?;
//! pool.submit(move || sender.send("from behind"))?;
//! assert_eq!(waits.join()??, "from behind");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
