//! A master with replicas, watched by three sentinels.

use std::collections::BTreeMap;
use std::fs;

use redis::{FromRedisValue as _, Value, cmd};

use crate::redis_server::{Server, free_port};
use crate::support::pause;

/// The master's name.
pub const NAME: &str = "mymaster";

const SENTINELS: usize = 3;

pub struct Watched {
    /// The first one is the master at first.
    pub servers: Vec<(Server, u16)>,
    sentinels: Vec<(Server, u16)>,
}

fn started(options: &[&str], prepare: impl FnOnce(&std::path::Path)) -> Option<(Server, u16)> {
    let port = free_port();
    let text = port.to_string();
    let own = ["--bind", "127.0.0.1", "--port", &text];
    let server = Server::started(&[options, &own].concat(), prepare)?;
    Some((server, port))
}

impl Watched {
    pub fn new(replicas: usize) -> Option<Self> {
        let master = started(&["--repl-diskless-sync-delay", "0"], |_| ())?;
        let of = format!("127.0.0.1 {}", master.1);
        let mut servers = vec![master];
        for _ in 0..replicas {
            let replica = started(&["--replicaof", &of], |_| ())?;
            let is_up = |info: &str| info.contains("master_link_status:up");
            replica.0.wait(is_up);
            servers.push(replica);
        }
        let config = format!(
            "sentinel monitor {NAME} {of} 2\n\
             sentinel down-after-milliseconds {NAME} 500\n\
             sentinel failover-timeout {NAME} 3000\n"
        );
        let sentinels = (0..SENTINELS).map(|_| {
            started(&["sentinel.conf", "--sentinel"], |folder| {
                fs::write(folder.join("sentinel.conf"), &config).unwrap();
            })
        });
        let watched = Self {
            sentinels: sentinels.collect::<Option<_>>()?,
            servers,
        };
        watched.wait(|seen| {
            let others = SENTINELS - 1;
            seen["num-other-sentinels"] == others.to_string()
                && seen["num-slaves"] == replicas.to_string()
        });
        Some(watched)
    }

    pub fn sentinels(&self) -> Vec<String> {
        let ports = self.sentinels.iter().map(|(_, port)| port);
        ports
            .map(|port| format!("redis://127.0.0.1:{port}"))
            .collect()
    }

    /// Waits until all sentinels see the master like this.
    pub fn wait(&self, is_there: impl Fn(&BTreeMap<String, String>) -> bool) {
        testkit::watchdog(testkit::LIMIT, || {
            for (sentinel, _) in &self.sentinels {
                let mut show = cmd("SENTINEL");
                show.arg("MASTER").arg(NAME);
                while !is_there(&sentinel.run(&show)) {
                    pause(10);
                }
            }
        });
    }

    /// Returns the number of the server that the first sentinel takes for the master.
    pub fn master(&self) -> usize {
        let mut get = cmd("SENTINEL");
        get.arg("GET-MASTER-ADDR-BY-NAME").arg(NAME);
        let found: Value = self.sentinels[0].0.run(&get);
        let (_, found) = <(String, u16)>::from_redis_value_ref(&found).unwrap();
        self.servers
            .iter()
            .position(|(_, port)| *port == found)
            .unwrap()
    }
}
