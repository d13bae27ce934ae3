//! `reconcile [DESIRED ACTUAL]`: keeps the files of one directory equal to those of another.
//!
//! Shows a work queue of keys in a controller. A key is the name of a file. A worker compares both
//! directories only when it handles the key, so the number of adds and their reasons do not matter.
//!
//! ```text
//! watcher ── add changed names ──> queue ── get ──> workers ── compare, copy or remove
//!                                    ^                 │
//!                                    └── retry, later ─┘  (after a failure)
//! ```
//!
//! Without arguments, it generates two directories with occasional failures, and ends when they are
//! equal. With arguments, it runs until Ctrl-C. Then it handles the known changes for at most
//! [`PATIENCE`], prints the names that are left, and ends. A second Ctrl-C ends it at once.
//!
//! Not a replacement for `rsync`: it supports only plain files in one directory, and compares their
//! contents.

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
/// The pause between two listings of the directories.
const INTERVAL: Duration = Duration::from_millis(100);
/// The time limit of the drain at the end.
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

/// Watches and reconciles until it is stopped, or until `is_over` returns true after a listing of
/// the directories. `Ok(true)` means that every known change was handled.
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
        // The detected changes are processed even if the watch failed.
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
                println!("left   {key} (still held by a worker)");
            }
            watched?;
            println!("{}", tally.report());
            let is_complete = left.is_empty() && drained.outcome == Outcome::Finished;
            return Ok(is_complete);
        }
        watched.map(|()| false)
    })
}

/// Adds every name whose files have changed. A name whose reconciliation failed is not added again
/// for that, because it waits for its retry.
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

/// A worker: it handles one key at a time, and never a key of another worker.
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

/// Counts of the results. `Relaxed`: the workers are joined before they are read.
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
        format!("{written} written, {removed} removed, {failures} failures")
    }
}
