//! Keys and priorities: the order of tasks, and tasks that must not run at the same time.
//!
//! A pool starts tasks in the order in which it accepted them. Keys and priorities change that.
//!
//! **Keys.** Tasks of one key run in order and one at a time; tasks of different keys run in parallel. No
//! thread waits for a key, and a key without tasks costs nothing. Keys replace a lock per customer, for which
//! workers would wait.
//!
//! ```
//! use anthill::{Pool, PoolExt};
//! use std::sync::{Arc, Mutex};
//!
//! let pool = Pool::builder().capacity(4).queue_depth(64).build()?;
//! let accounts = pool.keyed();
//! let journal = Arc::new(Mutex::new(Vec::new()));
//! for entry in 0..10 {
//!     let journal = Arc::clone(&journal);
//!     accounts.submit("account 7", move || journal.lock().unwrap().push(entry))?;
//! }
//! pool.wait_idle()?;
//! assert!(journal.lock().unwrap().is_sorted());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With a limit, up to that many tasks of a key run at the same time, for example requests to one host:
//! `pool.keyed().limit(2)`. They still start in their order. See [`Keyed::limit`](crate::Keyed::limit).
//!
//! In a `MultiPool`, each key belongs to one of the pools. A [`FuncPool`](crate::FuncPool) has no keys, because
//! its queue holds bare arguments. Use `keyed` of a [`Pool`](crate::Pool) with `move || function(argument)`.
//!
//! **Priorities.** A pool that is built with [`priorities`](crate::Builder::priorities) starts queued tasks of
//! a higher priority first, until a task of a lower priority was passed over [often enough](crate::Priority).
//! Priorities affect only the queue: waiters for room are served first come, first served, and running tasks
//! are not interrupted. Two pools separate tasks more strictly, because urgent tasks then have their own
//! workers.
//!
//! | to run | use |
//! |---|---|
//! | the tasks of each key one after the other | [`keyed`](crate::PoolExt::keyed) |
//! | at most n tasks of each key at a time | [`keyed().limit(n)`](crate::Keyed::limit) |
//! | all tasks one after the other | a pool of capacity 1 |
//! | a function, with results in the order of the items | [`map`](super::mapping) |
//! | urgent tasks before other tasks | [priorities](crate::TaskBuilder::priority), or two pools |
//! | no tasks for a while | [`pause`](crate::Pool::pause) |
