//! A Redis Cluster of one test, or of all tests of a binary.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use redis::{Cmd, FromRedisValue, RedisResult, Value, cmd};

use crate::redis_server::{Server, free_port};
use crate::support::pause;

const SLOTS: usize = 16_384;

/// One server of the cluster.
pub struct Node {
    pub server: Server,
    pub port: u16,
    pub id: String,
}

/// Its nodes that own slots at first come first.
pub struct Cluster {
    pub nodes: Vec<Node>,
}

impl Node {
    fn start(options: &[&str]) -> Option<Self> {
        let [port, bus] = [free_port(), free_port()];
        let (port_text, bus_text) = (port.to_string(), bus.to_string());
        let own = ports(&port_text, &bus_text);
        let common = ["--bind", "127.0.0.1", "--cluster-enabled", "yes"];
        let sync = ["--repl-diskless-sync-delay", "0"];
        let options = [&own[..], &common, &sync, options].concat();
        let server = Server::started(&options, |_| ())?;
        let id = server.run(cmd("CLUSTER").arg("MYID"));
        Some(Self { server, port, id })
    }

    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the epochs and slots of all nodes, as this one knows them.
    fn view(&self) -> BTreeSet<String> {
        let nodes: String = self.server.run(cmd("CLUSTER").arg("NODES"));
        let line = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            format!("{} {} {}", words[0], words[6], words[8..].join(" "))
        };
        nodes.lines().map(line).collect()
    }

    fn bus(&self) -> u16 {
        let setting: BTreeMap<String, u16> = self
            .server
            .run(cmd("CONFIG").arg("GET").arg("cluster-port"));
        setting["cluster-port"]
    }

    /// Starts it with other ports, after it was killed.
    pub fn start_at_other_ports(&mut self) {
        self.port = free_port();
        let (port, bus) = (self.port.to_string(), free_port().to_string());
        self.server.start(&ports(&port, &bus));
        self.server.wait(|info| info.contains("\nloading:0"));
    }
}

fn ports<'a>(port: &'a str, bus: &'a str) -> [&'a str; 4] {
    ["--port", port, "--cluster-port", bus]
}

impl Cluster {
    /// Starts a cluster whose slots are spread over `masters` nodes. The `replicas` further ones are
    /// copies of the first.
    pub fn new(masters: usize, replicas: usize, options: &[&str]) -> Option<Self> {
        let nodes = (0..masters + replicas).map(|_| Node::start(options));
        let cluster = Self {
            nodes: nodes.collect::<Option<_>>()?,
        };
        let mut first_slot = 0;
        for (number, node) in cluster.nodes.iter().enumerate() {
            let server = &node.server;
            server.run::<()>(cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(number + 1));
            if number < masters {
                let end = SLOTS * (number + 1) / masters;
                let range = [first_slot, end - 1];
                server.run::<()>(cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(&range));
                first_slot = end;
            }
            if let Some(first) = cluster.nodes.first().filter(|_| number > 0) {
                let mut meet = cmd("CLUSTER");
                meet.arg("MEET").arg("127.0.0.1");
                server.run::<()>(meet.arg(first.port).arg(first.bus()));
            }
        }
        let count = cluster.nodes.len();
        cluster.wait(|info| info.contains(&format!("cluster_known_nodes:{count}\r")));
        for node in &cluster.nodes[masters..] {
            let master = &cluster.nodes[0].id;
            let mut replicate = cmd("CLUSTER");
            node.server
                .run::<()>(replicate.arg("REPLICATE").arg(master));
            node.server
                .wait(|info| info.contains("master_link_status:up"));
        }
        cluster.wait(is_ok);
        Some(cluster)
    }

