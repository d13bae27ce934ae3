//! Order: which task comes first, and which may not run beside another.
//!
//! A pool starts tasks in the order in which it accepted them. Two things change that.
//!
//! **Keys.** Tasks of one key run one at a time, in their order; keys run side by side. No thread waits
//! for a key, and a key without tasks costs nothing. It takes the place of a lock for each customer,
//! which would hold a worker while it waits.
//!
//! ```
//! use anthill::Pool;
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
//! A `MultiPool` has `keyed` as well: each key has its place in one of the pools. A
//! [`FuncPool`](crate::FuncPool) has not: its queue holds arguments as they are, and has no place for a turn
//! of several. `pool.keyed()` of a [`Pool`](crate::Pool) with `move || function(argument)` does the same.
//!
//! **Priorities.** In a pool that is built [with them](crate::Builder::priorities), queued tasks of a higher
//! one are started first, unless one of a lower has been passed over
//! [so often](crate::Priority). They order the queue and nothing else: waiters for room are served first
//! come, first served, and a task that runs is not interrupted. Two pools are the stronger
//! separation: a worker for the urgent is then always there.
//!
//! | you want | take |
//! |---|---|
//! | one after the other, for each of many things | [`keyed`](crate::Pool::keyed) |
//! | at most n at a time, for each of many things | [`keyed().limit(n)`](crate::Keyed::limit) |
//! | one after the other, altogether | a pool of capacity 1 |
//! | results in the order of the items | [`map`](super::mapping) |
//! | the urgent before the rest | [priorities](crate::TaskBuilder::priority), or a pool for each |
//! | none to start for a while | [`pause`](crate::Pool::pause) |
