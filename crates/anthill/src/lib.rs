//! Bounded worker pools for tasks that block, with delay queues, work queues and scheduled tasks, and a
//! [`guide`].
//!
//! A pool starts threads when there is work, and ends them when they are idle. It never exceeds its
//! capacity: at a full pool a submit waits, times out, or returns the task. So programs that block on
//! files, databases, DNS or foreign functions get backpressure, which an unbounded queue does not provide.
//!
//! # Where to start
#![cfg_attr(
    all(
        feature = "delay-queue",
        feature = "dedup-queue",
        feature = "scheduled-pool"
    ),
    doc = include_str!("guide/choosing.md")
)]
//!
//! [`WorkerPool`] has the methods of all pools, [`PoolExt`] adds maps, scopes and groups, and [`Builder`] has
//! the settings. The [`guide`] answers common questions: capacity, full pools, shutdown, nesting, testing,
//! migration from other pools.
//!
//! # The default pool
//! The functions of this module use the [`default_pool`] of the process, which is created at its first use.
//! [`configure`] sets its builder.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! let sum = Arc::new(AtomicU64::new(0));
//! for number in 0..1000 {
//!     let sum = Arc::clone(&sum);
//!     anthill::submit(move || sum.fetch_add(number, Ordering::Relaxed))?;
//! }
//! anthill::wait_idle()?;
//! assert_eq!(sum.load(Ordering::Relaxed), 499_500);
//!
//! let answer = anthill::spawn(|| 6 * 7)?;
//! assert_eq!(answer.join()?, 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The crates
//! Each crate is a module: [`pool_core`], [`pool_util`], and with their features `multi_pool`, `delay_queue`,
//! `dedup_queue`, `scheduled_pool`, `async_pool`, and `durable_queue` with its stores. The root re-exports the types that
//! programs name. Types that appear only in signatures (futures, markers, hook arguments) are in the modules.
//!
//! # Features
//! | feature | default | what it does |
//! |---|---|---|
//! | `multi-pool` | yes | several pools behind one handle |
//! | `delay-queue` | yes | `DelayHeap`, `DelayQueue` |
//! | `dedup-queue` | yes | `DedupQueue`, the work queue for controllers |
//! | `scheduled-pool` | yes | `ScheduledPool`: tasks that run later, or periodically |
//! | `async-pool` | no | `async_pool`: bounded pools of futures, with timers of their own |
//! | `durable` | no | `durable_queue`: jobs that survive the process, in a database |
//! | `durable-sqlite`, `durable-postgres`, `durable-redis` | no | its stores: `durable_queue_sqlite`, `durable_queue_postgres`, `durable_queue_redis` |
//! | `durable-cron` | no | its repeating jobs |
//! | `durable-json` | no | `Json`: its payloads of any type that serde can serialize |
//! | `durable-sqlx` | no | its pushes in transactions of sqlx, with `durable-sqlite` or `durable-postgres` |
//! | `log` | no | reports panics of tasks through the `log` facade |
//! | `tracing` | no | reports panics of tasks through `tracing`; `Builder::carry_span` runs tasks in their submitter's span |
//! | `channel` | no | `DelayQueue::channel`: due entries through a crossbeam channel |
//! | `stream` | no | `DelayQueue::stream`, `KeyQueue::stream`, `Map::into_stream`: due entries, held keys and results of a mapping as a `Stream`; `AsyncPool::map_stream` |
//! | `tokio` | no | `delay_queue::TokioClock`: alarms by tokio's own timer |
//! | `async-io` | no | `delay_queue::AsyncIoClock`: alarms by async-io's own timer |
#![forbid(unsafe_code)]

mod default;
mod functions;
pub mod guide;

#[cfg(feature = "async-pool")]
pub use async_pool;
#[cfg(feature = "async-pool")]
#[doc(inline)]
pub use async_pool::{AsyncFuncPool, AsyncPool};
#[cfg(feature = "dedup-queue")]
pub use dedup_queue;
#[cfg(feature = "dedup-queue")]
#[doc(inline)]
pub use dedup_queue::{DedupDelayQueue, DedupQueue, DedupRetryQueue};
pub use default::{ConfigureError, DEFAULT_POOL_NAME, configure, default_pool};
#[cfg(feature = "delay-queue")]
pub use delay_queue;
#[cfg(feature = "delay-queue")]
#[doc(inline)]
pub use delay_queue::{DelayHeap, DelayQueue};
#[cfg(feature = "durable")]
pub use durable_queue;
#[cfg(feature = "durable-postgres")]
pub use durable_queue_postgres;
#[cfg(feature = "durable-redis")]
pub use durable_queue_redis;
#[cfg(feature = "durable-sqlite")]
pub use durable_queue_sqlite;
pub use functions::{
    capacity, for_each, free, map, map_unordered, reboot, release, release_timeout, running, scope,
    spawn, spawn_async, stats, submit, submit_async, submit_timeout, task, try_for_each, try_map,
    try_spawn, try_submit, tune, wait_idle, wait_released, waiting,
};
#[cfg(feature = "multi-pool")]
pub use multi_pool;
#[cfg(feature = "multi-pool")]
#[doc(inline)]
pub use multi_pool::{LeastTasks, MultiBuilder, MultiFuncPool, MultiPool, RoundRobin};
pub use pool_core;
#[cfg(not(anthill_loom))]
#[doc(inline)]
pub use pool_core::MonotonicClock;
#[doc(inline)]
pub use pool_core::{
    Alarm, BatchError, BuildError, Builder, CancelToken, Capacity, Clock, Current,
    DEFAULT_KEEP_ALIVE, DEFAULT_MAX_COMPENSATION, DEFAULT_NAME, DEFAULT_NESTING_LIMIT, DropPolicy,
    FuncPool, JoinError, JoinHandle, ManualClock, OnFull, Panicked, Parker, Permit, Pool, Priority,
    QueueDepth, Reserve, Spawn, Stats, Submit, SubmitError, TaskBuilder, TaskHook, Timeout,
    TimeoutExt, TuneError, WaitError, WeakFuncPool, WeakPool, WithinWorker, WorkerPool, Workers,
    blocking, current,
};
pub use pool_util;
#[doc(inline)]
pub use pool_util::{Keyed, Map, MapError, PoolExt, Scope, TaskGroup};
#[cfg(feature = "scheduled-pool")]
pub use scheduled_pool;
#[cfg(feature = "scheduled-pool")]
#[doc(inline)]
pub use scheduled_pool::ScheduledPool;

/// The extension traits, for `use anthill::prelude::*`.
pub mod prelude {
    #[doc(no_inline)]
    pub use crate::{PoolExt, Reserve, Spawn, Submit, TimeoutExt, Workers};
    #[cfg(feature = "multi-pool")]
    #[doc(no_inline)]
    pub use multi_pool::MultiPoolExt;
    #[cfg(feature = "scheduled-pool")]
    #[doc(no_inline)]
    pub use scheduled_pool::TaskBuilderExt;
}

// Compiles and runs the examples of the READMEs.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../../../README.md")]
mod readme_of_the_workspace {}
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../../pool-core/README.md")]
mod readme_of_pool_core {}
