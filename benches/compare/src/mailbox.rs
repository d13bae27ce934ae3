//! A mailbox of one word: the least that a hand-off between two threads can be.
//!
//! It has no queue, no errors, no shutdown and one kind of task. Where it is faster than a pool, the
//! difference is what the pool's promises cost.
//!
//! # Invariants
//! 1. A sender makes it `TASK` only when it is `READY`, so its task waits for no other.
//! 2. Only the owner makes it `READY`, after the task has ended.
//! 3. Whoever sleeps has marked the word before; whoever changes a marked word wakes all.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire},
};
use std::thread;

use atomic_wait::{wait, wake_all};

const READY: u32 = 0;
const TASK: u32 = 1;
/// Or-ed to the word by those who go to sleep on it.
const ASLEEP: u32 = 2;

/// How long either side looks before it sleeps. A free core answers within some hundred nanoseconds,
/// which is a few of these spins; if the other has no core of its own, a yield gives it this one.
const SPINS: u32 = 20;
const YIELDS: u32 = 16;

/// See the module's documentation.
#[repr(align(128))]
pub struct Mailbox(AtomicU32);

impl Mailbox {
    /// A mailbox and the thread that owns it, which calls `body` for each task.
    pub fn start(body: impl Fn() + Send + 'static) -> Arc<Self> {
        let mailbox = Arc::new(Self(AtomicU32::new(READY)));
        let owned = Arc::clone(&mailbox);
        thread::spawn(move || {
            loop {
                owned.wait_until(TASK);
                body();
                owned.put(READY);
            }
        });
        mailbox
    }

    /// Hands a task over as soon as the owner is free.
    #[inline]
    pub fn send(&self) {
        self.send_with(|| ());
    }

    /// The same, and calls `leave` before, when the owner has done with all that was sent earlier.
    /// Where several threads send, it may be called more than once.
    #[inline]
    pub fn send_with(&self, mut leave: impl FnMut()) {
        loop {
            let word = self.wait_until(READY);
            leave();
            // Pairs with the owner's exchange, as do the others.
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

    /// Returns the word once it is in this state.
    #[inline]
    fn wait_until(&self, state: u32) -> u32 {
        for round in 0..SPINS + YIELDS {
            let word = self.0.load(Acquire);
            if word & !ASLEEP == state {
                return word;
            }
            if round < SPINS {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        self.sleep_until(state)
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
    fn every_task_runs_once_however_many_send() {
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
        mailbox.wait_until(READY);
        assert_eq!(ran.load(Acquire), 4000);
    }
}
