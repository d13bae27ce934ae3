//! Several pools: bulkheads, and pools behind one interface.
//!
//! # Bulkheads
//! Unlike work wants pools of its own: one slow resource, whose tasks hold their workers, must not
//! starve the others. Pools are cheap, and an idle one has no threads. Give each a name; it is
//! what its threads are called.
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
//! assert_eq!(files.spawn(|| 1)?.join()?, 1); // Files do not care.
//! # drop(open);
//! # dns.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Tasks that wait for each other across two pools can deadlock, and that is not detected: let
//! tasks of one pool wait for the other, and not both ways.
//!
//! # One interface
//! A `MultiPool` is several alike pools that are used as one, each with locks of its own. That is
//! for tasks so small and submitters so many that they contend for the lock of a single pool;
//! measure before. A task is offered to the pool that the strategy names, and if that one has no
//! room, to the others. A submitter that has to wait waits for any of them.
//!
#![cfg_attr(feature = "multi-pool", doc = "```")]
#![cfg_attr(not(feature = "multi-pool"), doc = "```text")]
//! use anthill::{LeastTasks, MultiPool, Pool};
//!
//! let each = Pool::builder().capacity(2).queue_depth(8);
//! let pool = MultiPool::builder(each).pools(2).strategy(LeastTasks).build()?;
//! let handles = (0..20).map(|n| pool.spawn(move || n)).collect::<Result<Vec<_>, _>>()?;
//! let mut sum = 0;
//! for handle in handles {
//!     sum += handle.join()?;
//! }
//! assert_eq!((sum, pool.stats().completed), (190, 20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
