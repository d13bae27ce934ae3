//! Counts tasks down, and wakes the thread that waits for the last one.

use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};
use std::thread::{self, Thread};

/// Tasks that have not ended, and the thread that waits for them.
pub struct Count {
    left: AtomicU32,
    waiter: Thread,
}

impl Count {
    /// The calling thread will wait.
    pub fn new(tasks: u32) -> Self {
        Self {
            left: AtomicU32::new(tasks),
            waiter: thread::current(),
        }
    }

    /// One task has ended.
    pub fn down(&self) {
        if self.left.fetch_sub(1, AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    pub fn wait(&self) {
        while self.left.load(Acquire) > 0 {
            thread::park();
        }
    }
}

/// Counts down when it is dropped.
pub struct OnDrop(pub &'static Count);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.down();
    }
}
