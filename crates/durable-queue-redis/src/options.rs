//! How a store is opened, and what server will do.

use std::fmt;
use std::time::Duration;

use durable_queue::internals::{Hub, Timing};
use durable_queue::store::Result;
use redis::io::tcp::TcpSettings;
use redis::{Client, Connection, IntoConnectionInfo, ProtocolVersion, RedisError, RedisResult};

use super::failure::{evicts, no_session, too_old, unreadable_address};
use super::layout::Layout;
use super::script::Scripts;
use super::session::{Connector, Sessions};
use super::{RedisStore, Shared};

/// How many sessions a store has at most for calls of the application, if not said. If jobs are taken, one more is that of
/// the queues' own threads, and one more listens.
pub const SESSIONS: usize = 4;
/// What all keys begin with, if not said.
pub const PREFIX: &str = "durable";
/// How long a call waits for its answer, if not said.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a session may take to begin, if not said.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The oldest version of a server that takes the scripts' first lines.
const OLDEST: u32 = 7;

/// How a [`RedisStore`] is opened. [`RedisStore::options`] begins one.
#[derive(Clone)]
#[must_use = "options do nothing until `open` is called"]
pub struct RedisOptions {
    prefix: String,
    sessions: usize,
    response_timeout: Duration,
    connect_timeout: Duration,
    has_manual_clock: bool,
    timing: Timing,
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("sessions", &self.sessions)
            .field("response_timeout", &self.response_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

impl RedisOptions {
    pub(super) fn new() -> Self {
        Self {
            prefix: PREFIX.to_owned(),
            sessions: SESSIONS,
            response_timeout: RESPONSE_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            has_manual_clock: false,
            timing: Timing::default(),
        }
    }

    /// What all keys begin with: [`PREFIX`] if not said. Stores with several know nothing of each
    /// other. Up to 40 of letters, digits, `_`, `-`, `.` and `:`.
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// How many sessions there are at most for calls of the application: [`SESSIONS`] if not said. One that the queues' own
    /// threads have and one that listens come on top.
    pub fn sessions(mut self, most: usize) -> Self {
        self.sessions = most;
        self
    }

    /// How long a call waits for its answer, before it is [`Unavailable`](durable_queue::ErrorKind::Unavailable)
    /// and may have been carried out: [`RESPONSE_TIMEOUT`] if not said. At least a millisecond.
    ///
    /// The calls by which a process holds its jobs wait for a quarter of the shortest
    /// [`lease`](durable_queue::Builder::lease) of all queues on this store, but a second at least, if that is less: so leases are renewed in time
    /// when a connection falls silent. A server that is stopped for longer than that at times (by slow scripts, or
    /// a fork) is for longer leases.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// How long a session may take to begin: [`CONNECT_TIMEOUT`] if not said. At least a millisecond.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// The store's clock is what the key `PREFIX:clock` holds, in microseconds, and not the server's: for
    /// tests of what is built on a queue, which move it by hand.
    #[cfg(feature = "testing")]
    pub fn manual_clock(mut self) -> Self {
        self.has_manual_clock = true;
        self
    }

    /// How long the session that listens is silent before it is probed, and how long it may take to answer:
    /// for tests, which do not wait for [`PROBE_EVERY`](super::PROBE_EVERY).
    #[cfg(feature = "testing")]
    pub fn probe(mut self, every: Duration, answer: Duration) -> Self {
        (self.timing.probe_every, self.timing.probe_answer) = (every, answer);
        self
    }

    /// Connects to `redis://user:password@host:port/database`. With `rediss://` the connection is
    /// encrypted, if the application has the crate `redis` with one of its features for that.
    ///
    /// # Errors
    /// [`Evicting`](durable_queue::ErrorKind::Evicting) for a server that may delete jobs to have memory,
    /// [`Newer`](durable_queue::ErrorKind::Newer) for keys that a newer version of this crate has made,
    /// and what the server says. The address is not shown.
    pub fn open(self, address: &str) -> Result<RedisStore> {
        let address = address
            .into_connection_info()
            .map_err(|_| unreadable_address())?;
        let address = address.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = Client::open(address).map_err(|_| unreadable_address())?;
        self.open_client(&client)
    }

    /// As [`open`](Self::open), for a client that is put together: with certificates, say.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_client(self, client: &Client) -> Result<RedisStore> {
        let layout = Layout::new(&self.prefix)?;
        let address = client.get_connection_info().clone();
        // What is read here is in the older protocol.
        let settings = address.redis_settings().clone();
        let settings = settings.set_protocol(ProtocolVersion::RESP2);
        let address = address.set_redis_settings(settings.set_skip_set_lib_name());
        let connector = Connector {
            client: Client::open(address).map_err(|_| unreadable_address())?,
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
            layout,
        };
        let mut connection = connector.connect(Duration::MAX)?;
        check(&mut connection)?;
        let channel = connector.layout.channel();
        // Without this right pushes would be announced to no process, and found late.
        let mut publish = redis::cmd("PUBLISH");
        let published = publish.arg(&channel).arg("").exec(&mut connection);
        published.map_err(|error| no_session(&error))?;
        let scripts = Scripts::new(self.clock(&connector.layout).as_deref());
        Ok(RedisStore(std::sync::Arc::new(Shared {
            sessions: Sessions::new(connector, scripts, connection, self.sessions),
            hub: Hub::new(self.timing),
            channel,
        })))
    }

    #[cfg(feature = "testing")]
    fn clock(&self, layout: &Layout) -> Option<String> {
        self.has_manual_clock.then(|| layout.clock())
    }

    #[cfg(not(feature = "testing"))]
    fn clock(&self, _: &Layout) -> Option<String> {
        debug_assert!(!self.has_manual_clock);
        None
    }
}

/// Whether the server will do.
fn check(connection: &mut Connection) -> Result<()> {
    let failed = |error: RedisError| no_session(&error);
    let info = info(connection, "server").map_err(failed)?;
    // Valkey says here which version of Redis it is like.
    let version = field(&info, "redis_version");
    let major = version.split('.').next().and_then(|it| it.parse().ok());
    if major.is_some_and(|major: u32| major < OLDEST) {
        return Err(too_old(version));
    }
    if may_evict(connection).map_err(failed)? {
        return Err(evicts());
    }
    Ok(())
}

/// Whether the server may delete jobs to have memory.
pub(super) fn may_evict(connection: &mut Connection) -> RedisResult<bool> {
    let info = info(connection, "memory")?;
    // Policies of `volatile` touch only what expires, and no key here does.
    Ok(field(&info, "maxmemory_policy").starts_with("allkeys"))
}

fn info(connection: &mut Connection, section: &str) -> RedisResult<String> {
    redis::cmd("INFO").arg(section).query(connection)
}

fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let mut lines = info.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default()
}
