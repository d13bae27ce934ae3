//! Stores jobs in the memory of Redis 7 or later, or of Valkey.
//!
//! Each call of the trait is one script: one round trip, without visible intermediate states. Durability
//! depends on the server's settings: with `appendonly yes` and `appendfsync always`, all answered calls
//! survive a crash; with `everysec`, up to the last second is lost.
//!
//! ```no_run
//! use std::time::Duration;
//! use durable_queue::DurableQueue;
//! use durable_queue_redis::RedisStore;
//!
//! let store = RedisStore::open(&std::env::var("REDIS_URL")?)?;
//! let mails: DurableQueue<String, _> = DurableQueue::new("mails", store);
//! mails.push("ann".to_owned(), Duration::from_secs(60))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! There is no push in the caller's own transaction, because the server has no suitable transactions: this
//! store does not implement [`SqlStore`](durable_queue::SqlStore).
//!
//! ```compile_fail,E0277
//! fn takes<S: durable_queue::SqlStore>() {}
//! takes::<durable_queue_redis::RedisStore>();
//! ```
//!
//! Not for:
//! - jobs that do not fit into the server's memory, including delayed jobs and dead letters. When it is full,
//!   pushes fail with [`Full`](durable_queue::ErrorKind::Full), and existing jobs continue;
//! - servers that delete keys to free memory (`maxmemory-policy allkeys-..`): opening a store fails, and if
//!   the policy is changed later, pushes fail with [`Evicting`](durable_queue::ErrorKind::Evicting) within a
//!   second. Partly deleted jobs become dead letters when they fall due;
//! - forked children, if the parent has opened the store: each call returns
//!   [`Forked`](durable_queue::ErrorKind::Forked).
//!
//! # Clusters and failovers
//! [`open_cluster`](RedisOptions::open_cluster) connects to a Redis Cluster,
//! [`open_sentinel`](RedisOptions::open_sentinel) to the master that sentinels name. Calls follow a queue to
//! another node or master, and are never repeated if they may have been carried out.
//!
//! Replication is asynchronous. A failover **loses** answered calls that the new master has not received:
//! pushes are gone, acknowledged jobs are handed out again, cancelled jobs run. With
//! [`wait_replicas`](RedisOptions::wait_replicas), calls succeed only after replicas have the change, so no
//! push, acknowledgement, cancel or reset that has succeeded is lost if the new master is one of them. Claims
//! are not covered: a running job may be handed out again, and its old holder can no longer settle it.
//!
//! # Limits
//! Times are exact to the microsecond up to the year 2255; later ones mean "never". A payload has up to
//! [`PAYLOAD_LIMIT`] bytes, a key, a group, a kind or a queue's name up to [`KEY_LIMIT`], all jobs of a push up to
//! [`PUSH_LIMIT`]. Larger pushes fail with [`TooLarge`](durable_queue::ErrorKind::TooLarge) before the server
//! is called.
//!
//! The server's user needs `+@read +@write +@connection +@scripting +@pubsub +info +time`, the keys
//! `PREFIX:*` and the channel `PREFIX:earlier`; on a cluster also `+cluster|info +cluster|slots
//! +cluster|myid`.
//!
//! # Guarantees
//! 1. A call takes effect completely or not at all, even if the server dies during it.
//! 2. The script that inserts a job announces it to listening processes that wait for a later time.
//! 3. No notifier is called while a session is locked.
//! 4. On a cluster, a script runs only on a node that has all keys of the queue.

#![forbid(unsafe_code)]

mod failure;
mod layout;
mod listen;
mod options;
mod script;
mod server;
mod shared;
mod store;
mod values;

pub use durable_queue::internals::{PROBE_ANSWER, PROBE_EVERY};
pub use redis;

pub use self::options::{CONNECT_TIMEOUT, PREFIX, RESPONSE_TIMEOUT, RedisOptions, SESSIONS};
pub use self::store::RedisStore;
pub use self::values::{KEY_LIMIT, PAYLOAD_LIMIT, PUSH_LIMIT};
