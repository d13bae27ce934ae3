//! The current master of several servers, as sentinels know it.
//!
//! # Invariants
//! 1. A session is started only with a server that says itself that it is a master.
//! 2. A sentinel that does not answer costs a bounded part of the time for a session.

use std::time::Duration;

use durable_queue::store::Result;
use redis::{Client, Connection, ConnectionAddr, ConnectionInfo};
use sync_shim::Clock as _;
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::failure::{no_session, no_time, not_a_master, unknown_master};
use crate::server::checks::{field, info};
use crate::server::connector::{Connector, client};

/// Maximum time for the answer of one sentinel, or of the server that it names.
const ANSWER: Duration = Duration::from_secs(1);

/// Finds the master.
pub(crate) struct Master {
    name: String,
    sentinels: Vec<Client>,
    /// The master's address, except its host and port.
    server: ConnectionInfo,
    /// The sentinel that answered last.
    last: AtomicUsize,
}

impl Master {
    pub(crate) fn new(name: String, sentinels: Vec<Client>, server: ConnectionInfo) -> Self {
        Self {
            name,
            sentinels,
            server,
            last: AtomicUsize::new(0),
        }
    }

    /// Starts a session with the master.
    pub(crate) fn dial(&self, connector: &Connector, limit: Duration) -> Result<Connection> {
        let limit = limit.min(connector.connect_timeout);
        let begin = connector.clock.now();
        let last = self.last.load(Relaxed); // A hint.
        let mut failed = no_time();
        for offset in 0..self.sentinels.len() {
            let number = (last + offset) % self.sentinels.len();
            let left = limit.saturating_sub(connector.clock.now() - begin);
            if left.is_zero() {
                break;
            }
            match self.by(&self.sentinels[number], connector, left) {
                Ok(connection) => {
                    self.last.store(number, Relaxed);
                    return Ok(connection);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Starts a session with the master that this sentinel knows.
    fn by(&self, sentinel: &Client, connector: &Connector, left: Duration) -> Result<Connection> {
        let each = (left / 2).min(ANSWER);
        let mut connection = connector.dial(sentinel, each)?;
        let mut get = redis::cmd("SENTINEL");
        get.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let found: Option<(String, u16)> = get
            .query(&mut connection)
            .map_err(|error| no_session(&error))?;
        let (host, port) = found.ok_or_else(unknown_master)?;
        let master = at(&self.server, host, port);
        let master = client(master)?;
        let mut connection = connector.dial(&master, each)?;
        // Soon after a failover, a sentinel may not know the new master yet.
        let replication = info(&mut connection, "replication").map_err(|it| no_session(&it))?;
        if field(&replication, "role") != "master" {
            return Err(not_a_master());
        }
        Ok(connection)
    }
}

/// Replaces the host and the port of an address.
pub(crate) fn at(address: &ConnectionInfo, host: String, port: u16) -> ConnectionInfo {
    let addr = match address.addr().clone() {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure,
            tls_params,
        },
        _ => ConnectionAddr::Tcp(host, port),
    };
    address.clone().set_addr(addr)
}
