//! A delay queue whose jobs are kept in a database and handed out at their due times.
//!
//! A [`DurableQueue`] combines a [`Store`], which keeps jobs, shares them between processes and fences off
//! dead holders, with a precise queue in the process: jobs that fall due in the next moments are claimed in
//! advance, in batches, wait in memory, and are started at their due times.
//!
//! ```
//! use std::time::Duration;
//! use durable_queue::{Cancelled, DurableQueue};
//! use durable_queue_sqlite::SqliteStore;
//!
//! # let folder = std::env::temp_dir().join(format!("durable-queue-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let file = folder.join("jobs");
//! let queue: DurableQueue<String, _> = DurableQueue::new("orders", SqliteStore::open(&file)?);
//! queue.push("order 1".to_owned(), Duration::from_millis(20))?;
//! let paid = queue.push("order 2".to_owned(), Duration::from_millis(20))?;
//!
//! // A successful cancel is final, whichever process is about to hand the job out.
//! let Cancelled::Gone { payload, .. } = queue.cancel(paid)? else {
//!     panic!("it was in time");
//! };
//! assert_eq!(payload, "order 2");
//!
//! let expired = queue.take()?;
//! assert_eq!(*expired, "order 1");
//! expired.ack()?; // Without it, the job is handed out again, perhaps to another process.
//! # drop(queue);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Stores
//! | crate | jobs are in |
//! |---|---|
//! | `durable_queue_sqlite` | a file of `SQLite` |
//! | `durable_queue_postgres` | a database of `PostgreSQL` |
//! | `durable_queue_redis` | the memory of Redis or Valkey |
//!
//! The packages are called `anthill-durable-queue-sqlite`, and so on. `durable_queue_testing` contains the tests that
//! every store has to pass, and a simulated store for tests of your own.
//!
//! # When not to use it
//! - For jobs that need not survive a restart: [`delay_queue::DelayQueue`] costs a thousandth.
//! - For work that must not be done twice: see below. Only the transactions of the database that holds the
//!   result can guarantee that.
//! - In a forked child, with queues and stores that the parent has opened: each call returns `Forked`. Open
//!   the store and create the queue after the fork.
//! - For strict order: jobs start in the order of their times, then of their ids, but handlers may finish in
//!   any order. [Ordered groups](Groups::Ordered) run their jobs one after another.
//! - For many levels of priority: a job is either [urgent](DurableQueue::urgent) or not. Use another queue
//!   for a further level.
//!
//! # Terms
//! - A **job** is a payload, a due time and an optional key. It is *pending*, *claimed* (ahead of its time,
//!   by a process), *started* (a handler has it), a *dead letter*, or done and [kept](Builder::keep_done).
//! - A **claim** holds jobs under a **lease**, which expires, and a random **fencing token**: a holder that
//!   has lost its lease cannot settle the job, and gets an error.
//! - A handler **settles** its job: [`ack`](Claimed::ack), [`retry`](Claimed::retry),
//!   [`bury`](Claimed::bury), [`release`](Claimed::release). Dropping a job without settling it is a failed
//!   attempt.
//! - The **pump**, one per queue and process, claims and settles jobs. At most [`PUMP_THREADS`](internals::PUMP_THREADS) threads run the pumps
//!   of all queues of a store: see [`Threads`].
//! - **Urgent** due jobs are claimed before other due jobs, but not before their time. Every eighth claim of
//!   a process ignores urgency, so that other jobs are not starved.
//! - A **cancel** of a running job is a request to its handler, which [learns](Claimed::cancelled) of it in any
//!   process. A cancelled job is not retried.
//! - The **horizon** is how long before its time a job may be claimed.
//! - A **kind** is a name of a job, by which a worker finds its handler: see [`Kind`].
//! - A **group** is a text of the application, such as a tenant, by which a queue orders or limits jobs: see
//!   [`Groups`]. A job that its group or its kind keeps back *waits*.
//!
//! # Guarantees
//! 1. At least once: after a successful push, the job is handed out until it is acknowledged, buried,
//!    cancelled or merged. Neither a killed process, nor a lost response of the store, nor a dropped future
//!    loses it. A handler may see a job twice.
//! 2. Never early: no job is started before its due time by the store's clock, which the store checks at the
//!    start.
//! 3. A successful cancel or reset is final: the store decides between it and a start. A process that takes
//!    without [confirmation](Builder::confirm) gives that up for the jobs that it has claimed ahead.
//! 4. One holder: a settle by a holder whose lease was taken over changes nothing.
//! 5. Each key has at most one open job, into which pushes are merged. A started job is not open (see [`Merge`]), so a
//!    push during its run is not lost.
//! 6. [Limits](DurableQueue::limit) of groups and kinds hold for all processes together, even if processes are killed. In an
//!    ordered group, at most one job is held, and a failed one is not overtaken.
//! 7. User code (handlers, hooks, back-offs, wakers, stores) runs with no lock held, and its panics do not
//!    propagate beyond the call.
//!
//! # Calls that wait
//! A `_timeout` takes a `Duration` or an `Instant`, by the queue's clock. An async call returns a future for any
//! runtime. Calls that put jobs in or change them have no time limit of their own: the store's settings limit
//! their time (`SqliteOptions::busy_timeout`, `PostgresOptions::busy_timeout`,
//! `RedisOptions::response_timeout`). A blocking call is made on the calling thread, and works on a runtime's
//! threads, too. An async call is made by one of at most [`CALL_THREADS`](internals::CALL_THREADS) threads of the store's
//! queues, which start on demand and end after [`CALL_KEEP_ALIVE`](internals::CALL_KEEP_ALIVE): see [`CallFuture`] and [`Threads`].
//!
//! | waits | does not wait | waits for a limited time | async |
//! |---|---|---|---|
//! | [`take`](DurableQueue::take) | none: only the store knows whether a job is due | [`take_timeout`](DurableQueue::take_timeout) | [`take_async`](DurableQueue::take_async) |
//! | [`take_many`](DurableQueue::take_many) | none: only the store knows whether a job is due | [`take_many_timeout`](DurableQueue::take_many_timeout) | [`take_many_async`](DurableQueue::take_many_async) |
//! | [`ack_and_take_many`](DurableQueue::ack_and_take_many) | none: only the store knows whether a job is due | [`ack_and_take_many_timeout`](DurableQueue::ack_and_take_many_timeout) | [`ack_and_take_many_async`](DurableQueue::ack_and_take_many_async) |
//! | [`ack`](Claimed::ack) | [`ack_later`](Claimed::ack_later) | the limits of the store | [`ack_async`](Claimed::ack_async) |
//! | [`retry`](Claimed::retry) | [`retry_later`](Claimed::retry_later) | the limits of the store | [`retry_async`](Claimed::retry_async) |
//! | [`retry_after`](Claimed::retry_after) | drop the future of `retry_after_async`: its call has sent the command | the limits of the store | [`retry_after_async`](Claimed::retry_after_async) |
//! | [`release`](Claimed::release) | drop the future of `release_async`: its call has sent the command | the limits of the store | [`release_async`](Claimed::release_async) |
//! | [`bury`](Claimed::bury) | drop the future of `bury_async`: its call has sent the command | the limits of the store | [`bury_async`](Claimed::bury_async) |
//! | none: a thread calls [`wait_cancelled_timeout`](Claimed::wait_cancelled_timeout) | [`is_cancelled`](Claimed::is_cancelled) | [`wait_cancelled_timeout`](Claimed::wait_cancelled_timeout) | [`cancelled`](Claimed::cancelled) |
//! | [`extend`](Claimed::extend) | drop the future of `extend_async`: its call has sent the command | the limits of the store | [`extend_async`](Claimed::extend_async) |
//! | none | [`is_lost`](Claimed::is_lost) | none | [`lost`](Claimed::lost) |
//! | [`SettleFuture::wait`] | drop the future | the limits of the store | it is a future |
//! | [`push`](DurableQueue::push) | drop the future: it may withdraw the push | the limits of the store | [`push_async`](DurableQueue::push_async) |
//! | [`push_keyed`](DurableQueue::push_keyed) | drop the future | the limits of the store | [`push_keyed_async`](DurableQueue::push_keyed_async) |
//! | [`push_repeating`](DurableQueue::push_repeating) | drop the future | the limits of the store | [`push_repeating_async`](DurableQueue::push_repeating_async) |
//! | [`push_many`](DurableQueue::push_many) | drop the future | the limits of the store | [`push_many_async`](DurableQueue::push_many_async) |
//! | [`cancel`](DurableQueue::cancel) | drop the future | the limits of the store | [`cancel_async`](DurableQueue::cancel_async) |
//! | [`reset`](DurableQueue::reset) | drop the future | the limits of the store | [`reset_async`](DurableQueue::reset_async) |
//! | [`pause`](DurableQueue::pause) | drop the future | the limits of the store | [`pause_async`](DurableQueue::pause_async) |
//! | [`limit`](DurableQueue::limit) | drop the future | the limits of the store | [`limit_async`](DurableQueue::limit_async) |
//! | [`remove_limit`](DurableQueue::remove_limit) | drop the future | the limits of the store | [`remove_limit_async`](DurableQueue::remove_limit_async) |
//! | [`limits`](DurableQueue::limits) | drop the future | the limits of the store | [`limits_async`](DurableQueue::limits_async) |
//! | [`list`](DurableQueue::list) | drop the future | the limits of the store | [`list_async`](DurableQueue::list_async) |
//! | [`dead`](DurableQueue::dead) | drop the future | the limits of the store | [`dead_async`](DurableQueue::dead_async) |
//! | [`redrive`](DurableQueue::redrive) | drop the future | the limits of the store | [`redrive_async`](DurableQueue::redrive_async) |
//! | [`delete_dead`](DurableQueue::delete_dead) | drop the future | the limits of the store | [`delete_dead_async`](DurableQueue::delete_dead_async) |
//! | [`store_stats`](DurableQueue::store_stats) | drop the future | the limits of the store | [`store_stats_async`](DurableQueue::store_stats_async) |
//! | [`fate`](DurableQueue::fate) | drop the future | the limits of the store | [`fate_async`](DurableQueue::fate_async) |
//! | [`result`](DurableQueue::result) | [`fate`](DurableQueue::fate) | [`result_timeout`](DurableQueue::result_timeout) | [`result_async`](DurableQueue::result_async) |
//! | [`push_batch`](DurableQueue::push_batch) | drop the future of `push_many_async` | the limits of the store | `push_many_async` |
//! | the calls in a transaction | none | the limits of the client | the client's |
//! | [`shutdown`](DurableQueue::shutdown) | [`close`](DurableQueue::close) | it takes a timeout | [`shutdown_async`](DurableQueue::shutdown_async) |
//! | none: a thread calls [`WorkerBuilder::start`] and [`Worker::shutdown`] | [`WorkerBuilder::start`] | it returns at once | [`run_async`](WorkerBuilder::run_async), [`start_async`](WorkerBuilder::start_async) |
//! | [`Worker::shutdown`] | [`close`](DurableQueue::close) | it takes a timeout | `shutdown_async` of its [queue](Worker::queue); `Run::until`, `KindRun::until` |
//!
//! # Async handlers
//! A [`Worker`] runs futures as well. Its concurrency is a number of futures, not of threads:
//! ten thousand suspended handlers need no thread, and less than a kilobyte each, plus what the handler itself keeps.
//!
//! - `run_async` returns a future, `Run`, that any runtime can poll. `run.until(signal).await` stops taking jobs when
//!   the signal completes, waits for running handlers up to the builder's `grace`, and then drops them.
//! - `start_async` runs each handler as a task of an `AsyncPool`.
//!
//! A handler gets a `Job`, and a clone of the builder's `context`, if there is one. Its result settles the job, as on a
//! thread. No more jobs are claimed than handlers have room, unless handlers take microseconds, a
//! [kind is full](KindOptions::concurrency), or the builder has a [`batch`](WorkerBuilder::batch).
//!
//! | event | the handler's future | its job |
//! |---|---|---|
//! | the call of the handler, or a poll, panics | is dropped | the attempt has failed |
//! | the future's drop panics | the panic is caught | is settled by the result |
//! | the queue is closed before the first poll | the handler is not called | is released: due as before, without the attempt |
//! | the grace is over, or the `Run` is dropped | is dropped | is released |
//! | the lease is lost | goes on, and [`Claimed::lost`] completes; with `cancel_on_lost_lease` it is dropped | another process has it, or the attempt has failed |
//! | the [time limit](JobPolicy::time_limit) of the attempt is over | is dropped | the attempt has failed, with an error that names the limit |
//! | a cancel of the job is requested | goes on, and [`Claimed::cancelled`] completes; with `cancel_on_request` it is dropped | is done if the handler succeeds, and ends otherwise |
//! | the pool is released, or refuses a handler | is dropped by `release_now` | is released, and the queue is closed in this process |
//! | fork | the child gets `TakeError::Forked` | stays the parent's |
//!
//! # Kinds
//! One queue can hold jobs of many kinds, each with its own payload type and handler. [`Kind`] has an example with
//! threads, `WorkerBuilder::on_async` one with futures.
//!
//! | job | at a worker with handlers of kinds | at a worker with one handler, and for `take` |
//! |---|---|---|
//! | of a kind with a handler | goes to that handler | is taken by a handle of this kind, or of none |
//! | of another kind, or without a kind | the attempt has failed, with an error that names the kind | the same, if the handle is of a kind; other handles take all jobs |
//! | of a kind whose [concurrency](KindOptions::concurrency) is reached | waits here, or is postponed for any process; other kinds go on | |
//! | with a payload that cannot be decoded | the attempt has failed, with an error that names the kind | the same |
//!
//! The maximum of attempts, the back-off and the time limit of an attempt are those of the job
//! ([`with_policy`](DurableQueue::with_policy)), else of its kind at the worker ([`KindOptions::policy`]), else of the queue
//! ([`Builder`]).
//!
//! # Features
//! | feature | default | what it does |
//! |---|---|---|
//! | `cron` | no | [`Schedule`]: jobs that repeat |
//! | `json` | no | `Json<T>`: payloads of any type that serde knows |
#![forbid(unsafe_code)]

