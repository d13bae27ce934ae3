//! Makes a pool have all its threads, before anything is measured.

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

/// How long to wait for threads that do not come.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where tasks wait. No lock: ten thousand threads that are woken at once would queue for it, and
/// beside spinning neighbours that takes longer than all the rest.
struct Gate {
    arrived: AtomicU32,
    /// 0 or 1.
    open: AtomicU32,
}

impl Gate {
    fn enter(&self) {
        self.arrived.fetch_add(1, Relaxed); // A number, no more.
        while self.open.load(Acquire) == 0 {
            wait(&self.open, 0);
        }
    }

    fn open(&self) {
        self.open.store(1, Release); // Pairs with the Acquire of the threads that wait.
        wake_all(&raw const self.open);
    }
}

/// Submits so many tasks that each wait until all have begun, and returns when they have.
///
/// A pool that cannot run so many at once lets them go after some seconds: then what is measured is
/// what it has. Neighbours rest meanwhile.
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
    // They may still be on their way out of the gate, or to sleep.
    thread::sleep(Duration::from_millis(if threads > 100 { 50 } else { 2 }));
}
