//! A word that threads can wait on.
//!
//! Not for: ordering memory. Waiting and waking order nothing by themselves; the accesses to the
//! word through [`Deref`](std::ops::Deref) do.

use std::ops::Deref;
use std::time::Instant;

use crate::atomic::AtomicU32;

/// An `AtomicU32` with the two futex operations.
///
/// On the machine it is the address-keyed waiting table of `parking_lot_core` (an idea of Linux's
/// futex and `WebKit`'s `ParkingLot`): no system call unless somebody sleeps, works on every
/// platform that has threads, and costs nothing beside the word.
#[derive(Debug)]
pub struct Futex {
    word: AtomicU32,
    #[cfg(anthill_loom)]
    sleepers: (crate::Mutex<()>, crate::Condvar),
}

impl Deref for Futex {
    type Target = AtomicU32;
    #[inline]
    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

#[cfg(not(anthill_loom))]
impl Futex {
    /// A word that nobody waits on.
    pub const fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
        }
    }

    /// Sleeps while the word is `expected`, until a wake-up or the deadline. `false` only if the
    /// deadline ended it. May return early for no reason.
    pub fn wait(&self, expected: u32, deadline: Option<Instant>) -> bool {
        use crate::atomic::Ordering::Relaxed;
        use parking_lot_core::{DEFAULT_PARK_TOKEN, ParkResult, park};
        // Relaxed: the table's own lock orders this test against the waker's walk, and the
        // caller's accesses to the word carry whatever else must be seen.
        let unchanged = || self.word.load(Relaxed) == expected;
        // SAFETY: the key is the address of a word we own for as long as `self` is borrowed, and
        // neither closure panics or calls into the table.
        let result = unsafe {
            park(
                self.key(),
                unchanged,
                || {},
                |_, _| {},
                DEFAULT_PARK_TOKEN,
                deadline,
            )
        };
        result != ParkResult::TimedOut
    }

    /// Wakes one sleeper. The caller has changed the word before.
    pub fn wake_one(&self) {
        use parking_lot_core::{DEFAULT_UNPARK_TOKEN, unpark_one};
        // SAFETY: the key is the address of our own word, and the closure does not panic or call
        // into the table.
        unsafe { unpark_one(self.key(), |_| DEFAULT_UNPARK_TOKEN) };
    }

    fn key(&self) -> usize {
        (&raw const self.word).addr()
    }
}

#[cfg(anthill_loom)]
impl Futex {
    /// A word that nobody waits on.
    pub fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            sleepers: (crate::Mutex::new(()), crate::Condvar::new()),
        }
    }

    /// Sleeps while the word is `expected`, until a wake-up. A model has no deadlines here.
    pub fn wait(&self, expected: u32, deadline: Option<Instant>) -> bool {
        assert!(deadline.is_none(), "a model waits through a ManualClock");
        let mut asleep = self.sleepers.0.lock();
        // Relaxed, as on the machine: the sleepers' lock orders this test.
        if self.word.load(crate::atomic::Ordering::Relaxed) == expected {
            self.sleepers.1.wait(&mut asleep);
        }
        true
    }

    /// Wakes one sleeper.
    pub fn wake_one(&self) {
        let _asleep = self.sleepers.0.lock();
        self.sleepers.1.notify_one();
    }
}
