//! The queue's lock: one that spins, yields, then sleeps.
//!
//! Sections are mostly some hundred instructions. Where one is long, since memory grows or many
//! entries are sorted, those who wait for it sleep, as they would with any lock.
//! `docs/decisions/delay-queue-sections.md` has the table against `parking_lot`.
//!
//! The models put their own mutex in its place, which has far fewer steps: the spin lock has
//! models of its own.

#[cfg(not(anthill_loom))]
use backoff_spinlock::{SpinGuard as Guard, SpinLock as Inner};
#[cfg(anthill_loom)]
use sync_shim::{Mutex as Inner, MutexGuard as Guard};

/// What it protects lies on cache lines of its own: what is only read, before the lock is taken, is
/// not pulled away by those who write. Processors fetch lines in pairs.
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
