//! The place where one thread sleeps.
//!
//! Not for: handing over data. A wake-up is a token; the data that it announces are under the
//! caller's lock or in the caller's atomics.
//!
//! # Invariants
//! 1. At most one thread parks on a parker at a time: its owner.
//! 2. A token is found by the current park or by the next one, never lost. Two tokens given before
//!    one is found count as one.
//!
//! # Memory orderings
//! `unpark` releases, finding the token acquires.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use crate::Futex;
use crate::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::thread::Stamp;

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
/// A token is available.
const TOKEN: u32 = 2;
/// A manual clock has advanced: the owner must read the time again. Weaker than a token, which
/// overwrites it.
const POKED: u32 = 3;

/// A token and a place to wait for it. Clones refer to the same parker.
///
/// Any thread may [`unpark`](Parker::unpark) through a clone. Costs one atomic exchange when
/// no thread sleeps, one system call when one does.
#[derive(Clone, Debug)]
pub struct Parker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    word: Futex,
    /// When the owner was last woken from a sleep.
    woken: Stamp,
}

impl Deref for Inner {
    type Target = Futex;

    fn deref(&self) -> &Futex {
        &self.word
    }
}

/// Why a single sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Token,
    /// The owner must check its condition again.
    Poked,
    TimedOut,
}

impl Parker {
    /// Creates a parker without a token.
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            word: Futex::new(EMPTY),
            woken: Stamp::new(),
        }))
    }

    /// Borrows the calling thread's cached parker for one wait (see [`ThreadParker`]).
    pub fn of_thread() -> ThreadParker {
        ThreadParker(crate::statics::take_thread_parker().unwrap_or_default())
    }

    /// Blocks until a token is available, and takes it.
    pub fn park(&self) {
        while self.sleep(None) != Woken::Token {}
    }

    /// Blocks until a token is available and takes it (`true`), or until real time reaches `when`
    /// (`false`).
    ///
    /// Semantic time goes through [`Clock::park_until`](crate::Clock::park_until) instead.
    pub fn park_until_real(&self, when: Instant) -> bool {
        loop {
            match self.sleep(Some(when)) {
                Woken::Token => return true,
                Woken::TimedOut => return false,
                Woken::Poked => {}
            }
        }
    }

    /// Takes the token if there is one. Never blocks.
    pub fn take_token(&self) -> bool {
        // Acquire pairs with the Release in `unpark`; without a token no data are read.
        self.0
            .compare_exchange(TOKEN, EMPTY, Acquire, Relaxed)
            .is_ok()
    }

    /// Gives a token, and wakes the owner if it sleeps.
    pub fn unpark(&self) {
        // First the token, over any state, then the wake-up: an owner that is about to sleep finds
        // the word changed. Release pairs with the Acquire in `sleep` and `take_token`.
        if self.0.swap(TOKEN, Release) == PARKED {
            self.0.woken.set(); // A fiftieth of the system call.
            self.0.wake_one();
        }
    }

    /// When the owner was last woken from a sleep, in the machine's [`nanos`](crate::thread::nanos). From this the owner
    /// learns how long wake-ups take. 0 in a model.
    pub fn woken_at(&self) -> u64 {
        self.0.woken.get()
    }

    /// Ends the owner's current or next sleep without a token.
    pub(crate) fn poke(&self) {
        // Relaxed: a poke only says "look again"; the time that changed is under the clock's lock.
        let poked = self.0.fetch_update(Relaxed, Relaxed, |state| {
            (state == EMPTY || state == PARKED).then_some(POKED)
        });
        if poked == Ok(PARKED) {
            self.0.wake_one();
        }
    }

    pub(crate) fn sleep(&self, deadline: Option<Instant>) -> Woken {
        // Announces the sleep. If a token comes between this exchange and the wait, the wait
        // returns at once, because it sleeps only while the word is `PARKED`. Relaxed: the swap
        // below acquires.
        let in_time = match self.0.compare_exchange(EMPTY, PARKED, Relaxed, Relaxed) {
            Ok(_) => self.0.wait(PARKED, deadline),
            Err(found) => {
                debug_assert_ne!(found, PARKED, "two threads park on one parker");
                true
            }
        };
        // Takes the token or poke and leaves the parker empty. Acquire pairs with the Release in
        // `unpark`.
        match self.0.swap(EMPTY, Acquire) {
            TOKEN => Woken::Token,
            PARKED if !in_time => Woken::TimedOut,
            _ => Woken::Poked, // Or a spurious wake-up, which is handled alike.
        }
    }
}

/// The calling thread's parker, borrowed for one wait and returned for the next one when dropped.
///
/// User code that runs between enrolling and parking may itself wait. That nested wait gets a fresh
/// parker, so that no wait takes a token that was given to another.
///
/// An earlier wait may have left a token behind (given after its time-out), so a caller must check
/// its condition again after each wake-up.
#[derive(Debug)]
#[must_use = "dropping it gives the parker back, and the next wait shares it"]
pub struct ThreadParker(Parker);

impl Deref for ThreadParker {
    type Target = Parker;

    fn deref(&self) -> &Parker {
        &self.0
    }
}

impl Drop for ThreadParker {
    fn drop(&mut self) {
        crate::statics::put_thread_parker(&self.0);
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}
