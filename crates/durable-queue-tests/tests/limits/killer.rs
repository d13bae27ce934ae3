//! Starts processes, kills them, and does the remaining jobs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use durable_queue::store::Act;
use testkit::{Rng, Running, scratch};

use crate::judge::Verdict;
use crate::worker::{MODE, QUEUES, SERVER, open, pause, set_limits, turn, turn_of};

/// Number of kills of a run in the tests.
pub(crate) const KILLS: u64 = 24;
/// Time limit of a kill and the work before it, on a busy machine.
pub(crate) const LONGEST: Duration = Duration::from_secs(3);
/// Number of concurrent processes.
const WORKERS: usize = 8;
/// Maximum time between two kills, in milliseconds: on a file, and on a server, where a process starts later.
const BETWEEN: [usize; 2] = [150, 600];

struct Workers<'a> {
    server: Option<&'a str>,
    folder: &'a Path,
    rng: Rng,
    living: Vec<Running>,
    started: usize,
}

impl Workers<'_> {
    fn start(&mut self) {
        let name = self.started.to_string();
        self.started += 1;
        let seed = self.rng.next_u64().to_string();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.arg(MODE).arg(self.folder).args([name, seed]);
        child.envs(self.server.map(|server| (SERVER, server)));
        self.living.push(Running(child.spawn().unwrap()));
    }

    /// The drop kills.
    fn kill(&mut self, victim: usize) {
        let mut victim = self.living.swap_remove(victim);
        let ended = victim.0.try_wait().unwrap();
        assert!(ended.is_none(), "a worker has ended by itself: {ended:?}");
    }
}

pub(crate) fn run(server: Option<&str>, kills: u64, seed: u64) {
    let folder = scratch(env!("CARGO_TARGET_TMPDIR"), "limits");
    set_limits(&*open(server, &folder));
    let mut workers = Workers {
        server,
        folder: &folder,
        rng: Rng::new(seed),
        living: Vec::new(),
        started: 0,
    };
    for _ in 0..kills {
        while workers.living.len() < WORKERS {
            workers.start();
        }
        pause(workers.rng.below(BETWEEN[usize::from(server.is_some())]));
        let victim = workers.rng.below(WORKERS);
        workers.kill(victim);
    }
    while !workers.living.is_empty() {
        workers.kill(0);
    }
    // No process has ended properly. The places of all of them are free when their leases end.
    let store = open(server, &folder);
    let store = &*store;
    for queue in QUEUES {
        while store.stats(queue).unwrap().jobs > 0 {
            let leases = turn_of(store, queue, 10).claimed.unwrap().leases;
            let settles: Vec<_> = leases.iter().map(|lease| lease.settle(Act::Ack)).collect();
            turn(store, queue, &settles, None);
            pause(5);
        }
    }
    println!("{kills} kills, seed {seed}: {}", Verdict::of(&folder));
    fs::remove_dir_all(&folder).unwrap();
}
