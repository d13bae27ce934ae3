//! Choosing a pool, a queue, or another library.
//!
#![doc = include_str!("choosing.md")]
//!
//! # Two questions
//! **How many tasks wait at once?** A waiting task holds a thread, which takes some kilobytes, and a few
//! microseconds to start. A hundred threads that wait for a disk or a database are cheap. For ten thousand
//! clients, use an async runtime, and run its blocking calls [on a pool](super::asynchronous).
//!
//! A pool that is sized for computing can run a few long blocking calls under
//! [`blocking`](crate::blocking): another worker replaces the blocked one, within a
//! [limit](crate::Builder::max_compensation).
//!
//! **What happens under overload?** An unbounded queue (threadpool, rayon's `spawn`, tokio's
//! `spawn_blocking`) accepts tasks until the process runs out of memory or answers too late. A pool of this crate
//! has a capacity, a queue depth, and a policy for submitters at a full pool. If all tasks compute and their number
//! is known, no bound is needed: use rayon.
//!
//! # Side by side
//! ```
//! use anthill::delay_queue::DelayQueue;
//! use anthill::prelude::*;
//! use anthill::dedup_queue::DedupQueue;
//! use anthill::{FuncPool, Pool, ScheduledPool};
//! use std::time::Duration;
//!
//! let pool = Pool::builder().capacity(4).build()?; // Closures.
//! let size = pool.spawn(|| std::fs::metadata("Cargo.toml").map(|file| file.len()))?;
//! assert!(size.join()?? > 0);
//!
//! let lengths = FuncPool::builder(|text: String| text.len()).capacity(4).build()?; // One function.
//! assert_eq!(lengths.spawn("four".to_owned())?.join()?, 4);
//!
//! let total: usize = pool.map(["a", "bb"], str::len).sum::<Result<_, _>>()?; // An iterator.
//! assert_eq!(total, 3);
//!
//! let scheduled = ScheduledPool::new(pool.clone()); // Delayed closures.
//! assert_eq!(scheduled.spawn_after(Duration::from_millis(1), || 7)?.join()?, 7);
//!
//! let leases = DelayQueue::new(); // Delayed values.
//! leases.push("node 7", Duration::from_millis(1))?;
//! assert_eq!(leases.take()?.value, "node 7");
//!
//! let changed = DedupQueue::<&str>::new(); // Keys without duplicates.
//! changed.add("volume 7")?;
//! changed.add("volume 7")?;
//! assert_eq!(changed.get_batch(8.try_into()?)?.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # A plain thread
//! Run a loop that never ends on a plain thread. On a pool it would occupy a worker, and `wait_idle` would never
//! return.
