//! A word that threads can wait on.
//!
//! Not for: ordering memory. Waiting and waking do not synchronize; the accesses to the word
//! through [`Deref`](std::ops::Deref) do.

use std::ops::Deref;
use std::time::Instant;

use crate::atomic::AtomicU32;

/// An `AtomicU32` with the two futex operations.
///
/// On the machine it uses the address-keyed table of waiting threads of `parking_lot_core` (an idea
/// of Linux's futex and `WebKit`'s `ParkingLot`): no system call unless a thread sleeps, works on
/// every platform that has threads, and needs no memory but the word.
#[derive(Debug)]
pub struct Futex {
    word: AtomicU32,
    /// Number of sleeping threads, and the condition that they sleep on.
    #[cfg(anthill_loom)]
    sleepers: (crate::Mutex<usize>, crate::Condvar),
    #[cfg(all(anthill_loom, not(anthill_shuttle)))]
    fair: bool,
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
    /// Creates a word without waiters.
    pub const fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
        }
    }

    /// Sleeps while the word is `expected`, until a wake-up or the deadline. Returns `false` only
    /// if the deadline has passed. May return early without a reason.
    pub fn wait(&self, expected: u32, deadline: Option<Instant>) -> bool {
        use crate::atomic::Ordering::Relaxed;
        use parking_lot_core::{DEFAULT_PARK_TOKEN, ParkResult, park};
        // Relaxed: the table's own lock orders this test before or after the waker's walk, and the
        // caller's accesses to the word synchronize everything else.
        let unchanged = || self.word.load(Relaxed) == expected;
        // SAFETY: the key is the address of a word that this futex owns while `self` is borrowed,
        // and neither closure panics or calls into the table.
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

    /// Wakes one sleeper. The caller must have changed the word before.
    pub fn wake_one(&self) {
        use parking_lot_core::{DEFAULT_UNPARK_TOKEN, unpark_one};
        // SAFETY: the key is the address of this futex's own word, and the closure does not panic or call
        // into the table.
        unsafe { unpark_one(self.key(), |_| DEFAULT_UNPARK_TOKEN) };
    }

    /// Like [`wake_one`](Self::wake_one), but about every half millisecond reserves the next turn
    /// for the woken thread: the word changes from `open` to `reserved` before the sleeper can run.
    ///
    /// The interval is that of `parking_lot`'s eventual fairness: rare enough to cost nothing.
    /// Without it running threads could keep a sleeper out indefinitely.
    pub fn wake_one_fairly(&self, open: u32, reserved: u32) {
        use crate::atomic::Ordering::Relaxed;
        use parking_lot_core::{DEFAULT_UNPARK_TOKEN, UnparkResult, unpark_one};
        let reserve = |woken: UnparkResult| {
            // Without a sleeper there is no turn to reserve: then `be_fair` is false.
            if woken.be_fair {
                // Relaxed: this only renames a state that its last writer published, and an
                // exchange continues that release sequence. If it fails, another thread took the
                // word first.
                let _ = self.word.compare_exchange(open, reserved, Relaxed, Relaxed);
            }
            DEFAULT_UNPARK_TOKEN
        };
        // SAFETY: the key is the address of this futex's own word, and the closure does not panic or call
        // into the table.
        unsafe { unpark_one(self.key(), reserve) };
    }

    fn key(&self) -> usize {
        (&raw const self.word).addr()
    }
}

#[cfg(anthill_loom)]
impl Futex {
    /// Creates a word without waiters.
    pub fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            sleepers: (crate::Mutex::new(0), crate::Condvar::new()),
            #[cfg(not(anthill_shuttle))]
            fair: crate::model::fair_wakes(),
        }
    }

    /// Sleeps while the word is `expected`, until a wake-up.
    ///
    /// # Panics
    /// If there is a deadline: a model has only the deadlines of a
    /// [`ManualClock`](crate::ManualClock).
    pub fn wait(&self, expected: u32, deadline: Option<Instant>) -> bool {
        assert!(deadline.is_none(), "a model waits through a ManualClock");
        let mut asleep = self.sleepers.0.lock();
        // Relaxed, as on the machine: the lock of `sleepers` orders this test.
        if self.word.load(crate::atomic::Ordering::Relaxed) == expected {
            *asleep += 1;
            self.sleepers.1.wait(&mut asleep);
        }
        true
    }

    /// Wakes one sleeper.
    pub fn wake_one(&self) {
        self.wake(None);
    }

    /// Like [`wake_one`](Self::wake_one). Reserves the word for the sleeper always or never, as the
    /// model has chosen, and at random in a random schedule.
    pub fn wake_one_fairly(&self, open: u32, reserved: u32) {
        #[cfg(anthill_shuttle)]
        let fair = crate::model::coin();
        #[cfg(not(anthill_shuttle))]
        let fair = self.fair;
        self.wake(fair.then_some((open, reserved)));
    }

    fn wake(&self, turn: Option<(u32, u32)>) {
        use crate::atomic::Ordering::Relaxed;
        let mut asleep = self.sleepers.0.lock();
        if *asleep == 0 {
            return;
        }
        *asleep -= 1;
        if let Some((open, reserved)) = turn {
            let _ = self.word.compare_exchange(open, reserved, Relaxed, Relaxed);
        }
        self.sleepers.1.notify_one();
    }
}
