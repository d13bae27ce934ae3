//! Paths and calls that differ between versions of the crates. `cargo xtask versions` gives the tree of an older version
//! all other files of this program; this one stays as it was in that version.

pub(crate) use durable_queue_postgres::{PostgresStore, postgres};
pub(crate) use durable_queue_redis::{RedisStore, redis};
pub(crate) use durable_queue_sqlite::{SqliteStore, rusqlite};
pub(crate) use durable_queue_tests::databases;

use std::time::Duration;

use durable_queue::{Claimed, SettleError};

pub(crate) fn retry_after<T>(job: Claimed<T>, delay: Duration) -> Result<(), SettleError> {
    job.retry_after(delay, "as the driver wishes").map(drop)
}
