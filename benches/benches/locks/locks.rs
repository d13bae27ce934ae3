//! The compared locks behind a common trait, and the work in a critical section.

use std::hint::black_box;

/// A number behind a lock.
pub(crate) trait Lock: Sync + Sized {
    fn new(value: u64) -> Self;
    fn with(&self, section: impl FnOnce(&mut u64));
}

impl<R: lock_api::RawMutex + Sync> Lock for lock_api::Mutex<R, u64> {
    fn new(value: u64) -> Self {
        Self::new(value)
    }
    fn with(&self, section: impl FnOnce(&mut u64)) {
        section(&mut self.lock());
    }
}

impl Lock for std::sync::Mutex<u64> {
    fn new(value: u64) -> Self {
        Self::new(value)
    }
    fn with(&self, section: impl FnOnce(&mut u64)) {
        section(&mut self.lock().expect("no section panics"));
    }
}

impl Lock for spin::Mutex<u64> {
    fn new(value: u64) -> Self {
        Self::new(value)
    }
    fn with(&self, section: impl FnOnce(&mut u64)) {
        section(&mut self.lock());
    }
}

/// About a nanosecond per step. Each step depends on the previous one.
#[inline]
pub(crate) fn work(value: &mut u64, steps: u64) {
    for _ in 0..steps {
        *value = black_box((*value ^ (*value >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}
