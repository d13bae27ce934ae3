//! The queue's lock: one that spins, yields, then sleeps.
//!
//! Most sections take some hundred instructions. If a section takes long, because memory grows or
//! many entries are sorted, its waiters sleep, as with any lock.
//! `docs/decisions/delay-queue-sections.md` has the comparison with `parking_lot`.
//!
//! Models use their own mutex instead, which has far fewer steps: the spin lock has models of its
//! own.

#[cfg(not(anthill_loom))]
use backoff_spinlock::{SpinGuard as Guard, SpinLock as Inner};
#[cfg(anthill_loom)]
use sync_shim::{Mutex as Inner, MutexGuard as Guard};

/// The protected value has cache lines of its own, so that writers do not invalidate the fields
/// that are read without the lock. Processors fetch lines in pairs: hence 128 bytes.
#[repr(align(128))]
pub(crate) struct Lock<T>(Inner<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Inner::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.0.lock()
    }
}
