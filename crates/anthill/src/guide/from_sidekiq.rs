//! Migrating from [Sidekiq](https://sidekiq.org) (Ruby) to durable queues.
//!
//! With the feature `durable-redis`, jobs stay in Redis or Valkey. `SQLite` and `PostgreSQL` also
//! allow pushes in the application's transaction. [`durable`](super::durable) describes the queues.
//!
//! | Sidekiq | anthill |
//! |---|---|
//! | a job class with `perform` | a `Kind`: a payload type with a name, and a handler at the `Worker` of the queue |
//! | arguments in JSON | the payload: bytes, text, or any serde type as `Json<T>` (feature `durable-json`) |
//! | `perform_async(..)` | `push(value, When::NOW)` |
//! | `perform_in(delay, ..)`, `perform_at(time, ..)` | `push(value, delay)`, `push(value, time)` |
//! | `perform_bulk`, `push_bulk` | `push_many`, `push_batch` |
//! | `concurrency` of a process or capsule | `WorkerBuilder::concurrency`; of a job class, `KindOptions::concurrency` |
//! | weights and order of queues | `urgent()` within a queue; each queue has a `Worker` of its own |
//! | `sidekiq_options retry: 5` | `JobPolicy::max_attempts(6)`, of a kind or a job: the first run counts as well |
//! | `sidekiq_retry_in` | `JobPolicy::back_off`; `Claimed::retry_after` |
//! | `raise` | return an error, or panic |
//! | `sidekiq_retries_exhausted` | `Hooks`: an attempt that ends with `Retried::Buried`; the queue's dead letters |
//! | client and server middleware | `Hooks`, around pushes and attempts; `WorkerBuilder::context` for what handlers share |
//! | `ScheduledSet`, `RetrySet`, `Queue`: `each` | `list` |
//! | `delete` of an entry | `cancel(id)`, `cancel(key)` |
//! | `reschedule`, `add_to_queue` of an entry | `reset(id, time)`, `reset(id, When::NOW)` |
//! | `DeadSet`: `each`, `retry`, `delete`; `kill` of an entry | `dead`, `redrive`, `delete_dead`; `Claimed::bury` |
//! | `Queue#size`, `Queue#latency` | `store_stats` |
//! | `Queue#pause!`, `unpause!` (Pro) | `pause(true)`, `pause(false)` |
//! | `super_fetch!` (Pro) | always |
//! | `unique_for`, `unique_until: :start` (Enterprise) | `push_keyed(key, value, when, Merge::Keep)` |
//! | `unique_for`, `unique_until: :success` (Enterprise) | `Merge::KeepUntilDone`; `Merge::KeepDone` also for a while afterwards |
//! | `Sidekiq::Limiter.concurrent(name, 1)` (Enterprise) | `group(name)` and `limit(&Limit::ordered())` |
//! | `Sidekiq::Limiter.concurrent(name, n)`, `bucket`, `leaky` (Enterprise) | `limit(&Limit::per_kind(kind, n))`, `limit(&Limit::rate_of_kind(kind, jobs, per))`; `Builder::rate`, for one process |
//! | `config.periodic` (Enterprise) | `push_repeating` (feature `durable-cron`) |
//! | `Sidekiq.transactional_push!` | `push_in` |
//! | `TSTP` | `DurableQueue::close` |
//! | `TERM` and the timeout `-t` | `Worker::shutdown(timeout)` |
//! | the web page | the program `durable-queue`, in a shell; there is no web page |
//! | batches (Pro), encryption (Enterprise) | none |
//!
#![cfg_attr(feature = "durable-sqlite", doc = "```")]
#![cfg_attr(not(feature = "durable-sqlite"), doc = "```ignore")]
//! // class WelcomeJob
//! //   include Sidekiq::Job
//! //   sidekiq_options retry: 5, unique_for: 1.hour
//! // ..
//! use anthill::durable_queue::{DurableQueue, Merge, Put, When};
//! use anthill::durable_queue_sqlite::SqliteStore;
//! use std::time::Duration;
//!
//! let store = SqliteStore::open(":memory:")?; // A program names a file.
//! let welcome = DurableQueue::builder("welcome", store).max_attempts(6).build()?;
//!
//! // WelcomeJob.perform_in(3.hours, "ann"), twice
//! let in_three_hours = Duration::from_secs(3 * 3_600);
//! let first = welcome.push_keyed("ann", "ann".to_owned(), in_three_hours, Merge::Keep)?;
//! let second = welcome.push_keyed("ann", "ann".to_owned(), in_three_hours, Merge::Keep)?;
//! assert_eq!(second, Put::Kept(first.id()));
//!
//! // Sidekiq::ScheduledSet.new.find_job(jid).add_to_queue
//! welcome.reset(first.id(), When::NOW)?;
//! let job = welcome.take()?; // A `Worker` takes jobs and calls a handler.
//! job.bury("the address bounces")?; // As after the last attempt.
//!
//! // Sidekiq::DeadSet.new.each(&:retry)
//! let dead = welcome.dead(None, 100)?;
//! assert_eq!(dead[0].error, "the address bounces");
//! let ids: Vec<_> = dead.iter().map(|job| job.id).collect();
//! assert_eq!(welcome.redrive(&ids)?, 1);
//!
//! let job = welcome.take()?;
//! assert_eq!((job.as_str(), job.attempt()), ("ann", 1));
//! job.ack()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Differences
//! - **A job stays in the store until it is acknowledged.** A job of a killed process is delivered again within its
//!   lease (10 seconds by default). Sidekiq removes a job from Redis when it fetches it, so a crash loses the job;
//!   `super_fetch` of Sidekiq Pro keeps it, and looks for orphans.
//! - **Delivery is at least once.** A job may run twice, so handlers must be idempotent.
//! - **A handler whose lease was taken over cannot settle its job**: each settle fails with `SettleError::Stale`.
//! - **Retries**: 20 attempts by default, after one second, two, four, up to an hour, with jitter. Sidekiq makes 25
//!   retries over about three weeks.
//! - **Retries are set for a queue, a kind, or a single job**; the policy of the job comes first, then that of its kind.
//! - **A running job can be cancelled**, in whatever process it runs: `cancel` asks its handler to stop.
//! - **Handlers may be async functions.** Then a process has thousands of them, without a thread for each.
//! - **Scheduled jobs start on time**: never early, and typically within a millisecond. Sidekiq's poller looks for
//!   due jobs about every 5 seconds.
//! - **Uniqueness has no time limit.** A key has at most one open job, and is free when the job starts. A lock of
//!   `unique_for` ends after its time, by default also after success, and is best effort. `Merge` can also move the
//!   open job, for example to debounce.
//! - **Dead letters are kept until they are deleted.** Sidekiq discards them after 6 months, or beyond 10,000.
//! - **A push in a transaction is part of it**: the job exists if and only if the transaction commits.
//!   `transactional_push!` pushes to Redis after the commit, and a crash in between loses the job.
//! - **A shutdown does not end threads.** Blocking handlers that run longer than the timeout continue until the process ends.
//!   Their jobs are delivered again when the leases expire. Async handlers are dropped at the end of the `grace`, and their
//!   jobs are free at once. Sidekiq ends handlers after 25 seconds and pushes their jobs back.
