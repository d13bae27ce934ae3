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
//! | `TaskBuilder::max_attempts(n)` | `Builder::max_attempts(n)`, for all jobs of a queue |
//! | `WorkerBuilder::new(name).backend(storage)` | `Worker::builder(queue)`; workers have no names |
//! | `.concurrency(n).build(handler)`, `run().await` | `.concurrency(n).start(handler)` |
//! | `Data<T>` | variables that the handler's closure captures |
//! | `Attempt`, `TaskId` | `Claimed::attempt`, `Claimed::id` |
//! | `set_buffer_size(n)` | `Builder::prefetch(n)`; 0 by default |
//! | `with_poll_interval` | none; a queue sleeps until the next due time or a notification |
//! | `reenqueue_orphaned_after`, 5 minutes by default | `Builder::lease`, 10 seconds by default |
//! | the features `retry`, `limit`, `timeout` | `Builder::back_off`, `Builder::rate`, `Builder::attempt_timeout`, which does not end the handler |
//! | `WorkerContext::stop`, `Monitor` with a shutdown signal | `Worker::shutdown(timeout)` |
//! | `apalis-cron` | `push_repeating` (feature `cron` of `anthill-durable-queue`) |
//! | `apalis-board` | the program `durable-queue` lists, cancels and redrives jobs; there is no web page |
//! | `apalis-workflow`, stored results, tower layers | none |
//!
#![cfg_attr(feature = "durable-sqlite", doc = "```")]
#![cfg_attr(not(feature = "durable-sqlite"), doc = "```ignore")]
//! // SqliteStorage::setup(&pool).await?; let mut emails = SqliteStorage::new(&pool);
//! // emails.push("ann@example.com".to_owned()).await?;
//! // let worker = WorkerBuilder::new("mailer").backend(emails).concurrency(2).data(mailer).build(send);
//! // worker.run().await?;
//! use anthill::durable_queue::{Claimed, DurableQueue, ShutDown, When, Worker};
//! use anthill::durable_queue_sqlite::SqliteStore;
//! use std::sync::mpsc::channel;
//! use std::time::Duration;
//!
//! let store = SqliteStore::open(":memory:")?; // A program names a file.
//! let emails = DurableQueue::new("emails", store);
//! emails.push("ann@example.com".to_owned(), When::NOW)?;
//!
//! let (mailer, outbox) = channel();
//! let send = move |email: &Claimed<String>| mailer.send(String::clone(email));
//! let worker = Worker::builder(emails).concurrency(2).start(send)?;
//!
//! assert_eq!(outbox.recv()?, "ann@example.com");
//! assert_eq!(worker.shutdown(Duration::from_secs(30)), ShutDown::Finished);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Differences
//! - **Handlers of a `Worker` are closures on threads.** They may block. In apalis they are async functions, which
//!   run on the worker's runtime.
//! - **Acknowledged jobs are deleted.** apalis keeps the row of a finished task, with its result, until it is
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
