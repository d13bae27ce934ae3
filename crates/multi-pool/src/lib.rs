//! Several pools behind one handle, with round robin, least tasks, or your own strategy.
//!
//! A multi-pool spreads tasks over several pools of the same configuration. Each pool has its own locks, so
//! many threads that submit many short tasks contend less. [`MultiPool`] and [`MultiFuncPool`] are aliases
//! of [`pool_core::WorkerPool`] and have all of its methods. [`MultiPoolExt`] adds the builder, tasks with
//! keys, and the statistics of single members.
//!
//! # When not to use it
//! - Before you have measured that one pool is too slow. One pool is simpler, and cheaper if submitters wait.
//! - To separate kinds of tasks: every member runs every kind.
//! - For pools of different configurations.
//!
//! # Example
//! ```
//! use multi_pool::{IndexError, LeastTasks, MultiBuilder, MultiPoolExt};
//! use pool_core::Pool;
//!
//! let each = Pool::builder().capacity(2).queue_depth(8);
//! let pool = MultiBuilder::new(each).pools(4).strategy(LeastTasks).build()?;
//! assert_eq!(pool.spawn(|| 6 * 7)?.join()?, 42);
//! assert_eq!(pool.running_of(0)?, 1);
//! assert_eq!(pool.running_of(4), Err(IndexError { index: 4, pools: 4 }));
//! pool.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Differences from a single pool
//! 1. **Admission.** The [`Strategy`] chooses the member that a task is offered to first. If that member has
//!    no room, the task is offered to every other one before the submit waits or is refused. A refused task
//!    is returned unrun.
//! 2. **Waiters.** A waiter waits for all members at once, and the first member that frees room takes its
//!    task. Threads and futures are served first come, first served. `max_waiting` counts a waiter once.
//! 3. **Own workers.** The workers of all members are own workers of the multi-pool: their tasks may submit
//!    to it and join its tasks, whichever member runs them.
//! 4. **Lifecycle.** Releases, reboots and tunings apply to all members. After any race, all members are in
//!    the same state. A timed wait has one deadline for all, and its error ([`MultiWaitError`]) names the
//!    members that missed it.
//! 5. **Idleness.** `wait_idle` waits for an instant at which no member had a task in flight, even if tasks of
//!    one member submit tasks to another.
//! 6. **Statistics** are sums over the members, exact while no task is in flight. `running_of`, `free_of`,
//!    `waiting_of` and `stats_of` return those of one member.
//! 7. **Keys.** A key belongs to one member, and its tasks wait for room there: `Keyed` of `pool-util`.
//! 8. **No thread.** If no member has a worker and the system refuses to start one, the task is returned with
//!    `NoThread`. While any member has a worker, a refused thread is no error.
//!
//! # Cost
//! With `n` members, in addition to the cost of one pool:
//!
//! | call | cost |
//! |---|---|
//! | a submit, if the chosen member has room | the choice: no lock, no allocation |
//! | a submit, if it has no room | up to `n` more sections of a lock |
//! | a submit that waits | `n` sections to enqueue the waiter, `n` to remove it, two allocations |
//! | statistics, `tune`, `release`, `reboot` | `n` times the cost of one pool |
//!
//! So waiting costs more than with one pool. Give the pools a queue depth.
//!
//! # Panics
//! A panic of a strategy reaches the submitting thread. The task is dropped, and the pools are unchanged.
//!
//! # Deadlocks
//! Tasks of *independent* pools that wait for each other can deadlock. Such cycles are not detected.
//!
//! # Implementation notes
//! No user code (tasks, hooks, wakers, strategies) runs under a lock.
//!
//! The idea and the names of both strategies are from [ants](https://github.com/panjf2000/ants) (Go). A
//! waiter that is in several queues and claimed by one of them is like `select` over channels in Go and
//! crossbeam.
#![forbid(unsafe_code)]

mod admit;
mod builder;
mod error;
mod life;
mod multi;
mod room_future;
mod shared;
mod strategy;
mod submit_future;
mod waiter;

pub use builder::MultiBuilder;
pub use error::{IndexError, MultiBuildError, MultiWaitError};
pub use multi::{
    MultiFuncPool, MultiPool, MultiPoolExt, MultiReserveFuture, MultiWorkerPool, WeakMultiFuncPool,
    WeakMultiPool, WeakMultiWorkerPool,
};
pub use strategy::{LeastTasks, Load, Loads, RoundRobin, Strategy};

// Compiles and runs the README's examples.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
