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
//! A `MultiPool` is several pools of the same configuration behind one handle. The strategy chooses a pool for each task.
//! If that pool is full, the others are tried, and a waiting submitter waits for all of them at once.
//!
//! One pool keeps all workers busy if tasks take longer than 0.6 us per worker: 5 us with 8 workers, 60 us with 100 on
//! processors of several dies, a third of that on one mesh. With shorter tasks on dozens of cores, a `MultiPool` of four allows
//! a quarter of that length; more pools help only if each group of submitters has one of its own. On few cores a `MultiPool`
//! does not pay. An `AsyncPool` needs futures of about the length that one pool needs.
//!
//! ```text
//! shortest tasks that keep the workers of 128 cores 90 % busy (simulated, 110 ns per cache line)
//! one pool, an `AsyncPool`   #################################################### 54 us
//! 4 pools in turn            ############# 13 us
//! 16 pools in turn           ########### 11 us
//! a pool per two submitters  ### 3.4 us
//! ```
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