mod api;
mod engine;
mod error;
pub mod internals;
pub mod store;
mod threads;
mod work;

#[cfg(feature = "json")]
pub use self::store::payload::Json;
#[cfg(feature = "cron")]
pub use self::store::schedule::{Schedule, ScheduleError};
pub use self::{
    work::handler::Job,
    work::kinds::{AsyncKinds, KindRun},
    work::run::Run,
    work::worker::Context,
};
pub use dedup_queue::{
    Exponential, FastSlow, Jitter, Jittered, MaxOf, RateLimiter, TokenBucket, WithMaxWait,
};
pub use sync_shim::Timeout;

pub use self::{
    api::batch::Push,
    api::builder::{BuildError, Builder},
    api::kind::{Kind, KindOptions, NoKinds},
    api::push_in::{Answer, Async, Blocking, Mode, Parameter, PushIn, PushStatement, SqlStore},
    api::queue::{CancelError, DurableQueue, ShutDown},
    api::result::ResultError,
    api::take::{TakeFuture, TakeManyFuture},
    engine::claimed::Claimed,
    engine::config::{FIRST_BACK_OFF, LEASE, LONGEST_LEASE, MAX_ATTEMPTS},
    engine::hooks::{
        AttemptEnd, AttemptHook, AttemptStart, Hooks, LONGEST_CONTEXT, Outcome, Pushed,
    },
    engine::horizon::HORIZON,
    engine::kept::{LONGEST_RESULT, SetResultError},
    engine::policy::JobPolicy,
    engine::signals::SignalFuture,
    engine::stats::Stats,
    engine::unread::UNREADABLE,
    error::{CarriedOut, ErrorKind, LONGEST_ERROR, PushError, SettleError, StoreError, TakeError},
    store::failures::Failure,
    store::job::{Cancelled, JobId, Merge, NewJob, Put, Reset, Retried, Token, Which},
    store::limit::{Groups, Limit, StartRate},
    store::notify::{Notifier, Notifiers, Registration},
    store::payload::{DecodeError, EncodeError, Payload},
    store::time::{StoreClock, StoreTime, WallClock, When},
    store::{DoneJob, Fate, Store},
    threads::Threads,
    threads::call::CallFuture,
    threads::reply::SettleFuture,
    work::kinds::BlockingKinds,
    work::worker::{NoContext, StartError, Worker, WorkerBuilder},
};

// Compiles and runs the README's examples.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}
