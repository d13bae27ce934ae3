//! Keys and priorities: tasks that must run one after the other, and tasks that start before others.
//!
//! A pool starts tasks in the order in which it accepted them. Keys and priorities change that.
//!
//! **Keys.** Tasks of one key run in order and one at a time; tasks of different keys run in parallel. No
//! thread waits for a key, unlike with a lock per customer, and a key without tasks costs nothing.
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
//! [`limit(n)`](crate::Keyed::limit) allows up to n tasks of each key at a time, for example requests to one
//! host. They still start in order.
//!
//! In a `MultiPool`, each key belongs to one of the pools. A [`FuncPool`](crate::FuncPool) has no keys, because
//! its queue holds bare arguments; use `keyed` of a [`Pool`](crate::Pool) with `move || function(argument)`.
//!
//! **Priorities.** A pool that is built with [`priorities`](crate::Builder::priorities) starts queued tasks of
//! a higher priority first. Other pools refuse tasks of a high or low priority, with
//! [`SubmitError::NoPriorities`](crate::SubmitError::NoPriorities). To avoid starvation, a task of a lower priority starts after it was passed over
//! [several times](crate::Priority). Priorities affect only the queue: waiters for room are served first come,
//! first served, and running tasks are not interrupted. To separate urgent tasks strictly, give them a pool of
//! their own.
//!
//! | to run | use |
//! |---|---|
//! | the tasks of each key one after the other | [`keyed`](crate::PoolExt::keyed) |
//! | at most n tasks of each key at a time | [`keyed().limit(n)`](crate::Keyed::limit) |
//! | all tasks one after the other | a pool of capacity 1 |
//! | a function, with results in the order of the items | [`map`](super::mapping) |
//! | urgent tasks before other tasks | [priorities](crate::TaskBuilder::priority), or two pools |
//! | no tasks until `resume` | [`pause`](crate::Pool::pause) |
