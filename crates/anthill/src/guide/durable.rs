//! Jobs in a database, which survive the process and are shared by all processes that open the database.
//!
//! A `DurableQueue` delivers jobs when they are due, like a `DelayQueue`. In addition, a job is delivered again until a
//! handler acknowledges it, after a crash also to another process. A push and an acknowledgement are commits of the
//! database, which concurrent jobs share.
//!
//! | jobs are in | feature | store |
//! |---|---|---|
//! | a file of `SQLite`, for the processes of one machine | `durable-sqlite` | `durable_queue_sqlite::SqliteStore` |
//! | a database of `PostgreSQL` | `durable-postgres` | `durable_queue_postgres::PostgresStore` |
//! | the memory of Redis or Valkey | `durable-redis` | `durable_queue_redis::RedisStore` |
//! | a store of your own | `durable` | any `durable_queue::Store` |
//!
#![cfg_attr(feature = "durable-sqlite", doc = "```")]
#![cfg_attr(not(feature = "durable-sqlite"), doc = "```ignore")]
//! use anthill::durable_queue::{DurableQueue, When};
//! use anthill::durable_queue_sqlite::SqliteStore;
//! use std::time::Duration;
//!
//! let store = SqliteStore::open(":memory:")?; // A program names a file.
//! let unpaid: DurableQueue<String, _> = DurableQueue::new("unpaid", store);
//! let half_an_hour = Duration::from_secs(1800);
//!
//! let order_1 = unpaid.push("order 1".to_owned(), half_an_hour)?;
//! assert!(unpaid.cancel(order_1)?.is_gone()); // It was paid.
//!
//! unpaid.push("order 2".to_owned(), When::NOW)?;
//! let lapsed = unpaid.take()?;
//! assert_eq!(*lapsed, "order 2");
//! lapsed.ack()?; // Without it the job is delivered again.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # At least once
//! A job may be delivered twice, because the process may be killed between the work and the acknowledgement. So handlers
//! must be idempotent, for example by an update that changes an order only if it is still open. A push in the
//! application's transaction adds the job if and only if the transaction commits, with `sqlx` for example:
//!
//! ```ignore
//! let mut tx = pool.begin().await?;
//! sqlx::query("INSERT INTO users VALUES ('ann')").execute(&mut *tx).await?;
//! mails.push_in(&mut tx, "welcome, ann".to_owned(), IN_A_MINUTE).await?;
//! tx.commit().await?;
//! ```
//!
//! `push_in` takes transactions of `sqlx` (feature `durable-sqlx`), `rusqlite`,
//! `postgres` and `tokio-postgres`. For other clients, `push_statement` returns the SQL statement and its parameters.
//!
//! # Several handlers
//! `durable_queue::Worker` runs a blocking handler on the threads of a pool, and acknowledges, retries with a back-off, or
//! buries each job by the handler's result.
//!
//! # Async handlers
//! Handlers may be futures. `run_async` returns a future that
//! the service's runtime polls; `start_async` runs the handlers in an `AsyncPool`:
//!
//! ```ignore
//! let run = Worker::builder(mails)
//!     .concurrency(200) // Futures, not threads.
//!     .grace(Duration::from_secs(20))
//!     .context(app)
//!     .run_async(|mail, app: App| async move { app.send(&mail).await });
//! run.until(shutdown_signal).await?;
//! ```
//!
//! After the signal no job is taken. Running handlers have 20 seconds; then they are dropped, and their jobs are released,
//! so that another process takes them at once. Dropping the future does that without waiting.
//!
//! # Kinds of jobs
//! One queue holds many kinds of jobs, each with its own payload type and handler. With the feature `durable-json`:
//!
//! ```ignore
//! #[derive(Serialize, Deserialize)]
//! struct SendMail { to: String }
//! impl Kind for SendMail { const NAME: &'static str = "send-mail"; }
//!
//! async fn send_mail(mail: Job<Json<SendMail>>, app: App) -> Result<(), MailError> { .. }
//! async fn report(report: Job<Json<Report>>, app: App) -> Result<(), sqlx::Error> { .. }
//!
//! let jobs: DurableQueue<Vec<u8>, _> = DurableQueue::new("jobs", store);
//! jobs.kind().push_async(Json(SendMail { to }), IN_A_MINUTE).await?; // In a request's handler.
//!
//! let reports = KindOptions::new()
//!     .concurrency(4) // The other handlers stay free for other kinds.
//!     .policy(JobPolicy::new().max_attempts(5).time_limit(TEN_MINUTES));
//! let run = Worker::builder(jobs.clone())
//!     .concurrency(200)
//!     .context(app)
//!     .on_async(send_mail)
//!     .on_async_with(reports, report)
//!     .run_async();
//! run.until(shutdown_signal).await?;
//! ```
//!
//! Blocking handlers are added by `on` and `on_with`, and started by `start`. A job of a kind that has no handler in
//! this process stays for one that has: in a rolling deployment, a process of the newer version gets it.
//! A job has its own policy if it is pushed by a handle with one: `jobs.kind().with_policy(policy).push(..)`.
//!
//! # The same work pushed twice
//! `jobs.push_keyed(key, job, when, merge)`: a key has at most one job that has not been started, and `Merge` says how a further push
//! changes it. With `Merge::KeepUntilDone` a push is also kept by a job that runs, such as an export of three hours, and with
//! `Merge::KeepDone` by one that was done a while ago: `jobs.with_policy(JobPolicy::new().keep_done(hour))` makes it one mail per
//! user and hour.
//!
//! # Cancelling a running job
//! `cancel` of a running job asks its handler to stop, in whatever process it runs, and the job is not retried. An async
//! handler awaits `job.cancelled()`, or is dropped if the builder has `cancel_on_request`; a blocking handler calls
//! `job.is_cancelled()` from time to time, or `job.wait_cancelled_timeout(pause)` instead of sleeping. A handler that
//! succeeds nevertheless acknowledges its job as usual.
//!
//! # Groups and limits, for all processes
//! `jobs.group("account 7").push(..)` pushes a job of a group: any number of them may wait. The queue says what groups mean, by one
//! of three rules: `jobs.limit(&Limit::ordered())` runs the jobs of each group one after another, in order, in whatever
//! process, and a failed one is not overtaken; `Limit::per_group(2)` runs at most two of each at a time; with `Limit::fair()` the
//! groups take turns, so a tenant with a thousand jobs does not hold up the others.
//!
//! `Limit::per_kind` bounds how many jobs of a kind run at a time, and `Limit::rate_of_kind` how many start in a span. A maximum of zero stops a kind. The store keeps the limits, so
//! one process sets them for all, also while jobs run.
//!
//! # Results
//! A queue with `keep_done(span)` keeps its done jobs for that time. A handler may set a result of up to 64 KiB
//! (`set_result`), and any process can await it: `jobs.result_async(id).await?`.
//!
//! # Failures
//! A job keeps the times and errors of its last ten failed attempts: `job.failures()` in a handler, and `failures()` of
//! the results of `list` and `dead`.
//!
//! # What to look at in operation
//! `store_stats` counts unfinished jobs, those that are due, and dead letters, without a scan, `stats` what this process has done. `Hooks` around pushes
//! and attempts serve metrics and traces. The program of the package `anthill-durable-queue-cli` inspects and operates queues
//! from a shell.
//!
//! Repeating jobs, by cron patterns, need the feature `durable-cron`.
