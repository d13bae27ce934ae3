//! A word that threads can wait on.
//!
//! Not for: ordering memory. Waiting and waking do not synchronize; the accesses to the word
//! through [`Deref`](std::ops::Deref) do.
//!
//! # Invariants
//! 1. A thread sleeps only if it entered the sleepers while the word was the expected one. So a thread that
//!    changes the word and then wakes misses no sleeper.
//! 2. No state outside of the word and its sleepers takes part. So in a forked child, the words that the
//!    child makes have no waiters of the parent.

use std::ops::Deref;
use std::time::Instant;

use crate::atomic::AtomicU32;
use crate::atomic::Ordering::Relaxed;

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    not(miri),
    not(anthill_loom)
)))]
use portable::Sleepers;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    not(miri),
    not(anthill_loom)
))]
use system::Sleepers;

/// An `AtomicU32` with the two futex operations.
///
/// On 64-bit Linux these are the system's. Elsewhere, and in models, the sleepers are counted under a lock.
#[derive(Debug)]
pub struct Futex {
    word: AtomicU32,
    sleepers: Sleepers,
}

impl Deref for Futex {
    type Target = AtomicU32;
    #[inline]
    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

impl Futex {
    /// Creates a word without waiters.
    #[cfg(not(anthill_loom))]
    pub const fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            sleepers: Sleepers::new(),
        }
    }

    /// Creates a word without waiters.
    #[cfg(anthill_loom)]
    pub fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            sleepers: Sleepers::new(),
        }
    }

    /// Sleeps while the word is `expected`, until a wake-up or the deadline. Returns `false` only
    /// if the deadline has passed. May return early without a reason.
    ///
    /// # Panics
    /// In a model, if there is a deadline: it has only those of a [`ManualClock`](crate::ManualClock).
    pub fn wait(&self, expected: u32, deadline: Option<Instant>) -> bool {
        self.sleepers.wait(&self.word, expected, deadline)
    }

    /// Wakes one sleeper. The caller must have changed the word before.
    pub fn wake_one(&self) {
        self.sleepers.wake_one(&self.word);
    }

    /// Like [`wake_one`](Self::wake_one), but about every half millisecond reserves the next turn
    /// for the woken thread: the word changes from `open` to `reserved` before the sleeper can run.
    ///
    /// Without a sleeper, the word may be reserved for a moment. A thread that sees it may sleep: it is woken.
    ///
    /// The interval is that of `parking_lot`'s eventual fairness: rare enough to cost nothing.
    /// Without it running threads could keep a sleeper out indefinitely.
    pub fn wake_one_fairly(&self, open: u32, reserved: u32) {
        // Relaxed, here and below: this only renames a state that its last writer published, and an exchange
        // continues that release sequence. If it fails, another thread took the word first.
        let rename = |from, to| {
            let renamed = self.word.compare_exchange(from, to, Relaxed, Relaxed);
            renamed.is_ok()
        };
        let is_reserved = self.sleepers.is_turn_due(&self.word) && rename(open, reserved);
        let has_woken = self.sleepers.wake_one(&self.word);
        // A reservation without a thread would keep all others out. If a thread has taken it in the meantime, that
        // thread wakes the next one.
        if is_reserved && !has_woken && rename(reserved, open) {
            // A thread that fell asleep since the wake-up waits for a change of `reserved`.
            self.sleepers.wake_one(&self.word);
        }
    }
}

/// The system's futex, which identifies the sleepers by the word's address.
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    not(miri),
    not(anthill_loom)
))]
mod system {
    use std::io;
    use std::ptr;
    use std::time::Instant;

    use crate::atomic::AtomicU32;

    /// The kernel has them.
    #[derive(Debug)]
    pub(super) struct Sleepers;

    impl Sleepers {
        pub(super) const fn new() -> Self {
            Self
        }

        #[expect(clippy::unused_self, reason = "the kernel has the sleepers")]
        pub(super) fn wait(
            &self,
            word: &AtomicU32,
            expected: u32,
            deadline: Option<Instant>,
        ) -> bool {
            let left = deadline.map(|when| when.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            let timeout = left.map(|left| libc::timespec {
                tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: left.subsec_nanos().into(),
            });
            let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
            // SAFETY: the word and the timeout, if there is one, outlive the call, which only reads them.
            let slept = unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    expected,
                    timeout,
                )
            };
            let is_late =
                slept != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT);
            !(is_late && deadline.is_some_and(|when| Instant::now() >= when))
        }

        /// Returns whether there was a sleeper.
        #[expect(clippy::unused_self, reason = "the kernel has the sleepers")]
        pub(super) fn wake_one(&self, word: &AtomicU32) -> bool {
            const ONE: libc::c_int = 1;
            // SAFETY: the call uses the word's address as a name, and does not access it.
            let woken = unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    ONE,
                )
            };
            woken > 0
        }

        #[expect(clippy::unused_self, reason = "the times are shared")]
        pub(super) fn is_turn_due(&self, word: &AtomicU32) -> bool {
            super::fair::is_turn_due(word)
        }
    }
}

