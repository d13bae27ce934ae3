//! Pools and queues in forked processes.
//!
//! `fork` copies the memory and only the calling thread, so an inherited pool has no workers in the child
//! process. Calls that would wait for workers, or queue a task for them, fail: `submit` and `spawn` return
//! [`SubmitError::Forked`](crate::SubmitError::Forked) with the task, the waits
//! [`WaitError::Forked`](crate::WaitError::Forked), a handle
//! [`JoinError::Forked`](crate::JoinError::Forked), even if its task had ended before. Releasing or dropping an
//! inherited pool does nothing, and an inherited handle leaks its task.
//!
//! Calls of a queue that would wait return `Forked` as well, and `wait_idle` returns `false`. A
//! [`CancelToken`](crate::CancelToken) can be cancelled; until then its `wait` returns `false`.
//!
//! Make no other calls on inherited objects. Figures, `tune` and `reboot` take a lock that a thread of the
//! parent may have held during the fork. All calls of a queue take its lock, so fork while no other thread
//! uses a queue that the child inherits.
//!
//! A child builds its own pool. A program that forks without `exec` can keep one per process:
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
//! parent's. Forks are detected by `pthread_atfork`, so a direct `clone` system call is not detected.
//! `std::process::Command` is not affected, because it replaces the child's memory.
