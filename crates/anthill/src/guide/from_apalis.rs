//! Migrating from [apalis](https://github.com/apalis-dev/apalis) 1.0 to durable queues.
//!
//! The feature `durable-sqlite`, `durable-postgres` or `durable-redis` takes the place of `apalis-sqlite`,
//! `apalis-postgres` or `apalis-redis`. [`durable`](super::durable) describes the queues.
//!
//! | apalis | anthill |
//! |---|---|
//! | `SqliteStorage::setup(&pool)`, `new(&pool)` | `SqliteStore::open(path)`, which also creates the tables |
//! | `Config::new("emails")`, a queue | `DurableQueue::new("emails", store)` |
//! | `storage.push(email)` | `push(email, When::NOW)` |
//! | `push_all`, `push_stream` | `push_many`, `push_batch` |
//! | `TaskBuilder::run_after(delay)` | `push(email, delay)` |
//! | `TaskBuilder::idempotency_key(key)` | `push_keyed(key, email, when, Merge::Keep)` |
//! | `TaskBuilder::priority(n)` | `urgent()`, one level; or further queues |
//! | `TaskBuilder::max_attempts(n)` | `with_policy(JobPolicy::new().max_attempts(n)).push(email, When::NOW)` |
//! | `WorkerBuilder::new(name).backend(storage)` | `Worker::builder(queue)`; workers have no names |
//! | `.concurrency(n).build(handler)`, `run().await` | `.concurrency(n).run_async(handler).await`; `start(handler)` for a blocking handler |
//! | `.data(mailer)`, `Data<T>` | `.context(mailer)`, of which each handler gets a clone |
//! | `Attempt`, `TaskId` | `Job::attempt`, `Job::id` |
//! | `set_buffer_size(n)` | `Builder::prefetch(n)`; 0 by default |
//! | `with_poll_interval` | none; a queue sleeps until the next due time or a notification |
//! | `reenqueue_orphaned_after`, 5 minutes by default | `Builder::lease`, 10 seconds by default |
//! | the features `retry`, `limit`, `timeout` | `JobPolicy::back_off`, `Builder::rate` and `DurableQueue::limit`, `JobPolicy::time_limit` |
//! | the features `tracing`, `prometheus`, `opentelemetry` | `Hooks`; there are no adapters |
//! | `WorkerContext::stop`, `Monitor` with a shutdown signal | `.run_async(handler).until(signal)` |
//! | stored results | `Builder::keep_done`, `Claimed::set_result`, `DurableQueue::result_async` |
//! | `apalis-cron` | `push_repeating` (feature `durable-cron`) |
//! | `apalis-board` | the program `durable-queue` lists, cancels and redrives jobs; there is no web page |
//! | `apalis-workflow`, other layers of tower | none |
//!
#![cfg_attr(feature = "durable-sqlite", doc = "```")]
#![cfg_attr(not(feature = "durable-sqlite"), doc = "```ignore")]
//! // SqliteStorage::setup(&pool).await?; let mut emails = SqliteStorage::new(&pool);
//! // emails.push("ann@example.com".to_owned()).await?;
//! // let worker = WorkerBuilder::new("mailer").backend(emails).concurrency(2).data(mailer).build(send);
//! // worker.run().await?;
//! use anthill::durable_queue::{DurableQueue, Job, When, Worker};
//! use anthill::durable_queue_sqlite::SqliteStore;
//! use tokio::sync::mpsc::{UnboundedSender, error::SendError, unbounded_channel};
//!
//! type Mailer = UnboundedSender<String>;
//!
//! async fn send(email: Job<String>, mailer: Mailer) -> Result<(), SendError<String>> {
//!     mailer.send(email.clone())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = SqliteStore::open(":memory:")?; // A program names a file.
//! let emails = DurableQueue::new("emails", store);
//! emails.push_async("ann@example.com".to_owned(), When::NOW).await?;
//!
//! let (mailer, mut outbox) = unbounded_channel();
//! let worker = Worker::builder(emails).concurrency(2).context(mailer).run_async(send);
//! let sent = async { assert_eq!(outbox.recv().await.unwrap(), "ann@example.com") };
//! worker.until(sent).await?; // A service waits for a signal instead.
//! # Ok(())
//! # }
//! ```
//!
//! # Differences
//! - **Handlers are async functions or blocking ones.** `run_async` polls them on the runtime that awaits it, as in apalis;
//!   `start` calls them on threads.
//! - **Acknowledged jobs are deleted**, unless the queue has `keep_done`. apalis keeps the row of a finished task, with its result, until it is
//!   vacuumed.
//! - **Delivery is at least once in both.** A killed process's jobs are delivered again when their leases expire.
//!   apalis puts the tasks of a worker back when the worker's heartbeat, every 30 seconds, has been missing for 5
//!   minutes.
//! - **Settles are fenced by a random token of each claim.** A handler whose lease was taken over gets
//!   `SettleError::Stale`. `apalis-sqlite` compares the name of the worker, which restarted or replicated processes
//!   often share.
//! - **A failed job waits for a back-off**: one second at first, an hour at most, with jitter. `apalis-sqlite` makes
//!   a failed task eligible at the next poll; the layer of the feature `retry` repeats the call within the worker.
//! - **A job without attempts left becomes a dead letter**, with the last error. `redrive` makes it a job again. In
//!   apalis the task keeps its row, with the status `Failed` or `Killed`.
//! - **A key is free again when its job starts.** A push during the run creates a job of its own. `Merge` also
//!   replaces or delays the open job. An idempotency key of apalis belongs to its task for as long as the row exists.
//! - **A job never starts before its due time**, and typically within a millisecond of it. The SQL storages of apalis
//!   poll every 100 milliseconds by default, and less often while they are idle.
//! - **A successful `cancel` is final** until a handler has the job. Then it asks the handler to stop.
//! - **A push may be part of the application's transaction** (`push_in`, on `SQLite` and `PostgreSQL`).
//! - **One queue holds many kinds of jobs**, each with its own payload type and handler: `Kind`. In apalis each type has a
//!   worker of its own.
