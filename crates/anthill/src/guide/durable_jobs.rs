//! Durable jobs in an async service.
//!
//! This page follows `examples/shop_async` of the repository, a service of axum and sqlx. A user who signs up gets a mail, an order expires unless it is paid
//! in time, and a report is made every night. Its test kills it again and again under load, and no job is missed. [`durable`]
//! describes the queue itself. Features: `durable-cron`, `durable-json`, `durable-sqlx`, and
//! `durable-sqlite` or `durable-postgres`.
//!
//! # One queue, several kinds of jobs
//! Each kind has a payload type, a name that is stored with its jobs, and a handler. `Json` stores any type of serde:
//!
//! ```ignore
//! #[derive(Serialize, Deserialize)]
//! pub(crate) struct Expire {
//!     pub(crate) order: i64,
//! }
//!
//! impl Kind for Expire {
//!     const NAME: &'static str = "expire";
//! }
//! ```
//!
//! The queue has handles of each kind. They cost nothing, and share the queue's calls of the store:
//!
//! ```ignore
//! let mails = self.jobs.kind::<Json<Mail>>();
//! ```
//!
//! # Push within the transaction
//! If the job is pushed before the commit, its handler may not find the data yet. If it is pushed after the commit, a crash in
//! between loses it. So the job is a row of the same transaction:
//!
//! ```ignore
//! let mut tx = self.database.begin_with("BEGIN IMMEDIATE").await?;
//! let (user,): (i64,) = sqlx::query_as("INSERT INTO users (name) VALUES (?1) RETURNING id")
//!     .bind(name)
//!     .fetch_one(&mut *tx)
//!     .await?;
//! let mail = Mail::new(format!("welcome/{user}"), format!("Welcome, {name}!"));
//! let mails = self.jobs.kind::<Json<Mail>>();
//! mails.push_in(&mut tx, Json(mail), When::NOW).await?;
//! tx.commit().await?;
//! ```
//!
//! On `PostgreSQL` the code is the same, with `pool.begin()`. A key names a job whose number the caller does not keep, such as an
//! order's timeout, so that a payment can cancel it:
//!
//! ```ignore
//! let _cancelled = self.jobs.cancel_async(&*key(order)).await?;
//! ```
//!
//! # Handlers
//! A handler may run twice, because the process may die between its work and the acknowledgement. So the work is an update that
//! has no effect the second time. The expiry, for one, changes an order only if it is still open, and pushes the mail about it in
//! the same transaction. Where a handler calls another service, it passes on an id that does not change, here the mail's.
//!
//! ```ignore
//! async fn expire(timeout: Job<Json<Expire>>, shop: Shop) -> Result<(), Failure> {
//!     shop.end(timeout.0.order, "expired").await?;
//!     Ok(())
//! }
//! ```
//!
//! One worker serves all kinds. Its handlers are futures, polled by the service's own runtime. Each gets a clone of the context.
//! A handler that fails runs again after a back-off. A job of an unknown kind fails, too, so that during a deployment it reaches
//! a process of the newer version.
//!
//! ```ignore
//! let one_at_a_time = KindOptions::new().concurrency(1);
//! let worker = Worker::builder(shop.jobs.clone())
//!     .concurrency(100)
//!     .grace(grace)
//!     .context(shop.clone())
//!     .on_async(send)
//!     .on_async(expire)
//!     .on_async_with(one_at_a_time, report);
//! Ok(worker.run_async().until(signal).await?)
//! ```
//!
//! # Every night
//! A repeating job has a key, so it exists once, however often and in however many processes the service starts. If no process
//! ran at its time, it runs once at the next start:
//!
//! ```ignore
//! let reports = self.jobs.kind::<Json<Report>>();
//! let pushed = reports.push_repeating_async("report", &schedule, Json(Report {}));
//! pushed.await?;
//! ```
//!
//! # Shutting down
//! After a signal the server takes no connection, and the worker no job. Handlers that are still running when the grace ends are
//! dropped, and their jobs are free for the next process at once. A process that is killed keeps its jobs until their leases
//! expire, ten seconds at most by default.
//!
//! ```ignore
//! let ((), (), jobs) = tokio::try_join!(
//!     signalled,
//!     async { Ok(server.with_graceful_shutdown(ended()).await?) },
//!     jobs::run(shop, GRACE, ended()),
//! )?;
//! ```
//!
//! # What to look at in operation
//! `store_stats_async` counts waiting jobs and dead letters without a scan; the program of `anthill-durable-queue-cli` lists
//! them, shows the errors of failed attempts, and makes dead letters jobs again. `stats` counts what this process has done.
//!
//! [`durable`]: super::durable
