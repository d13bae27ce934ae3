//! A mailbox of one word: the minimum of a hand-off between two threads.
//!
//! It has no queue, no errors, no shutdown and one kind of task. Where it is faster than a pool,
//! the difference is the cost of the pool's guarantees.
//!
//! Its threads wait like those of the pool, so that the comparison shows the protocols and not
//! the waits: as many checks and yields for either side as in
//! `crates/pool-core/src/sched/spin.rs`, without yields while other threads compute, and then a
//! sleep.
//!
//! # Invariants
//! 1. A sender changes the word to `TASK` only if it is `READY`, so a task never waits for
//!    another.
//! 2. Only the owner changes it to `READY`, after the task has ended.
//! 3. A thread marks the word before it sleeps, and a thread that changes a marked word wakes
//!    all.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire},
};
use std::thread;

use atomic_wait::{wait, wake_all};
use sync_shim::thread::{spin_loop, yield_briefly};

const READY: u32 = 0;
const TASK: u32 = 1;
/// Flag of the word, set by threads before they sleep on it.
const ASLEEP: u32 = 2;

/// The checks before a sleep: first in a row, then with yields between.
#[derive(Clone, Copy)]
struct Effort {
    spins: u32,
    yields: u32,
}

/// The owner that waits for a task, like a worker of the pool without one.
const OWNER: Effort = Effort {
    spins: 16,
    yields: 16,
};

/// A sender that waits for the owner, like a submitter at a full pool.
const SENDER: Effort = Effort {
    spins: 8,
    yields: 16,
};

/// A mailbox, described in the module's documentation.
#[repr(align(128))]
pub struct Mailbox(AtomicU32);

impl Mailbox {
    /// Creates a mailbox and the thread that owns it, which calls `body` for each task.
    pub fn start(body: impl Fn() + Send + 'static) -> Arc<Self> {
        let mailbox = Arc::new(Self(AtomicU32::new(READY)));
        let owned = Arc::clone(&mailbox);
        thread::spawn(move || {
            loop {
                owned.wait_until(TASK, OWNER);
                body();
                owned.put(READY);
            }
        });
        mailbox
    }

    /// Hands over a task as soon as the owner is free.
    #[inline]
    pub fn send(&self) {
        self.send_with(|| ());
    }

    /// The same, and calls `leave` before, when the owner has completed all earlier tasks. If
    /// several threads send, it may be called more than once.
    #[inline]
    pub fn send_with(&self, mut leave: impl FnMut()) {
        loop {
            let word = self.wait_until(READY, SENDER);
            leave();
            // Pairs with the owner's exchange, as the other exchanges do.
            let put = self.0.compare_exchange(word, TASK, AcqRel, Acquire);
            if put.is_ok() {
                if word & ASLEEP != 0 {
                    wake_all(&raw const self.0);
                }
                return;
            }
        }
    }

    fn put(&self, state: u32) {
        if self.0.swap(state, AcqRel) & ASLEEP != 0 {
            wake_all(&raw const self.0);
        }
    }

    /// Waits for this state, and returns the word.
    #[inline]
    fn wait_until(&self, state: u32, effort: Effort) -> u32 {
        for _ in 0..effort.spins {
            if let Some(word) = self.look(state) {
                return word;
            }
            spin_loop();
        }
        for _ in 0..effort.yields {
            if let Some(word) = self.look(state) {
                return word;
            }
            if !yield_briefly(1) {
                break;
            }
        }
        self.sleep_until(state)
    }

    /// Returns the word if it is in this state.
    #[inline]
    fn look(&self, state: u32) -> Option<u32> {
        let word = self.0.load(Acquire); // Pairs with the exchange that wrote the state.
        (word & !ASLEEP == state).then_some(word)
    }

    #[cold]
    fn sleep_until(&self, state: u32) -> u32 {
        loop {
            let word = self.0.load(Acquire);
            if word & !ASLEEP == state {
                return word;
            }
            let marked = word | ASLEEP;
            if word == marked
                || self
                    .0
                    .compare_exchange(word, marked, AcqRel, Acquire)
                    .is_ok()
            {
                wait(&self.0, marked);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_mailboxs_threads_spin_as_long_as_the_pools() {
        let pool = include_str!("../../../crates/pool-core/src/sched/spin.rs");
        let pool: String = pool.split_whitespace().collect();
        for (name, Effort { spins, yields }) in [("SEARCH", OWNER), ("SUBMIT", SENDER)] {
            let line = format!("{name}:SpinPolicy=SpinPolicy{{spins:{spins},yields:{yields},}}");
            assert!(pool.contains(&line), "{line}");
        }
    }

    #[test]
    fn every_task_of_several_senders_runs_once() {
        let ran = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&ran);
        let mailbox = Mailbox::start(move || {
            counted.fetch_add(1, AcqRel);
        });
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| mailbox.send()));
            }
        });
        mailbox.wait_until(READY, SENDER);
        assert_eq!(ran.load(Acquire), 4000);
    }
}
