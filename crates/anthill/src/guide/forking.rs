//! Processes that fork.
//!
//! `fork` copies the memory and the calling thread, and no other: in the child process a pool is
//! there and its workers are not. A call that would wait for them, or queue a task that no worker
//! will ever take, fails instead: `submit` and `spawn` return
//! [`SubmitError::Forked`](crate::SubmitError::Forked) with the task, the waits
//! [`WaitError::Forked`](crate::WaitError::Forked), a handle
//! [`JoinError::Forked`](crate::JoinError::Forked), even if its task had ended before. Releasing or dropping an
//! inherited pool does nothing, and an inherited handle leaks its task.
//!
//! A call of a queue that would wait returns `Forked` too, and a `wait_idle` returns `false`. A
//! [`CancelToken`](crate::CancelToken) can be cancelled, and its `wait` returns `false` until it is.
//!
//! Make no other calls on what a child inherits. Figures, `tune` and `reboot` take a lock that a thread of the
//! parent may have held at the moment of the fork. All calls of a queue take its lock, so fork while no other
//! thread uses a queue that the child inherits.
//!
//! A child that wants a pool makes one. A program that forks without `exec` may key it by process:
//!
//! ```
//! use anthill::Pool;
//! use std::process;
//! use std::sync::Mutex;
//!
//! /// The pool of this process. Fork only while no other thread is in here.
//! fn own_pool() -> Pool {
//!     static POOL: Mutex<Option<(u32, Pool)>> = Mutex::new(None);
//!     let mut kept = POOL.lock().unwrap();
//!     match &*kept {
//!         Some((process, pool)) if *process == process::id() => pool.clone(),
//!         _ => {
//!             let pool = Pool::builder().capacity(4).build().unwrap();
//!             *kept = Some((process::id(), pool.clone()));
//!             pool
//!         }
//!     }
//! }
//!
//! assert_eq!(own_pool().spawn(|| 3)?.join()?, 3);
//! assert_eq!(own_pool().running(), 1, "it is the same pool again");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The [default pool](crate::default_pool) is one per *program*: in a forked child it stays the
//! parent's. Forks are noticed through `pthread_atfork`, so a bare `clone` system call is not.
//! `std::process::Command` replaces the child's memory and is no concern of this page.
