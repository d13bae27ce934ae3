//! Routing of calls to the nodes of a cluster.
//!
//! # Terms
//! A slot has one *owner*. While the slot is being moved, the owner answers TRYAGAIN if it has some of a call's
//! keys, and ASK if it has none: the call goes to the importing node, once. That node answers TRYAGAIN if it
//! lacks one of several keys. Afterwards the old owner answers MOVED: the slot has another owner.
//!
//! So commands with one key are served during a move, and scripts wait for its end. To run them on the
//! importing node after ASK would be possible by declaring one key, but unsafe: an answer that is delayed until
//! the slot is moved again says nothing about the other keys.
//!
//! # Invariants
//! 1. A call is sent again only if a node has answered that it did not start it, or if it was not sent.
//! 2. Only MOVED and a look at the cluster change owners.
//! 3. No lock is held during a round trip.
//! 4. Redirects end after the time limit of a response.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use durable_queue::ErrorKind;
use durable_queue::internals::Own;
use durable_queue::store::Result;
use redis::{Client, Connection, ConnectionAddr, ConnectionInfo, RedisError, RedisResult, Value};
use sync_shim::{Clock as _, Mutex, Parker};

use crate::failure::{failure, is_over, moving, no_cluster, no_owner, no_session, no_time};
use crate::layout::{Layout, SLOTS};
use crate::script::{Need, Way};
use crate::server::checks::{check, field};
use crate::server::connector::{Connector, client};
use crate::server::pool::{Failed, Limits, Pool};
use crate::server::sentinel::at;

/// Maximum time for the answer of one node about the cluster.
const ANSWER: Duration = Duration::from_secs(1);
/// Redirects that are followed at once. Between two nodes that disagree there are pauses.
const AT_ONCE: u32 = 2;
/// Pauses double up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Host and port.
type Address = (String, u16);

struct Node {
    address: Address,
    client: Client,
    pool: Pool,
}

/// The known state of the cluster.
#[derive(Default)]
struct State {
    nodes: BTreeMap<Address, Arc<Node>>,
    /// By slot.
    owners: Vec<Option<Arc<Node>>>,
    /// The nodes that own no slot.
    others: Vec<Address>,
    /// A node has failed since the last look.
    is_stale: bool,
    looks: usize,
}

/// A range of slots, and the addresses of the nodes that have it, the owner first.
struct Range {
    first: u16,
    last: u16,
    nodes: Vec<Address>,
}

/// Answer of a node that did not start a call.
enum Redirect {
    Moved(Address),
    Ask(Address),
    TryAgain,
}

impl Redirect {
    /// `node`: the node that answered.
    fn of(error: &RedisError, node: &Node) -> Option<Self> {
        let target = || {
            let (address, _) = error.redirect_node()?;
            let (host, port) = address.rsplit_once(':')?;
            // A node that does not know its own address leaves the host out.
            let host = Some(host).filter(|host| !host.is_empty());
            let host = host.unwrap_or(&node.address.0).to_owned();
            Some((host, port.parse().ok()?))
        };
        match error.code()? {
            "MOVED" => Some(Self::Moved(target()?)),
            "ASK" => Some(Self::Ask(target()?)),
            "TRYAGAIN" => Some(Self::TryAgain),
            _ => None,
        }
    }
}

/// Calls a node, within the time that is left.
type Attempt<'a> = dyn FnMut(&Arc<Node>, Way, Duration) -> std::result::Result<(), Failed> + 'a;

/// The nodes of a cluster, each with its own sessions.
pub(crate) struct Cluster {
    /// Addresses that are asked for the nodes. Nodes get the user and the settings of the first one.
    seeds: Vec<ConnectionInfo>,
    /// Maximum number of sessions of the application with each node.
    sessions: usize,
    state: Own<Mutex<State>>,
}

impl Cluster {
    /// Looks for the nodes, and checks those that own slots.
    ///
    /// # Errors
    /// If no seed answers, or if a node is not supported.
    pub(crate) fn open(
        seeds: Vec<ConnectionInfo>,
        sessions: usize,
        connector: &Connector,
    ) -> Result<Self> {
        let cluster = Self {
            seeds,
            sessions,
            state: Own::new(Mutex::new(State::default())),
        };
        cluster.look(connector, Duration::MAX)?;
        let owners = cluster.state.get()?.lock().nodes.clone();
        for node in owners.values() {
            check(&mut cluster.connect(connector, node, Duration::MAX)?)?;
        }
        Ok(cluster)
    }

    /// Makes one round trip with the owner of the slot, or with the node that imports it.
    pub(crate) fn with<T>(
        &self,
        connector: &Connector,
        slot: u16,
        need: Need,
        limits: Limits,
        mut call: impl FnMut(&mut Connection, Way) -> RedisResult<T>,
    ) -> Result<T> {
        let mut answer = None;
        self.follow(connector, slot, limits, &mut |node, way, left| {
            let limits = Limits {
                call: left,
                ..limits
            };
            let connect = |limit| self.connect(connector, node, limit);
            let called = node
                .pool
                .with(need, limits, connect, |connection| call(connection, way));
            answer = Some(called?);
            Ok(())
        })?;
        Ok(answer.expect("`follow` returns `Ok` after a call that did"))
    }

