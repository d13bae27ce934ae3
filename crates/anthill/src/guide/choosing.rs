//! Choosing a pool, a queue, or another library.
//!
#![doc = include_str!("choosing.md")]
//!
//! # The two questions
//! **What does a task do while it waits?** A task holds a thread, which costs some kilobytes and a few
//! microseconds to start. A hundred threads that wait for a disk or a database are cheap. Ten thousand
//! threads that wait for clients are not: use an async runtime. The threads of a runtime must not block, so
//! its blocking calls belong [on a pool](super::asynchronous).
//!
//! A pool that is sized for computing can run a few long blocking calls under
//! [`blocking`](crate::blocking): another worker replaces the blocked one, within a
//! [limit](crate::Builder::max_compensation).
//!
//! **What happens under overload?** An unbounded queue (threadpool, rayon's `spawn`, tokio's
//! `spawn_blocking`) accepts all tasks until memory or latency fails. A pool of this crate has a capacity, a
//! queue depth, and a policy for submitters at a full pool: wait, refuse, or give up after a while. If all
//! tasks compute and are known beforehand, a bound is of no use: use rayon.
//!
//! # Side by side
//! ```
//! use anthill::delay_queue::DelayQueue;
//! use anthill::prelude::*;
//! use anthill::dedup_queue::DedupQueue;
//! use anthill::{FuncPool, Pool, ScheduledPool};
//! use std::time::Duration;
//!
//! let pool = Pool::builder().capacity(4).build()?; // Closures,
//! let size = pool.spawn(|| std::fs::metadata("Cargo.toml").map(|file| file.len()))?;
//! assert!(size.join()?? > 0);
//!
//! let lengths = FuncPool::builder(|text: String| text.len()).capacity(4).build()?; // one function,
//! assert_eq!(lengths.spawn("four".to_owned())?.join()?, 4);
//!
//! let total: usize = pool.map(["a", "bb"], str::len).sum::<Result<_, _>>()?; // an iterator,
//! assert_eq!(total, 3);
//!
//! let scheduled = ScheduledPool::new(pool.clone()); // closures, later,
//! assert_eq!(scheduled.spawn_after(Duration::from_millis(1), || 7)?.join()?, 7);
//!
//! let leases = DelayQueue::new(); // values, later,
//! leases.push("node 7", Duration::from_millis(1))?;
//! assert_eq!(leases.take()?.value, "node 7");
//!
//! let changed = DedupQueue::<&str>::new(); // names, once each.
//! changed.add("volume 7")?;
//! changed.add("volume 7")?;
//! assert_eq!(changed.get_batch(8.try_into()?)?.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # A plain thread
//! A plain thread is the right choice for a loop that never ends. On a pool, such a loop holds a worker, the
//! capacity is one less, and `wait_idle` never returns.
