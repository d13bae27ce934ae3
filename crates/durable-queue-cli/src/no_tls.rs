//! Unencrypted connections to servers. An address that requires TLS is rejected.

use clap::Args;

/// No arguments.
#[derive(Args)]
pub(crate) struct Roots {}

impl Roots {
    #[cfg(feature = "postgres")]
    #[expect(
        clippy::unused_self,
        reason = "same signature as with root certificates"
    )]
    pub(crate) fn open_postgres(
        &self,
        address: &str,
    ) -> Result<durable_queue_postgres::PostgresStore, crate::failure::Failure> {
        Ok(durable_queue_postgres::PostgresStore::open(address)?)
    }

    #[cfg(feature = "redis")]
    #[expect(
        clippy::unused_self,
        reason = "same signature as with root certificates"
    )]
    pub(crate) fn open_redis(
        &self,
        address: &str,
    ) -> Result<durable_queue_redis::RedisStore, crate::failure::Failure> {
        Ok(durable_queue_redis::RedisStore::open(address)?)
    }
}