/// Sleepers under a lock.
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    not(miri),
    not(anthill_loom)
)))]
mod portable {
    use std::time::Instant;

    use crate::atomic::AtomicU32;
    use crate::atomic::Ordering::Relaxed;
    use crate::{Condvar, Mutex};

    #[derive(Debug)]
    pub(super) struct Sleepers {
        state: Mutex<State>,
        changed: Condvar,
        #[cfg(all(anthill_loom, not(anthill_shuttle)))]
        fair: bool,
    }

    #[derive(Debug)]
    struct State {
        /// Threads that sleep and for which there is no wake-up.
        asleep: usize,
        /// Wake-ups that no thread has taken.
        wakes: usize,
    }

    const NONE: State = State {
        asleep: 0,
        wakes: 0,
    };

    impl Sleepers {
        #[cfg(not(anthill_loom))]
        pub(super) const fn new() -> Self {
            Self {
                state: Mutex::new(NONE),
                changed: Condvar::new(),
            }
        }

        #[cfg(anthill_loom)]
        pub(super) fn new() -> Self {
            Self {
                state: Mutex::new(NONE),
                changed: Condvar::new(),
                #[cfg(not(anthill_shuttle))]
                fair: crate::model::fair_wakes(),
            }
        }

        pub(super) fn wait(
            &self,
            word: &AtomicU32,
            expected: u32,
            deadline: Option<Instant>,
        ) -> bool {
            let mut state = self.state.lock();
            // Relaxed: the lock orders this test before or after the waker's section.
            if word.load(Relaxed) != expected {
                return true;
            }
            state.asleep += 1;
            loop {
                #[cfg(not(anthill_loom))]
                let is_late = match deadline {
                    Some(when) => {
                        self.changed.wait_until(&mut state, when);
                        Instant::now() >= when
                    }
                    None => {
                        self.changed.wait(&mut state);
                        false
                    }
                };
                #[cfg(anthill_loom)]
                let is_late = {
                    assert!(deadline.is_none(), "a model waits through a ManualClock");
                    self.changed.wait(&mut state);
                    false
                };
                if state.wakes > 0 {
                    state.wakes -= 1;
                    return true;
                }
                if is_late {
                    state.asleep -= 1;
                    return false;
                }
            }
        }

        /// Returns whether there was a sleeper.
        pub(super) fn wake_one(&self, _: &AtomicU32) -> bool {
            let mut state = self.state.lock();
            let has_sleeper = state.asleep > 0;
            if has_sleeper {
                state.asleep -= 1;
                state.wakes += 1;
                self.changed.notify_one();
            }
            has_sleeper
        }

        /// As the model has chosen, always or never; at random in a random schedule.
        #[cfg(anthill_loom)]
        #[cfg_attr(
            anthill_shuttle,
            expect(clippy::unused_self, reason = "a schedule is random")
        )]
        pub(super) fn is_turn_due(&self, _: &AtomicU32) -> bool {
            #[cfg(anthill_shuttle)]
            return crate::model::coin();
            #[cfg(not(anthill_shuttle))]
            self.fair
        }

        #[cfg(not(anthill_loom))]
        #[expect(clippy::unused_self, reason = "the times are shared")]
        pub(super) fn is_turn_due(&self, word: &AtomicU32) -> bool {
            super::fair::is_turn_due(word)
        }
    }
}

/// Times of fair wake-ups.
#[cfg(not(anthill_loom))]
mod fair {
    use crate::atomic::Ordering::Relaxed;
    use crate::atomic::{AtomicU32, AtomicU64};

    /// For words by their addresses. Relaxed, and updates may be lost: a heuristic.
    static NEXT: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
    /// Twice the mean interval, in nanoseconds.
    const LONGEST_INTERVAL: u64 = 1_000_000;

    pub(super) fn is_turn_due(word: &AtomicU32) -> bool {
        let next = &NEXT[word.as_ptr().addr() / size_of::<AtomicU64>() % NEXT.len()];
        let now = crate::yielding::nanos();
        let is_due = now >= next.load(Relaxed);
        if is_due {
            // The low digits of the time are as good as random.
            next.store(now + now % LONGEST_INTERVAL, Relaxed);
        }
        is_due
    }
}
