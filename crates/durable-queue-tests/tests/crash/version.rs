//! Where things are in this version of the crates. `cargo xtask versions` puts another file into the tree of an older
//! version, and all others as they are.

pub(crate) use durable_queue_postgres::{PostgresStore, postgres};
pub(crate) use durable_queue_redis::{RedisStore, redis};
pub(crate) use durable_queue_sqlite::{SqliteStore, rusqlite};
pub(crate) use durable_queue_tests::databases;
