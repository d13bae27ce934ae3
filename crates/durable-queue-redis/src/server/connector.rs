//! Starts sessions.

use std::time::Duration;

use durable_queue::internals::SharedClock;
use durable_queue::store::Result;
use redis::{Client, Connection, ConnectionInfo, RedisError, RedisResult};

use crate::failure::{no_session, unreadable_address};
use crate::layout::Layout;

/// Settings of new sessions.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) layout: Layout,
    pub(crate) clock: SharedClock,
}

impl Connector {
    /// Starts a session without checking the version. `limit` applies to the start and to each response.
    pub(crate) fn dial(&self, client: &Client, limit: Duration) -> Result<Connection> {
        let failed = |error: RedisError| no_session(&error);
        let timeout = self.connect_timeout.min(limit);
        let connection = client.get_connection_with_timeout(timeout);
        let connection = connection.map_err(failed)?;
        set_limit(&connection, self.response_timeout.min(limit)).map_err(failed)?;
        Ok(connection)
    }
}

pub(crate) fn set_limit(connection: &Connection, limit: Duration) -> RedisResult<()> {
    connection.set_read_timeout(Some(limit))?;
    connection.set_write_timeout(Some(limit))
}

/// Returns a client of an address that has been parsed.
pub(crate) fn client(address: ConnectionInfo) -> Result<Client> {
    Client::open(address).map_err(|_| unreadable_address())
}
