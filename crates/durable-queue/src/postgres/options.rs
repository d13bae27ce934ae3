//! How a store is opened.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use postgres::tls::{MakeTlsConnect, TlsConnect};
use postgres::{Config, NoTls, Socket};

use super::failure::unreadable_address;
use super::listen::Queues;
use super::schema::Schema;
use super::session::{Connector, Sessions};
use super::{PostgresStore, Shared};
use crate::listen::{Hub, Timing};
use crate::store::Result;

/// How long a call waits for a lock of another transaction, if not said.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How many sessions a store has at most, if not said; one more listens if a queue is watched.
pub const SESSIONS: usize = 4;
/// The schema of the tables and functions, if not said.
pub const SCHEMA: &str = "durable";

/// How a [`PostgresStore`] is opened. [`PostgresStore::options`] begins one.
#[derive(Clone)]
#[must_use = "options do nothing until `open` is called"]
pub struct PostgresOptions {
    schema: String,
    sessions: usize,
    connector: Connector,
    timing: Timing,
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("sessions", &self.sessions)
            .field("busy_timeout", &self.connector.busy_timeout)
            .finish_non_exhaustive()
    }
}

impl PostgresOptions {
    pub(super) fn new() -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            sessions: SESSIONS,
            connector: Connector {
                config: Config::new(),
                connect: Arc::new(|config| config.connect(NoTls)),
                busy_timeout: BUSY_TIMEOUT,
            },
            timing: Timing::default(),
        }
    }

    /// The schema of the tables and functions: [`SCHEMA`] if not said. Stores in several schemas know
    /// nothing of each other. Up to 40 of `a` to `z`, digits and `_`; no digit at first.
    pub fn schema(mut self, name: &str) -> Self {
        name.clone_into(&mut self.schema);
        self
    }

    /// How many calls go on at a time, each on a session of its own: [`SESSIONS`] if not said, at
    /// least 1. They are begun when they are needed.
    pub fn sessions(mut self, most: usize) -> Self {
        self.sessions = most.max(1);
        self
    }

    /// How long a call waits for a lock of another transaction, before it is
    /// [`Busy`](crate::ErrorKind::Busy): [`BUSY_TIMEOUT`] if not said, at least a millisecond.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.connector.busy_timeout = timeout;
        self
    }

    /// How connections are encrypted: a connector of any crate that has one for `tokio-postgres`, such
    /// as `tokio-postgres-rustls` or `postgres-native-tls`. Without one, an address that demands TLS
    /// (`sslmode=require`) is an error.
    pub fn tls<T>(mut self, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.connector.connect = Arc::new(move |config| config.connect(tls.clone()));
        self
    }

    /// How long the session that listens is silent before it is probed, and how long it may take to answer:
    /// for tests, which do not wait for [`PROBE_EVERY`](super::PROBE_EVERY).
    #[cfg(feature = "testing")]
    pub fn probe(mut self, every: Duration, answer: Duration) -> Self {
        (self.timing.probe_every, self.timing.probe_answer) = (every, answer);
        self
    }

    /// Connects, makes the tables if they are not there, and brings them to this version. `address` is
    /// a URL (`postgres://user:password@host/database`) or a list of settings, as libpq takes them.
    ///
    /// # Errors
    /// [`ErrorKind::Newer`](crate::ErrorKind::Newer) for tables that a newer version of this crate has
    /// made, and what the server says. The address is not shown.
    pub fn open(self, address: &str) -> Result<PostgresStore> {
        let config = Config::from_str(address).map_err(|_| unreadable_address())?;
        self.open_config(config)
    }

    /// As [`open`](Self::open), for an address that is put together. A session that has not begun within
    /// its `connect_timeout` for each host and its `tcp_user_timeout` is given up: within 10 and 15 s, if not
    /// said.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_config(self, config: Config) -> Result<PostgresStore> {
        let Self {
            schema,
            sessions,
            mut connector,
            timing,
        } = self;
        let schema = Schema::new(&schema)?;
        connector.config = config;
        connector.set_defaults();
        let mut first = connector.client()?;
        schema.migrate(&mut first.0)?;
        Ok(PostgresStore(Arc::new(Shared {
            sessions: Sessions::new(connector, schema, first, sessions),
            hub: Hub::new(timing),
            queues: Queues::new(),
        })))
    }
}
