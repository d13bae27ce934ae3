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
/// futex and `WebKit`'s `ParkingLot`): no system call unless a thread sleeps, works on every
/// platform that has threads, and costs nothing beside the word.
#[derive(Debug)]
pub struct Futex {
    word: AtomicU32,
    /// How many sleep, and where.
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
    /// A word without waiters.
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
        // SAFETY: the key is the address of this futex's own word, and the closure does not panic or call
        // into the table.
        unsafe { unpark_one(self.key(), |_| DEFAULT_UNPARK_TOKEN) };
    }

    /// [`wake_one`](Self::wake_one), which every half millisecond or so lets the sleeper have its
    /// turn: the word becomes `reserved`, if it still is `open`, before the sleeper can run.
    ///
    /// The rhythm is `parking_lot`'s eventual fairness: rare enough to cost nothing, and without
    /// it a sleeper can lose the word to running threads for as long as they like.
    pub fn wake_one_fairly(&self, open: u32, reserved: u32) {
        use crate::atomic::Ordering::Relaxed;
        use parking_lot_core::{DEFAULT_UNPARK_TOKEN, UnparkResult, unpark_one};
        let reserve = |woken: UnparkResult| {
            // Without a sleeper there is no turn to have: `be_fair` is false then.
            if woken.be_fair {
                // Relaxed: it only changes the name of a state that its last writer published,
                // and an exchange carries that publication on. A failure leaves the word to
                // the thread that was quicker.
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
    /// A word without waiters.
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
    /// If there is a deadline: a model has none but those of a [`ManualClock`](crate::ManualClock).
    pub fn wait(&self, expected: u32, deadline: Option<Instant>) -> bool {
        assert!(deadline.is_none(), "a model waits through a ManualClock");
        let mut asleep = self.sleepers.0.lock();
        // Relaxed, as on the machine: the sleepers' lock orders this test.
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

    /// [`wake_one`](Self::wake_one), which reserves the word for the sleeper always or never, as
    /// the model has chosen; now and then in a random schedule.
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
