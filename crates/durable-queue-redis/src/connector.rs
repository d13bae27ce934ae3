//! Starts sessions.

use std::time::Duration;

use durable_queue::internals::SharedClock;
use durable_queue::store::Result;
use redis::{Client, Connection, ConnectionInfo, RedisError, RedisResult};

use super::failure::{no_session, unreadable_address};
use super::layout::Layout;

/// Settings of new sessions.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) layout: Layout,
    pub(super) clock: SharedClock,
}

impl Connector {
    /// Starts a session without checking the version. `limit` applies to the start and to each response.
    pub(super) fn dial(&self, client: &Client, limit: Duration) -> Result<Connection> {
        let failed = |error: RedisError| no_session(&error);
        let timeout = self.connect_timeout.min(limit);
        let connection = client.get_connection_with_timeout(timeout);
        let connection = connection.map_err(failed)?;
        set_limit(&connection, self.response_timeout.min(limit)).map_err(failed)?;
        Ok(connection)
    }
}

pub(super) fn set_limit(connection: &Connection, limit: Duration) -> RedisResult<()> {
    connection.set_read_timeout(Some(limit))?;
    connection.set_write_timeout(Some(limit))
}

/// Returns a client of an address that has been parsed.
pub(super) fn client(address: ConnectionInfo) -> Result<Client> {
    Client::open(address).map_err(|_| unreadable_address())
}
