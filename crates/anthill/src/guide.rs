//! The user's guide to pools and queues. Each page answers one question; all examples are compiled and run as
//! tests.
//!
//! | question | page |
//! |---|---|
//! | Which type do I need, if any? | [`choosing`] |
//! | How many workers, how deep a queue? | [`capacity`] |
//! | What happens at a full pool, and how do I choose? | [`submitting`] |
//! | How do I get a value, or cancel a task? | [`handles`] |
//! | How do I map an iterator, in order, with bounded memory? | [`mapping`] |
//! | How do I run tasks that borrow? | [`scopes`] |
//! | How do I join tasks as they end, or cancel them together? | [`groups`] |
//! | How do I cancel tasks, including running ones? | [`cancelling`] |
//! | How do I keep tasks in order, or some before others? | [`ordering`] |
//! | Which errors are there, and how do they work with `?` and anyhow? | [`errors`] |
//! | What happens if a task panics? | [`panics`] |
//! | How do I use it from async code? | [`asynchronous`] |
//! | How do I bound the number of running futures? | `futures` (feature `async-pool`) |
//! | How do I shut down without losing tasks? | [`shutdown`] |
//! | How does a pool grow and shrink? How do I keep state per worker? | [`tuning`] |
//! | May a task submit to its own pool? May it block? | [`nesting`] |
//! | What if my process forks? | [`forking`] |
//! | What do the statistics mean? | [`numbers`] |
//! | When do I need several pools? | [`several`] |
//! | How do I use time-outs and leases? | [`later`] |
//! | How do jobs survive the process? | [`durable`] |
//! | How does an async service use durable jobs? | [`durable_jobs`] |
//! | How do I run a task later, or periodically? | [`schedules`] |
//! | How do I retry after a failure? | [`retrying`] |
//! | How do I write a controller? | [`controllers`] |
//! | How do I test code that uses a pool? | [`testing`] |
//! | I come from ants | [`from_ants`] |
//! | I come from threadpool, rayon, `spawn_blocking` | [`from_others`] |
//! | I come from Java's executors | [`from_java`] |
//! | I come from tokio-util's `DelayQueue` | [`from_tokio_util`] |
//! | I come from client-go, controller-runtime, kube | [`from_client_go`] |
//! | I come from scheduled-thread-pool | [`from_scheduled_thread_pool`] |
//! | I come from apalis | [`from_apalis`] |
//! | I come from Sidekiq | [`from_sidekiq`] |
//!
//! The documentation of `pool_core` defines the [terms](pool_core#terms).
//!
//! # The defaults
//! | setting | default |
//! |---|---|
//! | capacity | none; `build` fails unless it, or `unlimited`, is set |
//! | queue depth | 0 |
//! | at a full pool | `submit` waits; the number of waiters is unlimited |
//! | keep-alive | 10 seconds |
//! | workers kept, workers started ahead | 0 |
//! | idle worker that is reused | the one that became idle last (with `preallocate`: first) |
//! | a blocking submit on one of the pool's own workers, at a full pool | runs the task in place |
//! | nesting limit | [`DEFAULT_NESTING_LIMIT`](crate::DEFAULT_NESTING_LIMIT), 64 |
//! | additional workers for tasks inside [`blocking`](crate::blocking) | [`DEFAULT_MAX_COMPENSATION`](crate::DEFAULT_MAX_COMPENSATION), 16 |
//! | a worker without work, a submitter at a full pool, a thread that joins | spins and yields for some microseconds, then parks |
//! | drop of the last handle | `Drain`: accepted tasks still run, and the drop does not block |
//! | name | `pool` |
//! | stack | the platform's |
//! | the process's default pool | capacity 512 or eight per core, whichever is more; name `anthill` |
//!
//! ```
//! use anthill::{DropPolicy, Pool, WithinWorker};
//! use std::time::Duration;
//!
//! assert_eq!(anthill::DEFAULT_KEEP_ALIVE, Duration::from_secs(10));
//! assert_eq!(anthill::DEFAULT_NESTING_LIMIT, 64);
//! assert_eq!(anthill::DEFAULT_NAME, "pool");
//! assert_eq!(anthill::DEFAULT_POOL_NAME, "anthill");
//! assert_eq!(DropPolicy::default(), DropPolicy::Drain);
//! assert_eq!(WithinWorker::default(), WithinWorker::RunInPlace);
//! assert!(Pool::builder().build().is_err(), "there is no default capacity");
//!
//! let cores = std::thread::available_parallelism()?.get();
//! assert_eq!(anthill::capacity().limit(), Some(512.max(8 * cores)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod asynchronous;
pub mod cancelling;
pub mod capacity;
#[cfg(all(
    feature = "delay-queue",
    feature = "dedup-queue",
    feature = "scheduled-pool"
))]
pub mod choosing;
#[cfg(feature = "dedup-queue")]
pub mod controllers;
pub mod durable;
pub mod durable_jobs;
pub mod errors;
pub mod forking;
pub mod from_ants;
pub mod from_apalis;
#[cfg(feature = "dedup-queue")]
pub mod from_client_go;
#[cfg(all(feature = "delay-queue", feature = "scheduled-pool"))]
pub mod from_java;
pub mod from_others;
#[cfg(feature = "scheduled-pool")]
pub mod from_scheduled_thread_pool;
pub mod from_sidekiq;
#[cfg(feature = "delay-queue")]
pub mod from_tokio_util;
#[cfg(feature = "async-pool")]
pub mod futures;
pub mod groups;
pub mod handles;
#[cfg(feature = "delay-queue")]
pub mod later;
pub mod mapping;
pub mod nesting;
pub mod numbers;
pub mod ordering;
pub mod panics;
#[cfg(all(
    feature = "delay-queue",
    feature = "dedup-queue",
    feature = "scheduled-pool"
))]
pub mod retrying;
#[cfg(feature = "scheduled-pool")]
pub mod schedules;
pub mod scopes;
pub mod several;
pub mod shutdown;
pub mod submitting;
pub mod testing;
pub mod tuning;
