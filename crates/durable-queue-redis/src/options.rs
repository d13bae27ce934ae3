//! Options for opening a store.

use std::fmt;
use std::time::Duration;

use durable_queue::Threads;
use durable_queue::internals::{Hub, SharedClock, Timing};
use durable_queue::store::Result;
use redis::io::tcp::TcpSettings;
use redis::{
    Client, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
};

use crate::failure::{has_database, no_address, no_name, no_session, unreadable_address};
use crate::layout::Layout;
use crate::script::Scripts;
use crate::server::checks::check;
use crate::server::cluster::Cluster;
use crate::server::connector::{Connector, client};
use crate::server::pool::Pool;
use crate::server::sentinel::Master;
use crate::server::session::{Replicas, Server, Servers, Sessions};
use crate::shared::Shared;
use crate::store::RedisStore;

/// Default maximum number of sessions for calls of the application. A store that hands out jobs has two more:
/// for the queues' threads, and for listening.
pub const SESSIONS: usize = 4;
/// Default prefix of all keys.
pub const PREFIX: &str = "durable";
/// Default time limit of a call's response.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Default time limit for starting a session.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Options for opening a [`RedisStore`]. Created by [`RedisStore::options`].
#[derive(Clone)]
#[must_use = "options do nothing until `open` is called"]
pub struct RedisOptions {
    prefix: String,
    sessions: usize,
    response_timeout: Duration,
    connect_timeout: Duration,
    replicas: Option<Replicas>,
    has_manual_clock: bool,
    timing: Timing,
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("sessions", &self.sessions)
            .field("response_timeout", &self.response_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

impl RedisStore {
    /// Returns the default options.
    pub fn options() -> RedisOptions {
        RedisOptions::new()
    }

    /// Connects with the default options.
    ///
    /// # Errors
    /// Like [`RedisOptions::open`].
    pub fn open(address: &str) -> Result<Self> {
        Self::options().open(address)
    }
}

impl RedisOptions {
    pub(crate) fn new() -> Self {
        Self {
            prefix: PREFIX.to_owned(),
            sessions: SESSIONS,
            response_timeout: RESPONSE_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            replicas: None,
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

    /// Sets the maximum number of sessions for calls of the application. Default: [`SESSIONS`]. Minimum: one. There are
    /// two more, for the queues' threads and for listening.
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
    /// for [`PROBE_EVERY`](crate::PROBE_EVERY).
    #[cfg(feature = "testing")]
    pub fn probe(mut self, every: Duration, answer: Duration) -> Self {
        (self.timing.probe_every, self.timing.probe_answer) = (every, answer);
        self
    }

    /// Requires that this many replicas have a change before its call succeeds: pushes, cancels, resets, other
    /// changes of an operator, and turns that settle jobs. Otherwise the call fails with
    /// [`Unavailable`](durable_queue::ErrorKind::Unavailable) after `limit`, or half of the call's time limit
    /// if that is less, and [may have been carried out](durable_queue::CarriedOut::Perhaps). Default: 0.
    /// Minimum of `limit`: a millisecond.
    ///
    /// Then a failover loses no call that has succeeded, if the new master is one of the replicas that have
    /// it: always if `count` is the number of replicas. With fewer, sentinels and clusters prefer the replica
    /// with the most data among those that they reach and that have the same priority.
    ///
    /// After a failover, calls fail until the new master has enough replicas. Claims do not wait: a lost one
    /// makes its jobs claimable again, and the old holder can no longer settle them.
    ///
    /// # Cost
    /// Another round trip, and one between the master and the replica.
    pub fn wait_replicas(mut self, count: u32, limit: Duration) -> Self {
        self.replicas = (count > 0).then_some(Replicas { count, limit });
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
        self.open_server(Server::At(client(parsed(address, true)?)?))
    }

    /// Like [`open`](Self::open), with a configured client, for example with certificates.
    ///
    /// # Errors
    /// Like [`open`](Self::open).
    pub fn open_client(self, client: &Client) -> Result<RedisStore> {
        let address = client.get_connection_info().clone();
        let client = crate::server::connector::client(parsed(address, false)?)?;
        self.open_server(Server::At(client))
    }

    /// Connects to the current master of several servers, which sentinels monitor, and after a failover to
    /// the new one. `master` is an address like that of [`open`](Self::open) whose host is the name of the
    /// master: `redis://user:password@mymaster/0`. `sentinels` are the sentinels' addresses, with their own
    /// user and password if they require them: `redis://host:26379`.
    ///
    /// A call that fails because the master has failed is not repeated. Queues repeat their turns; the caller
    /// decides about pushes, which are repeated without harm if they have keys. Until the sentinels have
    /// chosen a new master, calls fail with [`Unavailable`](durable_queue::ErrorKind::Unavailable).
    ///
    /// Replication is asynchronous: a new master may lack the last calls of the old one. See
    /// [`wait_replicas`](Self::wait_replicas).
    ///
    /// ```no_run
    /// # use durable_queue_redis::RedisStore;
    /// let sentinels = ["redis://a:26379", "redis://b:26379", "redis://c:26379"];
    /// let store = RedisStore::options().open_sentinel("redis://mymaster/0", sentinels)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`open`](Self::open), and if there is no sentinel, or none that monitors this master.
    pub fn open_sentinel<A: IntoConnectionInfo>(
        self,
        master: impl IntoConnectionInfo,
        sentinels: impl IntoIterator<Item = A>,
    ) -> Result<RedisStore> {
        let master = parsed(master, true)?;
        let sentinels = parsed_all(sentinels)?;
        self.open_master(master, sentinels)
    }

    fn open_master(
        self,
        master: ConnectionInfo,
        sentinels: Vec<ConnectionInfo>,
    ) -> Result<RedisStore> {
        let name = match master.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => return Err(no_name()),
        };
        let sentinels = sentinels.into_iter().map(client);
        let sentinels = sentinels.collect::<Result<Vec<_>>>()?;
        self.open_server(Server::Master(Master::new(name, sentinels, master)))
    }

    fn open_server(self, server: Server) -> Result<RedisStore> {
        let connector = self.connector()?;
        let mut connection = connector.connect(&server, Duration::MAX)?;
        check(&mut connection)?;
        may_publish(&mut connection, &connector.layout)?;
        // The pool sets the time limit again, as a session of a master has another one.
        let first = Some((connection, Duration::ZERO));
        let servers = Servers::One(server, Pool::new(first, self.sessions));
        let scripts = Scripts::new(self.clock(&connector.layout));
        Ok(self.store(connector, scripts, servers))
    }

    /// Connects to a Redis Cluster. `nodes` are the addresses of some of its nodes, like that of
    /// [`open`](Self::open); the first one that answers names the others. All nodes have the same user,
    /// password and certificates as the first one in `nodes`.
    ///
    /// Each queue is in the slot of its name, so queues are spread over the nodes, and one queue is as fast as
    /// one node. Calls follow the queue when its slot moves to another node, and fail with
    /// [`Unavailable`](durable_queue::ErrorKind::Unavailable) while the node has failed and no replica has
    /// taken over. While the keys of a queue are being moved, its calls wait, at most for the
    /// [response timeout](Self::response_timeout).
    ///
    /// The limit of [sessions](Self::sessions) applies to each node, and so does the session for the queues'
    /// threads. The announcements of all queues are received from one node, to which the others send theirs.
    /// Those that are lost because two nodes are disconnected are made up for by the regular looks, once a
    /// minute.
    ///
    /// ```no_run
    /// # use durable_queue_redis::RedisStore;
    /// let store = RedisStore::options().open_cluster(["redis://a:6379", "redis://b:6379"])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`open`](Self::open), and if no address is given, one has a database other than 0, or the server
    /// is not part of a cluster.
    pub fn open_cluster<A: IntoConnectionInfo>(
        self,
        nodes: impl IntoIterator<Item = A>,
    ) -> Result<RedisStore> {
        let nodes = parsed_all(nodes)?;
        self.open_nodes(nodes)
    }

    fn open_nodes(self, nodes: Vec<ConnectionInfo>) -> Result<RedisStore> {
        if nodes.iter().any(|node| node.redis_settings().db() != 0) {
            return Err(has_database());
        }
        let connector = self.connector()?;
        let cluster = Cluster::open(nodes, self.sessions, &connector)?;
        may_publish(&mut cluster.any_node(&connector)?, &connector.layout)?;
        let scripts = Scripts::of_cluster(self.clock(&connector.layout));
        Ok(self.store(connector, scripts, Servers::Cluster(cluster)))
    }

    fn connector(&self) -> Result<Connector> {
        Ok(Connector {
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
            layout: Layout::new(&self.prefix)?,
            clock: SharedClock::default(),
        })
    }

    fn store(self, connector: Connector, scripts: Scripts, servers: Servers) -> RedisStore {
        RedisStore(std::sync::Arc::new(Shared {
            channel: connector.layout.channel(),
            sessions: Sessions::new(connector, scripts, servers, self.replicas),
            hub: Hub::new(self.timing),
            threads: Threads::new(),
        }))
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

/// Parses an address. This store reads responses of the older protocol. `has_delay`: the settings of TCP are
/// the client's defaults.
fn parsed(address: impl IntoConnectionInfo, has_delay: bool) -> Result<ConnectionInfo> {
    let address = address.into_connection_info();
    let mut address = address.map_err(|_| unreadable_address())?;
    if has_delay {
        address = address.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    }
    let settings = address.redis_settings().clone();
    let settings = settings.set_protocol(ProtocolVersion::RESP2);
    Ok(address.set_redis_settings(settings.set_skip_set_lib_name()))
}

fn parsed_all<A: IntoConnectionInfo>(
    addresses: impl IntoIterator<Item = A>,
) -> Result<Vec<ConnectionInfo>> {
    let parse = |address| parsed(address, true);
    let all = addresses.into_iter().map(parse);
    let all = all.collect::<Result<Vec<_>>>()?;
    if all.is_empty() {
        return Err(no_address());
    }
    Ok(all)
}

/// Without this permission no push would be announced, and jobs would be late.
fn may_publish(connection: &mut Connection, layout: &Layout) -> Result<()> {
    let mut publish = redis::cmd("PUBLISH");
    let published = publish.arg(layout.channel()).arg("").exec(connection);
    published.map_err(|error| no_session(&error))
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_master_is_the_host_of_its_address_unchanged() {
        let master = parsed("redis://user:word@My_Master.1/3", true).expect("it is an address");
        assert_eq!(
            *master.addr(),
            ConnectionAddr::Tcp("My_Master.1".to_owned(), 6379)
        );
        assert_eq!(master.redis_settings().db(), 3);
    }
}
