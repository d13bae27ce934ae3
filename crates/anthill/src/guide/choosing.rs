//! Choosing: which of these, or something else.
//!
#![doc = include_str!("choosing.md")]
//!
//! # The two questions
//! **What does a task do while it waits?** A task here holds a thread, which costs some kilobytes and a
//! few microseconds to start. A hundred threads that wait for a disk or a database are cheap, and ten
//! thousand that wait for clients are not: those are for an async runtime. A runtime's own threads must
//! not block, so its blocking work comes [here](super::asynchronous).
//!
//! A few that block for long, in a pool that is sized for computing, run under [`blocking`](crate::blocking):
//! another worker takes their place meanwhile, within a [limit](crate::Builder::max_compensation).
//!
//! **What happens when there is too much?** An unbounded queue (threadpool, rayon's `spawn`, tokio's
//! `spawn_blocking`) takes all of it, and fails by memory or by latency. Here something has to be said:
//! a capacity, a queue depth, and whether a submitter waits, is refused, or gives up after a while.
//! If all that you submit is there beforehand and computes, that is of no use to you: rayon.
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
//! Is often right. A pool is for work that comes and goes, not for loops that never end: a loop holds a
//! worker, `wait_idle` never returns, and the capacity is one less. Its thread's own name says what it
//! does, and joining it is its end.
