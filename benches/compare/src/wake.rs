//! A bare futex, the lower bound of a pool's wake-up.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread;
use std::time::Instant;

/// A thread that sleeps on one word, and stamps the time when it wakes up.
pub struct Sleeper(Arc<Shared>);

struct Shared {
    /// The number of wake-ups.
    calls: AtomicU32,
    /// The time of the last wake-up, in nanoseconds since `origin`, or 0.
    woke: AtomicU64,
    origin: Instant,
}

impl Sleeper {
    pub fn start() -> Self {
        let shared = Arc::new(Shared {
            calls: AtomicU32::new(0),
            woke: AtomicU64::new(0),
            origin: Instant::now(),
        });
        let sleeper = Arc::clone(&shared);
        thread::spawn(move || {
            let mut seen = 0;
            loop {
                atomic_wait::wait(&sleeper.calls, seen);
                let calls = sleeper.calls.load(Acquire); // Pairs with the Release in `wake`.
                if calls != seen {
                    seen = calls;
                    sleeper.woke.store(nanos(sleeper.origin), Release);
                }
            }
        });
        Self(shared)
    }

    /// Wakes the thread. Call it only after the last wake-up was [`taken`](Self::taken).
    pub fn wake(&self) -> Instant {
        let start = Instant::now();
        self.0.calls.fetch_add(1, Release); // Pairs with the Acquire of the sleeper.
        atomic_wait::wake_one(&raw const self.0.calls);
        start
    }

    /// Returns the nanoseconds from `start` to the wake-up, if the thread has woken up.
    pub fn taken(&self, start: Instant) -> Option<u64> {
        let woke = self.0.woke.load(Acquire); // Pairs with the Release of the sleeper.
        if woke == 0 {
            return None;
        }
        self.0.woke.store(0, Relaxed);
        let start = u64::try_from((start - self.0.origin).as_nanos()).unwrap_or(u64::MAX);
        Some(woke.saturating_sub(start))
    }
}

fn nanos(origin: Instant) -> u64 {
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
