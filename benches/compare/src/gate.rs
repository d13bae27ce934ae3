//! Has a pool start all its threads before a measurement.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread;
use std::time::{Duration, Instant};

use atomic_wait::{wait, wake_all};

use crate::neighbours;
use crate::peer::Peer;

/// How long to wait for threads that do not start.
const PATIENCE: Duration = Duration::from_secs(3);

/// A gate for tasks without a lock: ten thousand threads that are woken at once would wait for it,
/// which next to spinning neighbours takes longer than the rest of a run.
struct Gate {
    arrived: AtomicU32,
    /// 0 or 1.
    open: AtomicU32,
}

impl Gate {
    fn enter(&self) {
        self.arrived.fetch_add(1, Relaxed); // A number that orders nothing.
        while self.open.load(Acquire) == 0 {
            wait(&self.open, 0);
        }
    }

    fn open(&self) {
        self.open.store(1, Release); // Pairs with the Acquire of the waiting threads.
        wake_all(&raw const self.open);
    }
}

/// Submits `threads` tasks, each of which waits until all have begun, and returns when they have.
///
/// If a pool cannot run that many at once, the gate opens after some seconds, and the pool is
/// measured with the threads that it has. Neighbours pause meanwhile.
pub fn fill<P: Peer>(peer: &P, threads: u32) {
    neighbours::resting(|| fill_now(peer, threads));
}

fn fill_now<P: Peer>(peer: &P, threads: u32) {
    let gate = Arc::new(Gate {
        arrived: AtomicU32::new(0),
        open: AtomicU32::new(0),
    });
    for _ in 0..threads {
        let gate = Arc::clone(&gate);
        peer.submit(move || gate.enter());
    }
    let begin = Instant::now();
    while gate.arrived.load(Relaxed) < threads && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_micros(100));
    }
    gate.open();
    // The threads may still be leaving the gate or going to sleep.
    thread::sleep(Duration::from_millis(if threads > 100 { 50 } else { 2 }));
}
