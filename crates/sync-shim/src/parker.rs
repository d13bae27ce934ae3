//! One thread's place to sleep.
//!
//! Not for: handing data over. A wake-up is a token; what it is about lies elsewhere, under the
//! caller's lock or in the caller's atomics.
//!
//! # Invariants
//! 1. At most one thread parks on a parker at a time: its owner.
//! 2. A token once given is found by the present park or the next one, never lost. Two tokens
//!    given before one is found are one.
//!
//! # Memory orderings
//! `unpark` releases, finding the token acquires.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use crate::Futex;
use crate::atomic::Ordering::{Acquire, Relaxed, Release};

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
/// A token lies here.
const TOKEN: u32 = 2;
/// A manual clock has moved: look at the time again. Weaker than a token, which overwrites it.
const POKED: u32 = 3;

/// A token and a place to wait for it; clones are the same place.
///
/// Any thread may [`unpark`](Parker::unpark) through a clone. Costs one atomic exchange when
/// no thread sleeps, one system call when one does.
#[derive(Clone, Debug)]
pub struct Parker(Arc<Futex>);

/// Why a single sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Token,
    /// To look again: something may have changed.
    Poked,
    TimedOut,
}

impl Parker {
    /// A parker without a token.
    pub fn new() -> Self {
        Self(Arc::new(Futex::new(EMPTY)))
    }

    /// Borrows the calling thread's cached parker for one wait. See [`ThreadParker`].
    pub fn of_thread() -> ThreadParker {
        ThreadParker(crate::statics::take_thread_parker().unwrap_or_default())
    }

    /// Blocks until the token is there, and takes it.
    pub fn park(&self) {
        while self.sleep(None) != Woken::Token {}
    }

    /// Blocks until the token is there (and takes it: `true`) or real time reaches `when`.
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

    /// Takes the token if it is there. Never blocks.
    pub fn take_token(&self) -> bool {
        // Acquire pairs with the Release in `unpark`; without a token nothing is read.
        self.0
            .compare_exchange(TOKEN, EMPTY, Acquire, Relaxed)
            .is_ok()
    }

    /// Gives the token and wakes the owner if it sleeps.
    pub fn unpark(&self) {
        self.unpark_sleeper();
    }

    /// As [`unpark`](Self::unpark). Returns whether the owner slept.
    pub fn unpark_sleeper(&self) -> bool {
        // The token first, over any state, then the wake-up: an owner that is about to sleep finds
        // the word changed. Release pairs with the Acquire in `sleep` and `take_token`.
        let slept = self.0.swap(TOKEN, Release) == PARKED;
        if slept {
            self.0.wake_one();
        }
        slept
    }

    /// Makes the owner's present or next sleep end without a token.
    pub(crate) fn poke(&self) {
        // Relaxed: it says "look again", and what there is to see lies under the clock's lock.
        let poked = self.0.fetch_update(Relaxed, Relaxed, |state| {
            (state == EMPTY || state == PARKED).then_some(POKED)
        });
        if poked == Ok(PARKED) {
            self.0.wake_one();
        }
    }

    /// One sleep.
    pub(crate) fn sleep(&self, deadline: Option<Instant>) -> Woken {
        // Announces the sleep. A token that comes between this and the wait makes the wait return
        // at once, because it sleeps only while the word is `PARKED`. Relaxed: whatever is found
        // here is collected below.
        let in_time = match self.0.compare_exchange(EMPTY, PARKED, Relaxed, Relaxed) {
            Ok(_) => self.0.wait(PARKED, deadline),
            Err(found) => {
                debug_assert_ne!(found, PARKED, "two threads park on one parker");
                true
            }
        };
        // Takes what lies there and leaves the parker empty. Acquire pairs with the Release in
        // `unpark`.
        match self.0.swap(EMPTY, Acquire) {
            TOKEN => Woken::Token,
            PARKED if !in_time => Woken::TimedOut,
            _ => Woken::Poked, // Or woken for no reason, which comes to the same.
        }
    }
}

/// The calling thread's parker, borrowed for one wait and put back for the next when dropped.
///
/// A wait that begins while another one of the same thread has borrowed it (user code that runs
/// between the enrolment and the park may wait itself) gets a fresh parker. So no wait takes a
/// token that was given to another one.
///
/// An earlier wait may have left a token behind (one that came after its time-out), so a caller
/// looks at its own condition again after each wake-up.
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
