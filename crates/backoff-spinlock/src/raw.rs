//! The lock without its data: one word.
//!
//! Not for: protecting anything by itself; see [`SpinLock`](crate::SpinLock).
//!
//! # Words
//! The word is *free*, *held* or *reserved* (free, but only for a waiter that has slept). Beside it
//! lies the *mark*: somebody may sleep. `README.md` beside this crate tells how the parties use
//! them, and why no sleeper is forgotten.
//!
//! # What always holds
//! 1. Who writes *held* over *free* or *reserved* has the lock, until it writes *free*.
//! 2. While somebody sleeps, the lock is marked, or who took the mark off is about to wake one, or
//!    a woken thread is on its way. That one leaves the lock only marked: so it never takes a
//!    wake-up with it that others need.
//!
//! # Memory orderings
//! Unlocking releases, every exchange that gets the lock acquires. The mark carries no data; that
//! an unlocking and a marking do not miss each other is the pair of fences' doing.

use std::fmt;
use std::time::Instant;

use sync_shim::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use sync_shim::thread::yield_now;
use sync_shim::{Futex, Slept, fence};

use crate::Backoff;

const FREE: u32 = 0;
const HELD: u32 = 1;
const RESERVED: u32 = 2;

/// Rounds of yields before the first sleep. Measured: more rounds run faster and share worse.
const YIELD_ROUNDS: u32 = 3;

/// A lock that spins for a moment, yields a little, then sleeps.
///
/// Through `lock_api` (`lock_api::Mutex<RawSpinLock, T>`, [`SpinMutex`](crate::SpinMutex)) it
/// protects data on the machine; [`SpinLock`](crate::SpinLock) does so in models too.
///
/// Locking costs one exchange and unlocking a store while nobody else wants the lock. A thread that
/// waits sleeps after about seven yields, or none where yields take long, so any number of them
/// cost no processor time. Running
/// threads may pass a sleeping one, but about every half millisecond a sleeper's turn is reserved
/// for it (`parking_lot`'s eventual fairness).
pub struct RawSpinLock {
    word: Futex,
    marked: AtomicBool,
}

impl RawSpinLock {
    /// A free lock.
    #[cfg(not(anthill_loom))]
    pub const fn new() -> Self {
        Self {
            word: Futex::new(FREE),
            marked: AtomicBool::new(false),
        }
    }

    /// A free lock.
    #[cfg(anthill_loom)]
    pub fn new() -> Self {
        Self {
            word: Futex::new(FREE),
            marked: AtomicBool::new(false),
        }
    }

    /// Blocks until the lock is ours. Not re-entrant: a thread that has it waits for ever.
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

    /// Blocks until the lock is ours (`true`) or real time reaches `deadline` (`false`).
    #[cfg(not(anthill_loom))]
    #[inline]
    pub fn lock_until(&self, deadline: Instant) -> bool {
        self.try_lock_weak() || self.lock_slow(Some(deadline))
    }

    /// Whether somebody has the lock, or is about to. True or not by the time it is known.
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != FREE // An answer of no lasting truth orders nothing.
    }

    /// Gives the lock up, and wakes a sleeper if there may be one.
    ///
    /// # Safety
    /// The lock is held, and whoever took it is done with what it protects.
    #[inline]
    pub unsafe fn unlock(&self) {
        // Release pairs with the Acquire of whoever gets the lock next.
        self.word.store(FREE, Release);
        // Pairs with the heavy half in `mark`: the mark is seen here, or the free word there.
        fence::light();
        if self.marked.load(Relaxed) {
            self.wake();
        }
    }

    /// The lock's first try: may fail without a reason.
    #[inline]
    fn try_lock_weak(&self) -> bool {
        // Acquire pairs with the Release in `unlock`.
        self.word
            .compare_exchange_weak(FREE, HELD, Acquire, Relaxed)
            .is_ok()
    }

    #[cold]
    fn wake(&self) {
        // One mark, one wake-up: whoever takes it off wakes somebody, if anybody sleeps.
        let taken = self.marked.compare_exchange(true, false, Relaxed, Relaxed);
        if taken.is_ok() {
            self.word.wake_one_fairly(FREE, RESERVED);
        }
    }

    /// Waits for the lock; `false` if the deadline came first.
    #[cold]
    fn lock_slow(&self, deadline: Option<Instant>) -> bool {
        let mut backoff = Backoff::with_yield_rounds(YIELD_ROUNDS);
        let mut woken = false;
        loop {
            if self.grab(woken) {
                return true;
            }
            // A model goes straight to sleep: what others do meanwhile they can do before.
            if !cfg!(anthill_loom) && backoff.try_snooze() {
                continue;
            }
            if !self.mark() {
                yield_now(); // Without the fence a sleep could last for ever.
                continue;
            }
            match self.word.sleep_if(|| self.is_to_wait(woken), deadline) {
                Slept::Refused => {}
                // The lock stays marked: at worst a wake-up too many.
                Slept::TimedOut => return self.grab(woken),
                Slept::Woken => {
                    woken = true;
                    // Now it knows how long waits are, and a yield could cost it its turn.
                    backoff = Backoff::with_yield_rounds(0);
                }
            }
        }
    }

    /// Takes the lock if it is there for us: free, or reserved for those who have slept.
    fn grab(&self, woken: bool) -> bool {
        // Relaxed: only a hint of what to try.
        let word = self.word.load(Relaxed);
        // Acquire pairs with the Release in `unlock`.
        let got = is_open(word, woken)
            && self
                .word
                .compare_exchange(word, HELD, Acquire, Relaxed)
                .is_ok();
        if got && woken {
            // By invariant 2. Our own unlocking comes later, and sees it without a fence.
            self.marked.store(true, Relaxed);
        }
        got
    }

    /// Marks the lock, so that an unlocking from here on sees it. `false`: one may not.
    fn mark(&self) -> bool {
        self.marked.store(true, Relaxed); // The fence orders it.
        fence::heavy()
    }

    /// Whether to sleep. Under the lock of the table of sleepers: a mark that is still there is
    /// one whose taker has not come to wake us yet.
    fn is_to_wait(&self, woken: bool) -> bool {
        // Relaxed: the fence in `mark` and the table's lock order these.
        self.marked.load(Relaxed) && !is_open(self.word.load(Relaxed), woken)
    }
}

fn is_open(word: u32, woken: bool) -> bool {
    word == FREE || (word == RESERVED && woken)
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
