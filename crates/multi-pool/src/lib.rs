//! Several pools behind one interface: round robin, least tasks, or a strategy of your own.
//!
//! A pool has one lock at each end of its queue. Where many threads submit many short tasks, several
//! pools have several of them. A multi-pool spreads tasks over pools of one configuration and is used
//! like one.
//!
//! # When not to use it
//! - If one pool is not measured to be too slow: it is simpler, and cheaper where submitters wait.
//! - To keep tasks apart: every pool runs whatever comes.
//! - For pools of different configurations.
//!
//! # Example
//! ```
//! use multi_pool::{IndexError, LeastTasks, MultiPool, MultiPoolExt};
//! use pool_core::Pool;
//!
//! let each = Pool::builder().capacity(2).queue_depth(8);
//! let pool = MultiPool::builder(each).pools(4).strategy(LeastTasks).build()?;
//! assert_eq!(pool.spawn(|| 6 * 7)?.join()?, 42);
//! assert_eq!(pool.running_of(0)?, 1);
//! assert_eq!(pool.running_of(4), Err(IndexError { index: 4, pools: 4 }));
//! pool.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What always holds
//! 1. A task is offered to every pool before a submit waits or is refused, and a refused task comes
//!    back unrun.
//! 2. A waiter waits for all pools at once: the first that frees room takes its task. Waiters are
//!    served first come, first served, and no later submit passes them.
//! 3. A worker of any pool is an own worker of the multi-pool.
//! 4. Releases, reboots and tunings are of all pools: after any race, all are in the same state.
//! 5. No user code (tasks, hooks, wakers, strategies) runs under a lock.
//!
//! # What blocks, and what it costs
//! As with [`pool_core`], and beyond that: the choice of a pool takes no lock and allocates nothing;
//! a call that meets a full pool takes up to one section of each pool's lock, one that waits two
//! of each; figures, releases and tunings cost what they cost one pool, times the number of pools.
//!
//! # Panics
//! A panic of a strategy reaches the submitting thread; its task is dropped, and nothing else has
//! changed. Everything else is as in [`pool_core`].
//!
//! # Deadlocks
//! Cycles among tasks of *independent* pools that wait for each other are not detected.
//!
//! # Ancestry
//! The idea and the names of both strategies are those of
//! [ants](https://github.com/panjf2000/ants) (Go). A waiter that is enqueued at several pools and
//! claimed by one is `select` over channels, as in Go and crossbeam.
#![forbid(unsafe_code)]

mod admit;
mod builder;
mod error;
mod keyed;
mod life;
mod multi;
mod room_future;
mod shared;
mod strategy;
mod submit_future;
mod waiter;

pub use builder::MultiBuilder;
pub use error::{IndexError, MultiBuildError, MultiWaitError};
pub use keyed::MultiKeyed;
pub use multi::{
    MultiFuncPool, MultiPool, MultiPoolExt, MultiReserveFuture, MultiWorkerPool, WeakMultiFuncPool,
    WeakMultiPool, WeakMultiWorkerPool,
};
pub use strategy::{LeastTasks, Load, Loads, RoundRobin, Strategy};

// What the README shows is compiled and run.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
