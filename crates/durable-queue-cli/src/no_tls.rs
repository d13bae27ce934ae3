//! Connections to servers, none of them encrypted: what demands TLS is refused.

use clap::Args;

/// None is trusted.
#[derive(Args)]
pub(crate) struct Roots {}

impl Roots {
    #[cfg(feature = "postgres")]
    #[expect(
        clippy::unused_self,
        reason = "it is the roots' matter, if there are any"
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
        reason = "it is the roots' matter, if there are any"
    )]
    pub(crate) fn open_redis(
        &self,
        address: &str,
    ) -> Result<durable_queue_redis::RedisStore, crate::failure::Failure> {
        Ok(durable_queue_redis::RedisStore::open(address)?)
    }
}
