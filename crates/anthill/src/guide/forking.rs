//! Pools and queues in forked processes, such as the workers of a pre-forking server.
//!
//! **A child makes its own pools and queues, and these work**, whenever the parent forked and whatever it had used
//! before: pools, timed futures, scheduled pools, durable queues that are opened in the child. The [default
//! pool](crate::default_pool) is one per process: in the child it is a new pool with the settings of the parent's,
//! without its tasks. [`configure`](crate::configure) can replace these settings before the child's first use.
//!
//! ```
//! # #[cfg(unix)] {
//! anthill::spawn(|| ())?.join()?; // The parent has workers.
//! let child = unsafe { libc::fork() };
//! if child == 0 {
//!     let answer = anthill::spawn(|| 42).unwrap().join(); // On a worker of the child.
//!     unsafe { libc::_exit(if answer.is_ok() { 0 } else { 1 }) };
//! }
//! let mut status = 0;
//! unsafe { libc::waitpid(child, &mut status, 0) };
//! assert_eq!(status, 0);
//! # }
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # Inherited objects
//! `fork` copies the memory but only the calling thread, so an inherited pool has no workers in the child.
//! Calls that would wait for workers or queue a task for them return an error instead:
//!
//! | call on an inherited object | result in the child |
//! |---|---|
//! | `submit`, `spawn` and their variants | [`SubmitError::Forked`](crate::SubmitError::Forked) with the task |
//! | `wait_idle`, `wait_released` of a pool | [`WaitError::Forked`](crate::WaitError::Forked) |
//! | a mapping; a group | [`MapError::Refused`](crate::MapError::Refused) with `Forked`; [`JoinError::Forked`](crate::JoinError::Forked) once, then the end |
//! | a scope | runs its tasks in the caller |
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
//! # A pool of one's own per process
//! A library that forks without `exec` can keep a pool per process:
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
//! # Limits
//! - Forks are detected by `pthread_atfork`, so a direct `clone` system call is not detected.
//!   `std::process::Command` is not affected, because `exec` replaces the child's memory.
//! - On `SQLite`, a child must not open a file that its parent had open: `SQLite`'s locks belong to processes.
//! - A child that a future forks inside an `AsyncPool` must not use timers on that thread.
//!
//! `docs/decisions/process-wide.md` in the repository lists every static and every thread of the library, and what a
//! fork, a refused thread and an exit do to it.
//!
//! # Threads that cannot be started, and inherited priorities
//! In a process that may start no more threads, a pool without workers returns
//! [`SubmitError::NoThread`](crate::SubmitError::NoThread) with the task. Timed futures keep their time: without the alarm
//! thread, each of their polls blocks for up to five milliseconds.
//!
//! A worker inherits the processors, the nice value and the signal mask of the thread that starts it.
//! [`Builder::worker_wrap`](crate::Builder::worker_wrap) shows how to set them. The library's own threads (timers,
//! pumps of durable queues) inherit none of these: they have those of the main thread, and block signals. Only a high nice
//! value stays, in a process without the privilege to lower it.
