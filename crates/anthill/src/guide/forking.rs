//! Pools and queues in forked processes.
//!
//! `fork` copies the memory but only the calling thread, so an inherited pool has no workers in the child.
//! Calls that would wait for workers or queue a task for them return an error instead:
//!
//! | call on an inherited object | result in the child |
//! |---|---|
//! | `submit`, `spawn` and their variants | [`SubmitError::Forked`](crate::SubmitError::Forked) with the task |
//! | `wait_idle`, `wait_released` of a pool | [`WaitError::Forked`](crate::WaitError::Forked) |
//! | `join` of a handle, even if its task has ended | [`JoinError::Forked`](crate::JoinError::Forked) |
//! | release or drop of a pool | no effect |
//! | drop of a handle | leaks its task |
//! | calls of a queue that would wait | `Forked`; `wait_idle` returns `false` |
//! | `wait` of a [`CancelToken`](crate::CancelToken) | returns `false` unless the token is cancelled; `cancel` works |
//!
//! Make no other calls on inherited objects. `stats`, `tune` and `reboot` take a lock that a thread of the parent
//! may have held during the fork. All calls of a queue take its lock, so fork only while no other thread uses a
//! queue that the child inherits.
//!
//! A child builds its own pools. A program that forks without `exec` can keep a pool per process:
//!
//! ```
//! use anthill::Pool;
//! use std::process;
//! use std::sync::Mutex;
//!
//! /// Returns the pool of this process. Fork only while no other thread is in this function.
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
//! assert_eq!(own_pool().running(), 1, "the second call returns the same pool");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A child cannot replace the [default pool](crate::default_pool), which it inherits if the parent has used it.
//! Forks are detected by `pthread_atfork`, so a direct `clone` system call is not detected.
//! `std::process::Command` is not affected, because `exec` replaces the child's memory.
