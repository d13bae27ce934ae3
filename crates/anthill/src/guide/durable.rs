//! Jobs that survive the process: in a database, shared by all processes that open it.
//!
//! A `DurableQueue` hands jobs out when they are due, as a `DelayQueue` does. In addition a job comes again until its
//! handler acknowledges it, also to another process after a crash. Each job costs a commit of the database.
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
//! lapsed.ack()?; // Without it the job comes again.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # At least once
//! A handler may see a job twice: its process may be killed between its work and the acknowledgement. So the work
//! must bear that, for example by an update that changes an order only if it is still open. A push in the transaction of the
//! application (`push_in_transaction`, on `SQLite` and `PostgreSQL`) enters a job if and only if that commits.
//!
//! # Several handlers
//! `durable_queue::Worker` runs a handler on a pool, and acknowledges, retries with a back-off, or buries each job by
//! the handler's result.
//!
//! The features `cron` and `json` of the package `anthill-durable-queue` add jobs that repeat and payloads of any type that
//! serde knows. The program of the package `anthill-durable-queue-cli` inspects and operates queues from a shell.
