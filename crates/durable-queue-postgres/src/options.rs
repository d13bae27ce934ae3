//! How a store is opened.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use durable_queue::internals::{Hub, SharedClock, Timing};
use durable_queue::store::Result;
use postgres::config::Host;
use postgres::tls::{MakeTlsConnect, TlsConnect};
use postgres::{NoTls, Socket};
use tokio_postgres::Config;

use super::driver::{Connect, Connected, Driver, Limit};
use super::failure::{no_session, unreadable_address};
use super::floors::Floors;
use super::listen::Queues;
use super::outbox::Outbox;
use super::schema::Schema;
use super::session::{Connector, Sessions};
use super::{PostgresStore, Shared};

/// How long a call waits for a lock of another transaction, if not said.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How many sessions a store has at most for calls of the application, if not said. If jobs are taken, one more is that of
/// the queues' own threads, and one more listens.
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
                connect: by(NoTls),
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

    /// How many calls of the application go on at a time, each on a session of its own: [`SESSIONS`] if not said, at
    /// least 1. They are begun when they are needed. One more is that of the queues' own threads, which must not wait for
    /// the application: leases would end meanwhile.
    pub fn sessions(mut self, most: usize) -> Self {
        self.sessions = most.max(1);
        self
    }

    /// How long a call waits for a lock of another transaction, before it is
    /// [`Busy`](durable_queue::ErrorKind::Busy): [`BUSY_TIMEOUT`] if not said, at least a millisecond. What the queues' own
    /// threads ask for waits for an eighth of the shortest lease at most, or half a second if that is more.
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
        self.connector.connect = by(tls);
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
    /// [`ErrorKind::Newer`](durable_queue::ErrorKind::Newer) for tables that a newer version of this crate has
    /// made, and what the server says. [`ErrorKind::Other`](durable_queue::ErrorKind::Other), with a text that says so, for a pooler that
    /// gives each transaction another session. The address is not shown.
    pub fn open(self, address: &str) -> Result<PostgresStore> {
        let config = Config::from_str(address).map_err(|_| unreadable_address())?;
        self.open_at(config)
    }

    /// As [`open`](Self::open), for an address that is put together. Its `notice_callback` is not called. A session that has not begun within
    /// its `connect_timeout` for each host and its `tcp_user_timeout` is given up: within 10 and 15 s, if not
    /// said.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[expect(
        clippy::needless_pass_by_value,
        reason = "as the options, it is for this one store"
    )]
    pub fn open_config(self, config: postgres::Config) -> Result<PostgresStore> {
        self.open_at(copied(&config))
    }

    fn open_at(self, config: Config) -> Result<PostgresStore> {
        let Self {
            schema,
            sessions,
            mut connector,
            timing,
        } = self;
        let schema = Schema::new(&schema)?;
        connector.config = config;
        connector.set_defaults();
        let driver = Driver::start()?;
        let clock = SharedClock::default();
        let mut first = connector.begin(&driver, &clock, None)?;
        connector.check_pooler(&driver, &clock, &mut first)?;
        let migrated = first.0.call(Limit::default(), async |client| {
            Ok(schema.migrate(client).await)
        });
        let migrated = migrated.expect("there is no limit");
        migrated.map_err(|error| no_session(&error))??;
        Ok(PostgresStore(Arc::new(Shared {
            sessions: Sessions::new(connector, driver, schema, first, sessions),
            hub: Hub::new(timing),
            queues: Queues::new(),
            floors: Floors::new(),
            outbox: Outbox::new(clock),
        })))
    }
}

fn by<T>(tls: T) -> Arc<Connect>
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::TlsConnect: Send,
    T::Stream: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    Arc::new(move |config| {
        let tls = tls.clone();
        Box::pin(async move {
            let (client, connection) = config.connect(tls).await?;
            let connected: Connected = (client, Box::new(connection));
            Ok(connected)
        })
    })
}

/// The blocking client's configuration holds that of the other one, and does not give it away.
fn copied(from: &postgres::Config) -> Config {
    let mut to = Config::new();
    from.get_user().map(|it| to.user(it));
    from.get_password().map(|it| to.password(it));
    from.get_dbname().map(|it| to.dbname(it));
    from.get_options().map(|it| to.options(it));
    from.get_application_name()
        .map(|it| to.application_name(it));
    to.ssl_mode(from.get_ssl_mode());
    to.ssl_negotiation(from.get_ssl_negotiation());
    for host in from.get_hosts() {
        match host {
            Host::Tcp(host) => to.host(host),
            #[cfg(unix)]
            Host::Unix(path) => to.host_path(path),
        };
    }
    for address in from.get_hostaddrs() {
        to.hostaddr(*address);
    }
    for port in from.get_ports() {
        to.port(*port);
    }
    from.get_connect_timeout().map(|it| to.connect_timeout(*it));
    from.get_tcp_user_timeout()
        .map(|it| to.tcp_user_timeout(*it));
    to.keepalives(from.get_keepalives());
    to.keepalives_idle(from.get_keepalives_idle());
    from.get_keepalives_interval()
        .map(|it| to.keepalives_interval(it));
    from.get_keepalives_retries()
        .map(|it| to.keepalives_retries(it));
    to.target_session_attrs(from.get_target_session_attrs());
    to.channel_binding(from.get_channel_binding());
    to.load_balance_hosts(from.get_load_balance_hosts());
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_configuration_is_the_same() {
        let all = "user=u password=p dbname=d options='-c a=b' application_name=n sslmode=require \
            sslnegotiation=direct host=h,/tmp hostaddr=127.0.0.1,127.0.0.2 port=1,2 connect_timeout=3 \
            tcp_user_timeout=4 keepalives=0 keepalives_idle=5 keepalives_interval=6 keepalives_retries=7 \
            target_session_attrs=read-write channel_binding=require load_balance_hosts=random";
        for address in ["", all] {
            let given = Config::from_str(address).expect("it can be read");
            assert_eq!(copied(&given.clone().into()), given);
        }
    }
}
