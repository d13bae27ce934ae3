//! Starts processes, kills and stops them, and lets the last ones finish.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use durable_queue::Store;
use testkit::{Rng, Running};

use crate::judge::Verdict;
use crate::place::{self, Role, SERVER};
use crate::worker::{self, LEASE, MODE, QUIET, pause};

/// Number of kills of a run in the tests.
pub(crate) const KILLS: u64 = 12;
/// Time limit of a kill and the work before it, on a busy machine.
pub(crate) const LONGEST: Duration = Duration::from_secs(3);
/// Number of concurrent processes.
const WORKERS: usize = 3;
/// Maximum time between two kills, in milliseconds.
const BETWEEN: usize = 150;
/// One of this many victims is stopped for longer than its leases, before it continues or is killed.
const STOPPED: usize = 4;

struct Workers<'a> {
    /// Used in turn: this program, and perhaps that of another version.
    programs: Vec<PathBuf>,
    server: Option<&'a str>,
    folder: &'a Path,
    rng: Rng,
    living: Vec<Running>,
    started: usize,
}

impl Workers<'_> {
    fn start(&mut self) {
        let name = self.started.to_string();
        let program = &self.programs[self.started % self.programs.len()];
        self.started += 1;
        let seed = self.rng.next_u64().to_string();
        let mut child = Command::new(program);
        child.arg(MODE).arg(self.folder).args([name, seed]);
        child.envs(self.server.map(|server| (SERVER, server)));
        self.living.push(Running(child.spawn().unwrap()));
    }

    fn signal(&self, victim: usize, signal: &str) {
        let id = self.living[victim].0.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(sent.success(), "a worker has ended by itself");
    }

    fn kill(&mut self, victim: usize) {
        for child in &mut self.living {
            let ended = child.0.try_wait().unwrap();
            assert!(ended.is_none(), "a worker has ended by itself: {ended:?}");
        }
        drop(self.living.swap_remove(victim));
    }
}

/// Creates a folder, which is removed after a successful run.
// Not by `testkit::scratch`: older versions of `testkit`, with which this program is built as well, do not have it.
pub(crate) fn folder() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = path.join(format!("crash-{}", std::process::id()));
    fs::remove_dir_all(&path).ok(); // Left by a killed run.
    fs::create_dir_all(&path).unwrap();
    path
}

fn is_anything_written(folder: &Path) -> bool {
    let mut files = fs::read_dir(folder).unwrap().flatten();
    files.any(|file| {
        file.path().extension().is_some_and(|it| it == "diary")
            && file.metadata().unwrap().len() > 0
    })
}

/// With `old`, the program of an older version, half of the processes run that.
pub(crate) fn run(old: Option<&Path>, server: Option<&str>, kills: u64, seed: u64) {
    let folder = folder();
    let this = std::env::current_exe().unwrap();
    let old = old.map(Path::to_owned);
    let mut workers = Workers {
        programs: old.into_iter().chain([this]).collect(),
        server,
        folder: &folder,
        rng: Rng::new(seed),
        living: Vec::new(),
        started: 0,
    };
    let mut stops = 0;
    for _ in 0..kills {
        while workers.living.len() < WORKERS {
            workers.start();
        }
        let (time, victim) = (workers.rng.below(BETWEEN), workers.rng.below(WORKERS));
        pause(time);
        let (is_stopped, goes_on) = (workers.rng.chance(STOPPED), workers.rng.chance(2));
        if is_stopped {
            stops += 1;
            workers.signal(victim, "-STOP");
            pause(usize::try_from(LEASE.as_millis()).unwrap() * 2);
            if goes_on {
                workers.signal(victim, "-CONT");
                pause(time);
            }
        }
        workers.kill(victim);
    }

    // Remaining jobs are done by live processes, or by a new one.
    workers.start();
    // On a busy machine all others may have been killed before they did anything.
    while !is_anything_written(&folder) {
        pause(10);
    }
    fs::write(folder.join(QUIET), "").unwrap();
    place::play(server, &folder, UntilDone);
    drop(workers);

    let verdict = Verdict::of(&folder);
    println!("{kills} kills, {stops} stops, seed {seed}: {verdict}");
    fs::remove_dir_all(&folder).unwrap();
}

/// Waits until only the repeating job is left.
struct UntilDone;

impl Role for UntilDone {
    fn play<S: Store + Clone>(self, store: S) {
        let queue = worker::open(store, true);
        while queue.list(None, 2).unwrap().len() > 1 {
            pause(10);
        }
        let ticks = queue.list(None, 2).unwrap();
        assert_eq!(ticks.len(), 1, "the repeating job exists once");
        assert_eq!(ticks[0].key.as_deref(), Some(worker::TICK.as_bytes()));
        assert!(queue.dead(None, 1).unwrap().is_empty());
    }
}
