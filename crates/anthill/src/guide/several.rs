//! Several pools: one per resource (bulkheads), or several behind one handle (`MultiPool`).
//!
//! # Bulkheads
//! Use a pool per resource, so that tasks that wait for a slow resource do not occupy the workers of the others.
//! Pools are cheap, and an idle pool has no threads. The name of a pool is also the name of its threads.
//!
//! ```
//! use anthill::{Pool, SubmitError};
//! use std::sync::mpsc;
//!
//! let dns = Pool::builder().name("dns").capacity(1).build()?;
//! let files = Pool::builder().name("files").capacity(1).build()?;
//!
//! let (open, gate) = mpsc::channel::<()>();
//! dns.submit(move || gate.recv())?; // The resolver hangs.
//! assert!(matches!(dns.try_submit(|| ()), Err(SubmitError::Full(_))));
//! assert_eq!(files.spawn(|| 1)?.join()?, 1); // The other pool is not affected.
//! # drop(open);
//! # dns.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If tasks of two pools wait for each other, they can deadlock, which is not detected. Let tasks wait in one
//! direction only.
//!
//! # One handle
//! A `MultiPool` is several pools of the same configuration behind one handle. Use it if many submitters of small
//! tasks contend for the lock of a single pool; measure first. The strategy chooses a pool for each task. If that
//! pool is full, the others are tried, and a waiting submitter waits for all of them at once.
//!
#![cfg_attr(feature = "multi-pool", doc = "```")]
#![cfg_attr(not(feature = "multi-pool"), doc = "```text")]
//! use anthill::{LeastTasks, MultiBuilder, Pool};
//!
//! let each = Pool::builder().capacity(2).queue_depth(8);
//! let pool = MultiBuilder::new(each).pools(2).strategy(LeastTasks).build()?;
//! let handles = (0..20).map(|n| pool.spawn(move || n)).collect::<Result<Vec<_>, _>>()?;
//! let mut sum = 0;
//! for handle in handles {
//!     sum += handle.join()?;
//! }
//! assert_eq!((sum, pool.stats().completed), (190, 20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
