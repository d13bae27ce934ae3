//! `reconcile [DESIRED ACTUAL]`: makes one directory of files like another, and keeps it so.
//!
//! What a work queue of keys is for: a controller. A key is the name of a file; what is to be done
//! about it is found out when its turn comes, by looking at both directories. So it does not matter
//! how often a name was added, nor why.
//!
//! ```text
//! watcher ── add what looks different ──> queue ── get ──> workers ── look, copy or remove
//!                                           ^                 │
//!                                           └── retry, later ─┘  (if that failed)
//! ```
//!
//! Without arguments it makes up two directories, on a disk that fails now and then, and ends when
//! the one is like the other. With arguments it goes on until Ctrl-C: then it deals with what it
//! knows of, for at most [`PATIENCE`], says what it left, and ends. A second Ctrl-C ends it at once.
//!
//! Not a replacement for `rsync`: it knows plain files in one directory, and looks at them by
//! reading them.

mod demo;
mod folders;
mod signals;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use dedup_queue::{DedupRetryQueue, Exponential, Jitter, Outcome};

use folders::{Change, Folders, View};

const WORKERS: usize = 4;
/// How often the directories are listed.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long the end may take.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let ended = match &arguments[..] {
        [] => demo::run(),
        [desired, actual] => {
            let folders = Folders::new(desired, actual);
            let (stop, stopped) = channel();
            let watched = signals::watch(move || _ = stop.send(()));
            watched.and_then(|()| control(&folders, &stopped, || false))
        }
        _ => {
            eprintln!("usage: reconcile [DESIRED ACTUAL]");
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("reconcile: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Watches and works until it is stopped, or until `is_over` says so after a look at the
/// directories. `Ok(true)`: nothing that was known of is left undone.
///
/// # Errors
/// If a directory cannot be listed.
fn control(
    folders: &Folders,
    stopped: &Receiver<()>,
    is_over: impl Fn() -> bool,
) -> io::Result<bool> {
    let limiter = Exponential::new(Duration::from_millis(5), Duration::from_secs(10));
    let queue = DedupRetryQueue::<String>::builder()
        .name("files")
        .limiter(limiter)
        .jitter(Jitter::Percent(20))
        .build();
    let tally = Tally::default();
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| work(&queue, folders, &tally));
        }
        let watched = watch(&queue, folders, stopped, is_over);
        // Whatever ended the watching, what it saw is dealt with.
        let drained = queue.drain_timeout(PATIENCE);
        if let Some(left) = drained.leftovers {
            for key in left
                .ready
                .iter()
                .chain(left.delayed.iter().map(|left| &left.key))
            {
                println!("left   {key}");
            }
            for key in left.held.iter().map(|held| &held.key) {
                println!("left   {key} (a worker is at it still)");
            }
            watched?;
            println!("{}", tally.report());
            let is_complete = left.is_empty() && drained.outcome == Outcome::Finished;
            return Ok(is_complete);
        }
        watched.map(|()| false)
    })
}

/// Adds every name whose files look different than before. A name whose change failed is not added
/// again for that: it waits for its retry.
fn watch(
    queue: &DedupRetryQueue<String>,
    folders: &Folders,
    stopped: &Receiver<()>,
    is_over: impl Fn() -> bool,
) -> io::Result<()> {
    let mut before = View::new();
    loop {
        let now = folders.look()?;
        let names = now.keys().chain(before.keys());
        for name in names.filter(|name| now.get(*name) != before.get(*name)) {
            if queue.add(name.clone()).is_err() {
                return Ok(()); // The queue is shut down.
            }
        }
        before = now;
        match stopped.recv_timeout(INTERVAL) {
            Ok(()) => return Ok(()),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if is_over() {
            return Ok(());
        }
    }
}

/// A worker: one key at a time, and never one that another worker is at.
fn work(queue: &DedupRetryQueue<String>, folders: &Folders, tally: &Tally) {
    while let Ok(name) = queue.get() {
        match folders.reconcile(&name) {
            Ok(change) => {
                tally.count(change);
                if change != Change::Nothing {
                    println!("{change}  {}", *name);
                }
                name.succeed();
            }
            Err(error) => {
                tally.failures.fetch_add(1, Relaxed);
                println!("failed {}: {error}", *name);
                name.retry();
            }
        }
    }
}

/// What has been done. Relaxed: the workers are joined before it is read.
#[derive(Default)]
struct Tally {
    written: AtomicU32,
    removed: AtomicU32,
    failures: AtomicU32,
}

impl Tally {
    fn count(&self, change: Change) {
        match change {
            Change::Nothing => {}
            Change::Written => _ = self.written.fetch_add(1, Relaxed),
            Change::Removed => _ = self.removed.fetch_add(1, Relaxed),
        }
    }

    fn report(&self) -> String {
        let [written, removed, failures] =
            [&self.written, &self.removed, &self.failures].map(|count| count.load(Relaxed));
        format!("{written} written, {removed} removed, {failures} failures on the way")
    }
}
