//! Calls of the server, or of the nodes of a cluster.
//!
//! # Invariants
//! 1. A call is repeated only if the server has reported that it was not started, or if it was not sent.
//! 2. A session that failed is not used again; the next call starts a new one.
//! 3. Every call has a time limit for its response. A pump's call, including a new session, ends within a
//!    fraction of the shortest lease, so that leases can be renewed on another connection.
//! 4. A forked child neither uses nor closes the sessions.
//! 5. After a session has failed, others are checked before their next use, because the cause may have
//!    affected all. A pump has no time for that, and starts a new one.
//! 6. No job is pushed to a server that was seen, within a second, to delete keys.
//! 7. With [`Replicas`], a call that changes jobs is answered only after that many replicas have it.

use std::fmt;
use std::time::Duration;

use durable_queue::store::{Result, call_limit};
use redis::{Client, Cmd, Connection, RedisResult, Value};
use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};

use crate::failure::{is_unknown_script, no_session, unconfirmed};
use crate::layout::{KEYS, Layout};
use crate::script::{Call, Need, Scripts, Way};
use crate::server::cluster::Cluster;
use crate::server::connector::Connector;
use crate::server::pool::{Failed, Limits, Pool};
use crate::server::sentinel::Master;

impl Connector {
    /// Starts a session with a server that has all keys. The version is checked each time, because the server
    /// may have been replaced, or a newer version of this crate may have written the keys.
    pub(crate) fn connect(&self, server: &Server, limit: Duration) -> Result<Connection> {
        let mut connection = match server {
            Server::At(client) => self.dial(client, limit)?,
            Server::Master(master) => master.dial(self, limit)?,
        };
        let found = self.layout.read(&mut connection, Way::Direct);
        Layout::check(found.map_err(|error| no_session(&error))?.as_deref())?;
        Ok(connection)
    }
}

/// A server that has all keys.
pub(crate) enum Server {
    At(Client),
    /// The current master of several servers.
    Master(Master),
}

/// The number of replicas that must have a change before its call is answered, and for how long to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicas {
    pub(crate) count: u32,
    pub(crate) limit: Duration,
}

impl Replicas {
    /// Returns whether enough replicas have all changes of this session. `most`: the time limit of a response.
    fn have_all(self, connection: &mut Connection, most: Duration) -> RedisResult<bool> {
        // The answer has to arrive within the limit. 0 would mean forever.
        let limit = self.limit.min(most / 2).as_millis().max(1);
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.count)
            .arg(u64::try_from(limit).unwrap_or(u64::MAX));
        match wait.query::<u32>(connection) {
            Ok(count) => Ok(count >= self.count),
            // The server became a replica, for example. The call was carried out all the same.
            Err(error) if error.code().is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "there is one per store")]
pub(crate) enum Servers {
    One(Server, Pool),
    Cluster(Cluster),
}

/// The sessions of a store.
pub(crate) struct Sessions {
    connector: Connector,
    scripts: Scripts,
    servers: Servers,
    replicas: Option<Replicas>,
    /// The shortest lease of all queues, in microseconds.
    shortest_lease: AtomicU64,
}

/// Omits the addresses, which are confidential.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Sessions {
    pub(crate) fn new(
        connector: Connector,
        scripts: Scripts,
        servers: Servers,
        replicas: Option<Replicas>,
    ) -> Self {
        Self {
            connector,
            scripts,
            servers,
            replicas,
            shortest_lease: AtomicU64::new(u64::MAX),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.connector.layout
    }

    /// Starts a session that is to receive announcements. In a cluster, each node sends them to all others.
    pub(crate) fn listen(&self) -> Result<Connection> {
        match &self.servers {
            Servers::One(server, _) => self.connector.connect(server, Duration::MAX),
            Servers::Cluster(cluster) => cluster.any_node(&self.connector),
        }
    }

    /// Records that a pump holds jobs under leases of this length.
    pub(crate) fn learn_lease(&self, lease: Duration) {
        if self.scripts.has_own_clock() {
            return; // In tests, time is moved manually.
        }
        let micros = u64::try_from(lease.as_micros()).unwrap_or(u64::MAX);
        // Relaxed: the calls of a pump are ordered, and other pumps need not know at once.
        self.shortest_lease.fetch_min(micros, Relaxed);
    }

    /// Returns the time limit of a call, including a new session.
    fn limits(&self, need: Need) -> Limits {
        let call = match need {
            Need::Quick => {
                let lease = Duration::from_micros(self.shortest_lease.load(Relaxed)); // As above.
                call_limit(lease)
            }
            Need::Nothing | Need::Sure | Need::Push => Duration::MAX,
        };
        Limits {
            call,
            response: self.connector.response_timeout,
        }
    }

    /// Makes one round trip on an existing or a new session, with the server that has the queue.
    pub(crate) fn with<T>(
        &self,
        need: Need,
        queue: &str,
        mut call: impl FnMut(&mut Connection, Way) -> RedisResult<T>,
    ) -> Result<T> {
        let limits = self.limits(need);
        match &self.servers {
            Servers::One(server, pool) => {
                let connect = |limit| self.connector.connect(server, limit);
                let called = pool.with(need, limits, connect, |connection| {
                    call(connection, Way::Direct)
                });
                called.map_err(Failed::into_error)
            }
            Servers::Cluster(cluster) => {
                let slot = Layout::slot(queue);
                cluster.with(&self.connector, slot, need, limits, call)
            }
        }
    }

    /// Calls a script on a queue. `add` adds its arguments. `is_durable`: whether the answer means that
    /// replicas have the change, if the options require it.
    pub(crate) fn call(
        &self,
        call: Call,
        queue: &str,
        is_durable: bool,
        add: impl Fn(&mut Cmd),
    ) -> Result<Value> {
        let script = self.scripts.get(call);
        let need = call.need();
        let guard = match self.servers {
            Servers::One(..) => None,
            Servers::Cluster(_) => Some(self.layout().guard(queue, self.own_time()?)),
        };
        let named = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command
                .arg(script)
                .arg(KEYS.len() + usize::from(guard.is_some()));
            self.layout().add_keys(queue, &mut command);
            if let Some(guard) = &guard {
                command.arg(guard);
            }
            add(&mut command);
            command
        };
        let replicas = self.replicas.filter(|_| is_durable);
        let limits = self.limits(need);
        let (answer, is_confirmed) = self.with(need, queue, |connection, way| {
            way.prepare(connection)?;
            let answer = match named("EVALSHA", &script.hash).query(connection) {
                // The server was restarted, or its scripts were flushed: the call was not carried out.
                Err(error) if is_unknown_script(&error) => {
                    named("EVAL", &script.text).query(connection)?
                }
                answer => answer?,
            };
            let is_confirmed = replicas.map_or(Ok(true), |replicas| {
                replicas.have_all(connection, limits.response.min(limits.call))
            })?;
            Ok((answer, is_confirmed))
        })?;
        is_confirmed.then_some(answer).ok_or_else(unconfirmed)
    }

    /// Returns the time of a test's clock, which in a cluster may be on another node than the queue.
    fn own_time(&self) -> Result<Option<i64>> {
        let (Servers::Cluster(cluster), Some(key)) = (&self.servers, self.scripts.own_clock())
        else {
            return Ok(None);
        };
        let need = Need::Nothing;
        let slot = Layout::slot_of(key);
        let get = |connection: &mut Connection, way: Way| {
            way.prepare(connection)?;
            redis::cmd("GET").arg(key).query(connection)
        };
        let time = cluster.with(&self.connector, slot, need, self.limits(need), get)?;
        Ok(Some(time))
    }
}
