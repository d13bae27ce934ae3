//! Options for opening a store.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use durable_queue::Threads;
use durable_queue::internals::{Hub, SharedClock, Timing};
use durable_queue::store::Result;
use postgres::config::Host;
use postgres::tls::{MakeTlsConnect, TlsConnect};
use postgres::{NoTls, Socket};
use tokio_postgres::Config;

use super::driver::{Connect, Connected, Driver, Limit};
use super::failure::{no_session, unreadable_address};
use super::floors::Floors;
use super::listen::{Queues, Source};
use super::outbox::Outbox;
use super::schema::Schema;
use super::session::{Connector, Sessions};
use super::{PostgresStore, Shared};

/// Default time for which a call waits for a lock of another transaction.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Default maximum number of sessions for calls of the application. A store that hands out jobs has two more:
/// for the queues' threads, and for listening.
pub const SESSIONS: usize = 4;
/// Default interval at which a process behind a pooler looks for jobs of other processes.
pub const POLL_EVERY: Duration = Duration::from_secs(1);
/// Default schema of the tables and functions.
pub const SCHEMA: &str = "durable";

/// Options for opening a [`PostgresStore`]. Created by [`PostgresStore::options`].
#[derive(Clone)]
#[must_use = "options do nothing until `open` is called"]
pub struct PostgresOptions {
    schema: String,
    sessions: usize,
    connector: Connector,
    listen_url: Option<String>,
    poll_every: Duration,
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
                is_pooled: false,
            },
            listen_url: None,
            poll_every: POLL_EVERY,
            timing: Timing::default(),
        }
    }

    /// Sets the schema of the tables and functions. Default: [`SCHEMA`]. Stores in different schemas are
    /// independent. A name has up to 40 characters of `a` to `z`, digits and `_`, and does not begin with a
    /// digit.
    pub fn schema(mut self, name: &str) -> Self {
        name.clone_into(&mut self.schema);
        self
    }

    /// Sets the maximum number of concurrent calls of the application, each with its own session. Default:
    /// [`SESSIONS`]. Minimum: one. Sessions are started when needed. One more session is reserved for the
    /// queues' threads: if they had to wait for the application, leases would expire.
    pub fn sessions(mut self, most: usize) -> Self {
        self.sessions = most.max(1);
        self
    }

    /// Sets how long a call waits for a lock of another transaction before it fails with
    /// [`Busy`](durable_queue::ErrorKind::Busy). Default: [`BUSY_TIMEOUT`]. Minimum: a millisecond. Calls of
    /// the queues' threads wait for at most an eighth of the shortest lease, or half a second if that is
    /// more.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.connector.busy_timeout = timeout;
        self
    }

    /// Sets whether the address leads to a connection pooler in transaction mode, for example pgbouncer.
    /// Default: `false`. Calls then prepare no statements and leave no settings on a connection. The server
    /// parses and plans each statement again, and a push of a single job that is due soon takes two round
    /// trips instead of one.
    ///
    /// A pooler forwards no notifications. So also set [`listen_url`](Self::listen_url), or other processes'
    /// jobs are found every [`poll_every`](Self::poll_every).
    ///
    /// If the response to a claim is lost, the server may carry the claim out afterwards, because the store
    /// must not terminate a connection that it shares. Its jobs are handed out when the lease ends.
    ///
    /// ```no_run
    /// # use durable_queue_postgres::PostgresStore;
    /// let store = PostgresStore::options()
    ///     .pooler(true)
    ///     .listen_url("postgres://shop@database:5432/shop")
    ///     .open("postgres://shop@pgbouncer:6432/shop")?;
    /// # Ok::<(), durable_queue::StoreError>(())
    /// ```
    pub fn pooler(mut self, is_there: bool) -> Self {
        self.connector.is_pooled = is_there;
        self
    }

    /// Sets the address of the session that receives notifications: the same database, without a pooler, or
    /// through one in session mode. Default: the address of [`open`](Self::open). The session starts with the
    /// first call that takes jobs, and uses the connector of [`tls`](Self::tls).
    pub fn listen_url(mut self, address: &str) -> Self {
        self.listen_url = Some(address.to_owned());
        self
    }

    /// Sets how often a process looks for jobs of other processes while its calls wait, if it is behind a
    /// [`pooler`](Self::pooler) and has no [`listen_url`](Self::listen_url). Default: [`POLL_EVERY`]. A look
    /// is a claim. A job of another process is late by up to this time, and so is the news that one was
    /// cancelled: see `Builder::confirm` of `durable_queue`.
    pub fn poll_every(mut self, period: Duration) -> Self {
        self.poll_every = period;
        self
    }

    /// Sets the TLS connector: any connector for `tokio-postgres`, for example of `tokio-postgres-rustls` or
    /// `postgres-native-tls`. Without one, an address that requires TLS (`sslmode=require`) is an error.
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

    /// Sets the time of silence before a probe, and the time limit of its answer, for tests that do not wait
    /// for [`PROBE_EVERY`](super::PROBE_EVERY).
    #[cfg(feature = "testing")]
    pub fn probe(mut self, every: Duration, answer: Duration) -> Self {
        (self.timing.probe_every, self.timing.probe_answer) = (every, answer);
        self
    }

    /// Connects, and creates the tables or upgrades them to this version. `address` is a URL
    /// (`postgres://user:password@host/database`) or a libpq connection string.
    ///
    /// An upgrade locks the tables until it is done. If a transaction uses them, the upgrade waits for half a second, lets
    /// other processes pass for as long, and tries again, 20 times.
    ///
    /// # Errors
    /// [`ErrorKind::Newer`](durable_queue::ErrorKind::Newer) if a newer version of this crate has written the
    /// tables, [`ErrorKind::Busy`](durable_queue::ErrorKind::Busy) if an upgrade could not lock the tables,
    /// [`ErrorKind::Pooled`](durable_queue::ErrorKind::Pooled) for a pooler in transaction mode without
    /// the option [`pooler`](Self::pooler), and the server's errors. They do not contain the address.
    pub fn open(self, address: &str) -> Result<PostgresStore> {
        let config = Config::from_str(address).map_err(|_| unreadable_address())?;
        self.open_at(config)
    }

    /// Like [`open`](Self::open), with a configuration. Its `notice_callback` is not called. A session has to
    /// start within `connect_timeout` per host (default: 10 s) plus `tcp_user_timeout` (default: 15 s).
    ///
    /// # Errors
    /// Like [`open`](Self::open).
    #[expect(
        clippy::needless_pass_by_value,
        reason = "same signature as the other setters"
    )]
    pub fn open_config(self, config: postgres::Config) -> Result<PostgresStore> {
        self.open_at(copied(&config))
    }

    fn open_at(self, config: Config) -> Result<PostgresStore> {
        let Self {
            schema,
            sessions,
            mut connector,
            listen_url,
            poll_every,
            timing,
        } = self;
        let schema = Schema::new(&schema)?;
        connector.config = config;
        connector.set_defaults();
        let source = match listen_url {
            Some(address) => {
                let config = Config::from_str(&address).map_err(|_| unreadable_address())?;
                let mut direct = Connector {
                    config,
                    is_pooled: false,
                    ..connector.clone()
                };
                direct.set_defaults();
                Source::At(Box::new(direct))
            }
            None if connector.is_pooled => Source::Polls(poll_every),
            None => Source::Here,
        };
        let driver = Driver::start()?;
        let clock = SharedClock::default();
        let mut first = connector.begin(&driver, &clock, None)?;
        if connector.is_pooled {
            connector.check_isolation(&clock, &mut first.0)?;
        } else {
            connector.check_pooler(&driver, &clock, &mut first)?;
        }
        let created = first.0.call(Limit::default(), async |client| {
            Ok(schema.create(client).await)
        });
        let created = created.expect("there is no limit");
        created.map_err(|error| no_session(&error))??;
        Ok(PostgresStore(Arc::new(Shared {
            sessions: Sessions::new(connector, driver, schema, first, sessions),
            hub: Hub::new(timing),
            source,
            queues: Queues::new(),
            floors: Floors::new(),
            outbox: Outbox::new(clock),
            threads: Threads::new(),
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

/// Converts the configuration: the blocking client's one contains the other, but does not expose it.
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
