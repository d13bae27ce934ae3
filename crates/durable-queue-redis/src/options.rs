//! Options for opening a store, and checks of the server.

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

/// Default maximum number of sessions for calls of the application. A store that hands out jobs has two more:
/// for the queues' threads, and for listening.
pub const SESSIONS: usize = 4;
/// Default prefix of all keys.
pub const PREFIX: &str = "durable";
/// Default time limit of a call's response.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Default time limit for starting a session.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The oldest server version that supports the scripts' first lines.
const OLDEST: u32 = 7;

/// Options for opening a [`RedisStore`]. Created by [`RedisStore::options`].
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

    /// Sets the prefix of all keys. Default: [`PREFIX`]. Stores with different prefixes are independent. A
    /// prefix has up to 40 letters, digits, `_`, `-`, `.` and `:`.
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// Sets the maximum number of sessions for calls of the application. Default: [`SESSIONS`]. There are two
    /// more, for the queues' threads and for listening.
    pub fn sessions(mut self, most: usize) -> Self {
        self.sessions = most;
        self
    }

    /// Sets how long a call waits for its response before it fails with
    /// [`Unavailable`](durable_queue::ErrorKind::Unavailable), although it may have been carried out.
    /// Default: [`RESPONSE_TIMEOUT`]. Minimum: a millisecond.
    ///
    /// Calls of the queues' threads wait for at most a quarter of the shortest
    /// [`lease`](durable_queue::Builder::lease) of all queues of the store, or a second if that is more. So
    /// leases are renewed in time when a connection becomes silent. If the server sometimes stops for longer
    /// (slow scripts, forks), use longer leases.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Sets the time limit for starting a session. Default: [`CONNECT_TIMEOUT`]. Minimum: a millisecond.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Uses the key `PREFIX:clock`, in microseconds, as the store's clock instead of the server's. For tests,
    /// which move it manually.
    #[cfg(feature = "testing")]
    pub fn manual_clock(mut self) -> Self {
        self.has_manual_clock = true;
        self
    }

    /// Sets the time of silence before a probe, and the time limit of its answer, for tests that do not wait
    /// for [`PROBE_EVERY`](super::PROBE_EVERY).
    #[cfg(feature = "testing")]
    pub fn probe(mut self, every: Duration, answer: Duration) -> Self {
        (self.timing.probe_every, self.timing.probe_answer) = (every, answer);
        self
    }

    /// Connects to `redis://user:password@host:port/database`. With `rediss://` the connection is encrypted,
    /// if a TLS feature of the crate `redis` is enabled.
    ///
    /// # Errors
    /// [`Evicting`](durable_queue::ErrorKind::Evicting) if the server may delete jobs to free memory,
    /// [`Newer`](durable_queue::ErrorKind::Newer) if a newer version of this crate has written the keys, and
    /// the server's errors. They do not contain the address.
    pub fn open(self, address: &str) -> Result<RedisStore> {
        let address = address
            .into_connection_info()
            .map_err(|_| unreadable_address())?;
        let address = address.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = Client::open(address).map_err(|_| unreadable_address())?;
        self.open_client(&client)
    }

    /// Like [`open`](Self::open), with a configured client, for example with certificates.
    ///
    /// # Errors
    /// Like [`open`](Self::open).
    pub fn open_client(self, client: &Client) -> Result<RedisStore> {
        let layout = Layout::new(&self.prefix)?;
        let address = client.get_connection_info().clone();
        // This store reads responses of the older protocol.
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
        // Without this permission no push would be announced, and jobs would be late.
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

/// Checks that the server is supported.
fn check(connection: &mut Connection) -> Result<()> {
    let failed = |error: RedisError| no_session(&error);
    let info = info(connection, "server").map_err(failed)?;
    // Valkey reports a compatible version of Redis here.
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

/// Returns whether the server may delete jobs to free memory.
pub(super) fn may_evict(connection: &mut Connection) -> RedisResult<bool> {
    let info = info(connection, "memory")?;
    // `volatile` policies delete only keys that expire, and the store's keys do not.
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