    /// Starts a session with a node that sees the cluster.
    pub(crate) fn any_node(&self, connector: &Connector) -> Result<Connection> {
        let mut failed = no_owner();
        for address in self.candidates()? {
            match ask(connector, &address, ANSWER) {
                Ok((connection, true, _)) => return Ok(connection),
                Ok((_, false, _)) => failed = no_owner(),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Calls `at` with the owner of the slot and the time left, and follows its redirects.
    fn follow(
        &self,
        connector: &Connector,
        slot: u16,
        limits: Limits,
        at: &mut Attempt<'_>,
    ) -> Result<()> {
        let begin = connector.clock.now();
        let elapsed = || connector.clock.now() - begin;
        let patience = limits.call.min(limits.response);
        let parker = Parker::new();
        let (mut pause, mut redirects) = (FIRST_PAUSE, 0);
        let mut has_looked = false;
        let mut node = self.owner(connector, slot, limits.call)?;
        let mut way = Way::Direct;
        loop {
            let left = limits.call.saturating_sub(elapsed());
            if left.is_zero() {
                return Err(no_time());
            }
            let error = match at(&node, way, left) {
                Ok(()) => return Ok(()),
                Err(Failed::NotSent(error)) => {
                    if has_looked || error.kind() != ErrorKind::Unavailable {
                        return Err(error);
                    }
                    // Another node may have taken over.
                    has_looked = true;
                    self.look(connector, left).ok();
                    let owner = self.known(slot)?.filter(|owner| !Arc::ptr_eq(owner, &node));
                    node = owner.ok_or(error)?;
                    way = Way::Direct;
                    continue;
                }
                Err(Failed::Sent(error)) => error,
            };
            let Some(redirect) = Redirect::of(&error, &node) else {
                if is_over(&error) {
                    self.state.get()?.lock().is_stale = true;
                }
                return Err(failure(&error));
            };
            if elapsed() >= patience {
                return Err(moving());
            }
            redirects += 1;
            let mut is_at_once = redirects <= AT_ONCE;
            (node, way) = match redirect {
                Redirect::Moved(address) => (self.moved(slot, address)?, Way::Direct),
                Redirect::Ask(address) => (self.node(address)?, Way::Asking),
                Redirect::TryAgain => {
                    is_at_once = false;
                    let owner = self.owner(connector, slot, limits.call);
                    (owner?, Way::Direct)
                }
            };
            if !is_at_once {
                let clock = &connector.clock;
                clock.park_until(&parker, clock.now() + pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Starts a session with the node. The version is with the owner of its key.
    fn connect(
        &self,
        connector: &Connector,
        node: &Arc<Node>,
        limit: Duration,
    ) -> Result<Connection> {
        let layout = &connector.layout;
        let mut connection = connector.dial(&node.client, limit)?;
        let limits = Limits {
            call: limit,
            response: connector.response_timeout,
        };
        let slot = Layout::slot_of(&layout.version());
        let mut found = None;
        self.follow(connector, slot, limits, &mut |owner, way, left| {
            let read = if Arc::ptr_eq(owner, node) {
                layout.read(&mut connection, way)
            } else {
                let other = connector.dial(&owner.client, left);
                layout.read(&mut other.map_err(Failed::NotSent)?, way)
            };
            found = read.map_err(|error| match Redirect::of(&error, owner) {
                Some(_) => Failed::Sent(error),
                // The caller's call was not sent.
                None => Failed::NotSent(no_session(&error)),
            })?;
            Ok(())
        })?;
        Layout::check(found.as_deref())?;
        Ok(connection)
    }

    /// Returns the owner of the slot. Looks for it if it is unknown, or if a node has failed.
    fn owner(&self, connector: &Connector, slot: u16, limit: Duration) -> Result<Arc<Node>> {
        let known = {
            let state = self.state.get()?.lock();
            let owner = state.owners.get(usize::from(slot)).cloned().flatten();
            owner.filter(|_| !state.is_stale)
        };
        if let Some(owner) = known {
            return Ok(owner);
        }
        self.look(connector, limit)?;
        self.known(slot)?.ok_or_else(no_owner)
    }

    fn known(&self, slot: u16) -> Result<Option<Arc<Node>>> {
        let state = self.state.get()?.lock();
        Ok(state.owners.get(usize::from(slot)).cloned().flatten())
    }

    /// Records a new owner.
    fn moved(&self, slot: u16, address: Address) -> Result<Arc<Node>> {
        let node = self.node(address)?;
        let mut state = self.state.get()?.lock();
        if let Some(owner) = state.owners.get_mut(usize::from(slot)) {
            *owner = Some(Arc::clone(&node));
        }
        Ok(node)
    }

    fn node(&self, address: Address) -> Result<Arc<Node>> {
        let mut state = self.state.get()?.lock();
        if let Some(node) = state.nodes.get(&address) {
            return Ok(Arc::clone(node));
        }
        let node = Arc::new(self.new_node(address)?);
        state.nodes.insert(node.address.clone(), Arc::clone(&node));
        Ok(node)
    }

    fn new_node(&self, address: Address) -> Result<Node> {
        let (host, port) = address.clone();
        Ok(Node {
            address,
            client: self.client(host, port)?,
            pool: Pool::new(None, self.sessions),
        })
    }

    fn client(&self, host: String, port: u16) -> Result<Client> {
        client(at(&self.seeds[0], host, port))
    }

    /// Returns all addresses that may answer, in another order each time, so that one that does not answer
    /// is not always the first.
    fn candidates(&self) -> Result<Vec<ConnectionInfo>> {
        let mut state = self.state.get()?.lock();
        state.looks = state.looks.wrapping_add(1);
        let nodes = state.nodes.keys().chain(&state.others).cloned();
        let nodes = nodes.map(|(host, port)| at(&self.seeds[0], host, port));
        let mut all: Vec<_> = nodes.collect();
        if !all.is_empty() {
            let middle = state.looks % all.len();
            all.rotate_left(middle);
        }
        all.extend(self.seeds.iter().cloned());
        Ok(all)
    }

    /// Asks the nodes who owns which slot. The answer of a node that does not see the cluster counts only if
    /// there is no other.
    fn look(&self, connector: &Connector, limit: Duration) -> Result<()> {
        let limit = limit.min(connector.connect_timeout);
        let begin = connector.clock.now();
        let (mut failed, mut second) = (no_time(), None);
        for address in self.candidates()? {
            let left = limit.saturating_sub(connector.clock.now() - begin);
            if left.is_zero() {
                break;
            }
            match ask(connector, &address, (left / 2).min(ANSWER)) {
                Ok((_, true, ranges)) => return self.adopt(ranges, false),
                Ok((_, false, ranges)) => second = Some(ranges),
                Err(error) => failed = error,
            }
        }
        self.adopt(second.ok_or(failed)?, true)
    }

    fn adopt(&self, ranges: Vec<Range>, is_stale: bool) -> Result<()> {
        let state = self.state.get()?;
        let mut nodes: BTreeMap<Address, Arc<Node>> = BTreeMap::new();
        let mut others = Vec::new();
        let mut owners = vec![None; usize::from(SLOTS)];
        let known = state.lock().nodes.clone();
        for Range {
            first,
            last,
            nodes: all,
        } in ranges
        {
            let mut all = all.into_iter();
            let Some(address) = all.next() else { continue };
            others.extend(all);
            let known = nodes.get(&address).or_else(|| known.get(&address));
            let owner = match known {
                Some(node) => Arc::clone(node),
                None => Arc::new(self.new_node(address.clone())?),
            };
            for slot in first..=last {
                if let Some(place) = owners.get_mut(usize::from(slot)) {
                    *place = Some(Arc::clone(&owner));
                }
            }
            nodes.insert(address, owner);
        }
        let mut state = state.lock();
        let old = std::mem::replace(&mut state.nodes, nodes);
        let old_owners = std::mem::replace(&mut state.owners, owners);
        (state.others, state.is_stale) = (others, is_stale);
        drop(state);
        // Closes the sessions with nodes that are gone.
        drop((old, old_owners));
        Ok(())
    }
}

/// Returns a session with the node, whether it sees the cluster, and the slots as it knows them.
fn ask(
    connector: &Connector,
    address: &ConnectionInfo,
    limit: Duration,
) -> Result<(Connection, bool, Vec<Range>)> {
    let asked = client(address.clone())?;
    let mut connection = connector.dial(&asked, limit)?;
    let info = redis::cmd("CLUSTER").arg("INFO").query(&mut connection);
    let info: RedisResult<String> = info;
    let slots = redis::cmd("CLUSTER").arg("SLOTS").query(&mut connection);
    let slots: RedisResult<Value> = slots;
    let failed = |error: RedisError| match error.detail() {
        Some(text) if text.contains("cluster support disabled") => no_cluster(),
        _ => no_session(&error),
    };
    let (info, slots) = (info.map_err(failed)?, slots.map_err(failed)?);
    let host = match address.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
        _ => "",
    };
    let ranges = ranges(&slots, host).ok_or_else(no_owner)?;
    Ok((connection, field(&info, "cluster_state") == "ok", ranges))
}

/// Parses the answer to `CLUSTER SLOTS`. `asked`: the host of the node that answered, which may not know it.
fn ranges(slots: &Value, asked: &str) -> Option<Vec<Range>> {
    let number = |value: &Value| match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    let address = |node: &Value| {
        let node = node.as_sequence()?;
        let host = match node.first()? {
            Value::BulkString(host) if !host.is_empty() => String::from_utf8(host.clone()).ok()?,
            _ => asked.to_owned(),
        };
        Some((host, number(node.get(1)?)?))
    };
    let range = |range: &Value| {
        let [first, last, nodes @ ..] = range.as_sequence()? else {
            return None;
        };
        Some(Range {
            first: number(first)?,
            last: number(last)?,
            nodes: nodes.iter().filter_map(address).collect(),
        })
    };
    slots.as_sequence()?.iter().map(range).collect()
}