    /// Returns a cluster that all tests of this binary share. Its servers end after the binary.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<(Cluster, Child)>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| {
            let cluster = Self::new(3, 0, &["--cluster-node-timeout", "15000"])?;
            // Statics are not dropped. The shell's input ends with this process.
            let mut shell = Command::new("sh");
            shell.args(["-c", "cat; kill -9 $0 $1 $2; rm -r $3 $4 $5"]);
            for node in &cluster.nodes {
                shell.arg(node.server.process().to_string());
            }
            for node in &cluster.nodes {
                shell.arg(node.server.folder());
            }
            let shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
            Some((cluster, shell.unwrap()))
        });
        shared.as_ref().map(|(cluster, _)| cluster)
    }

    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(Node::address).collect()
    }

    /// Waits until the `CLUSTER INFO` of all nodes that run satisfies `is_there`.
    pub fn wait(&self, is_there: impl Fn(&str) -> bool) {
        testkit::watchdog(testkit::LIMIT, || {
            for node in &self.nodes {
                let mut info = cmd("CLUSTER");
                info.arg("INFO");
                while !is_there(&node.server.run::<String>(&info)) {
                    pause(10);
                }
            }
        });
    }

    /// Waits until all nodes see all others at their addresses.
    pub fn wait_until_ok(&self) {
        self.wait(is_ok);
        testkit::watchdog(testkit::LIMIT, || {
            let knows = |node: &Node, other: &Node| {
                let nodes: String = node.server.run(cmd("CLUSTER").arg("NODES"));
                nodes.contains(&format!("127.0.0.1:{}@", other.port))
            };
            for node in &self.nodes {
                while !self.nodes.iter().all(|other| knows(node, other)) {
                    pause(10);
                }
            }
        });
    }

    pub fn slot(&self, key: &str) -> u16 {
        let server = &self.nodes[0].server;
        server.run(cmd("CLUSTER").arg("KEYSLOT").arg(key))
    }

    /// Returns the number of the node that owns the slot, as node `asked` knows it.
    pub fn owner_by(&self, asked: usize, slot: u16) -> usize {
        let slots: Vec<Vec<Value>> = self.nodes[asked].server.run(cmd("CLUSTER").arg("SLOTS"));
        let range = slots.iter().find(|range| {
            let ends = [0, 1].map(|it| u16::from_redis_value_ref(&range[it]).unwrap());
            (ends[0]..=ends[1]).contains(&slot)
        });
        let owner = range.unwrap()[2].as_sequence().unwrap();
        let id: String = FromRedisValue::from_redis_value_ref(&owner[2]).unwrap();
        self.nodes.iter().position(|node| node.id == id).unwrap()
    }

    pub fn owner(&self, slot: u16) -> usize {
        self.owner_by(0, slot)
    }

    /// Runs a command on the node that owns the slot of the key.
    pub fn run<T: FromRedisValue>(&self, key: &str, command: &Cmd) -> T {
        self.nodes[self.owner(self.slot(key))].server.run(command)
    }

    /// Lets the slot's owner give it to node `to`. Returns the owner.
    pub fn begin_move(&self, slot: u16, to: usize) -> usize {
        let from = self.owner(slot);
        self.set_slot(to, slot, "IMPORTING", from);
        self.set_slot(from, slot, "MIGRATING", to);
        from
    }

    /// Moves one key of the slot. Returns false if there was none.
    pub fn move_key(&self, slot: u16, from: usize, to: usize) -> bool {
        let mut find = cmd("CLUSTER");
        let from = &self.nodes[from].server;
        let keys: Vec<String> = from.run(find.arg("GETKEYSINSLOT").arg(slot).arg(1));
        let Some(key) = keys.first() else {
            return false;
        };
        let mut migrate = cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(self.nodes[to].port).arg(key);
        // A key that is gone in the meantime is no error.
        from.run::<()>(migrate.arg(0).arg(10_000));
        true
    }

    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        let rest = (0..self.nodes.len()).filter(|node| ![from, to].contains(node));
        for node in [to, from].into_iter().chain(rest) {
            self.set_slot(node, slot, "NODE", to);
        }
        // Another move before all nodes know the new owner's epoch may leave the slot without an owner.
        testkit::watchdog(testkit::LIMIT, || {
            let views = || self.nodes.iter().map(Node::view).collect::<BTreeSet<_>>();
            while views().len() > 1 {
                pause(10);
            }
        });
    }

    /// Moves the slot with its keys.
    pub fn move_slot(&self, slot: u16, to: usize) {
        let from = self.begin_move(slot, to);
        while self.move_key(slot, from, to) {}
        self.end_move(slot, from, to);
    }

    fn set_slot(&self, node: usize, slot: u16, state: &str, other: usize) {
        let mut set = cmd("CLUSTER");
        set.arg("SETSLOT").arg(slot).arg(state);
        let set = set.arg(&self.nodes[other].id);
        let result: RedisResult<()> = set.query(&mut self.nodes[node].server.session());
        result.unwrap();
    }
}

fn is_ok(info: &str) -> bool {
    info.contains("cluster_state:ok")
}
