//! The lock without its data: one word.
//!
//! Not for: protecting data by itself; see [`SpinLock`](crate::SpinLock).
//!
//! # States
//! The word is *free*, *held*, *contended* (held, and threads may be parked) or *reserved* (free,
//! but only for a waiter that was parked: a fair hand-off). This crate's `README.md` has the steps
//! of locking and unlocking, and why no wake-up is lost.
//!
//! # Invariants
//! 1. The thread that writes *held* or *contended* over *free* or *reserved* has the lock until it
//!    writes *free*.
//! 2. While a thread is parked, the word is *contended* or *reserved*, or a woken thread is about
//!    to run. A woken thread leaves only after it has taken the lock as *contended* or marked the
//!    word *contended*: so it never consumes a wake-up that other threads need.
//!
//! # Memory orderings
//! Unlocking releases, and every exchange that takes the lock acquires. No other access
//! synchronizes.

use std::fmt;
use std::time::Instant;

use sync_shim::Futex;
use sync_shim::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::Backoff;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;
const RESERVED: u32 = 3;

/// Rounds of yields before the first sleep. Measured: more rounds run faster and share worse.
const YIELD_ROUNDS: u32 = 3;

/// A lock that spins briefly, yields a few times, then sleeps.
///
/// Through `lock_api` (`lock_api::Mutex<RawSpinLock, T>`, [`SpinMutex`](crate::SpinMutex)) it
/// protects data on the machine; [`SpinLock`](crate::SpinLock) also works in models.
///
/// Without contention, locking and unlocking cost one exchange each. A waiting thread sleeps after
/// a few yields, or at once if yields take long, so waiters cost no processor time however many
/// they are. Running threads may overtake a sleeping one, but about every half millisecond the next
/// turn is reserved for a sleeper (`parking_lot`'s eventual fairness).
pub struct RawSpinLock {
    word: Futex,
}

impl RawSpinLock {
    /// Creates a free lock.
    #[cfg(not(anthill_loom))]
    pub const fn new() -> Self {
        Self {
            word: Futex::new(FREE),
        }
    }

    /// Creates a free lock.
    #[cfg(anthill_loom)]
    pub fn new() -> Self {
        Self {
            word: Futex::new(FREE),
        }
    }

    /// Blocks until the calling thread has the lock. Not re-entrant: a thread that already holds
    /// the lock blocks for ever.
    #[inline]
    pub fn lock(&self) {
        if !self.try_lock_weak() {
            self.lock_slow(None);
        }
    }

    /// Takes the lock if it is free. Never blocks.
    #[inline]
    pub fn try_lock(&self) -> bool {
        // Acquire pairs with the Release in `unlock`.
        self.word
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_ok()
    }

    /// Blocks until the calling thread has the lock (`true`) or real time reaches `deadline` (`false`).
    #[cfg(not(anthill_loom))]
    #[inline]
    pub fn lock_until(&self, deadline: Instant) -> bool {
        self.try_lock_weak() || self.lock_slow(Some(deadline))
    }

    /// Returns whether a thread holds the lock or is about to take it. The answer may be outdated
    /// when it is returned.
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != FREE // Relaxed: the answer may be outdated, so it orders nothing.
    }

    /// Releases the lock, and wakes a sleeper if there may be one.
    ///
    /// # Safety
    /// The lock is held, and the thread that took it no longer accesses the protected data.
    #[inline]
    pub unsafe fn unlock(&self) {
        // Release pairs with the Acquire of the exchange that takes the lock next: in `try_lock`,
        // `try_lock_weak` or `grab`.
        if self.word.swap(FREE, Release) == CONTENDED {
            self.wake();
        }
    }

    /// May fail although the lock is free.
    #[inline]
    fn try_lock_weak(&self) -> bool {
        // Acquire pairs with the Release in `unlock`.
        self.word
            .compare_exchange_weak(FREE, HELD, Acquire, Relaxed)
            .is_ok()
    }

    #[cold]
    fn wake(&self) {
        self.word.wake_one_fairly(FREE, RESERVED);
    }

    /// Waits for the lock. Returns `false` if the deadline came first.
    #[cold]
    fn lock_slow(&self, deadline: Option<Instant>) -> bool {
        let mut backoff = Backoff::with_yield_rounds(YIELD_ROUNDS);
        let mut woken = false;
        loop {
            if self.grab(woken) {
                return true;
            }
            // Step 1, spin and yield. A model parks at once: whatever other threads do during the
            // spin, they can also do before it.
            if !cfg!(anthill_loom) && backoff.try_snooze() {
                continue;
            }
            // Step 2, mark: from now on unlocking wakes a sleeper.
            let Some(seen) = self.mark() else {
                continue; // The lock has just become free.
            };
            // Step 3, sleep while the mark stays: the wait compares the word again, so an unlock
            // between the mark and the sleep is not missed.
            if !self.word.wait(seen, deadline) {
                return self.grab(woken); // The word stays marked: at worst one needless wake-up.
            }
            woken = true;
            // After a sleep the wait is known to be long, and a yield could cost this thread its
            // reserved turn.
            backoff = Backoff::with_yield_rounds(0);
        }
    }

    /// Takes the lock if it is free, or reserved for a thread that was parked and this thread was
    /// (`woken`).
    fn grab(&self, woken: bool) -> bool {
        // By invariant 2 a woken thread takes the lock as contended: other threads may still sleep.
        let ours = if woken { CONTENDED } else { HELD };
        // Relaxed: only a hint which exchange to try.
        let word = self.word.load(Relaxed);
        let open = word == FREE || (word == RESERVED && woken);
        // Acquire pairs with the Release in `unlock`.
        open && self
            .word
            .compare_exchange(word, ours, Acquire, Relaxed)
            .is_ok()
    }

    /// Marks the word as contended, so that unlocking wakes a parked thread. Returns the word to
    /// park on, or `None` if the thread must not park.
    fn mark(&self) -> Option<u32> {
        // Relaxed: the mark carries no data. Only unlocking and locking order memory.
        match self.word.load(Relaxed) {
            FREE => None,
            HELD => {
                let marked = self
                    .word
                    .compare_exchange(HELD, CONTENDED, Relaxed, Relaxed);
                marked.is_ok().then_some(CONTENDED)
            }
            // Contended: already marked. Reserved: it will be taken as contended.
            marked => Some(marked),
        }
    }
}

impl Default for RawSpinLock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RawSpinLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawSpinLock")
            .field("locked", &self.is_locked())
            .finish()
    }
}
