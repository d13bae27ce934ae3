//! The lock as a raw mutex of `lock_api`. Not available in models: loom's atomics have no constant
//! constructor, and loom would not see the data of a `lock_api::Mutex`.

use std::time::{Duration, Instant};

use lock_api::{GuardNoSend, RawMutex, RawMutexTimed};
use sync_shim::{Clock, MonotonicClock};

use crate::RawSpinLock;

/// `lock_api`'s mutex over [`RawSpinLock`], with timed locking, mapped guards and the rest of that
/// crate's interface.
pub type SpinMutex<T> = lock_api::Mutex<RawSpinLock, T>;

// SAFETY: `lock` and `try_lock` return success only to the one thread whose exchange took the
// word from free or reserved; until `unlock` no other exchange can do so.
unsafe impl RawMutex for RawSpinLock {
    const INIT: Self = Self::new();

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        Self::lock(self);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        Self::try_lock(self)
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock, as this method requires too.
        unsafe { Self::unlock(self) };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        Self::is_locked(self)
    }
}

// SAFETY: as above; a lock call that returns because of its deadline has not acquired the lock.
unsafe impl RawMutexTimed for RawSpinLock {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    fn try_lock_for(&self, timeout: Duration) -> bool {
        if Self::try_lock(self) {
            return true; // Before reading a clock.
        }
        let Some(deadline) = MonotonicClock.after(timeout) else {
            Self::lock(self); // The deadline cannot be expressed: no deadline.
            return true;
        };
        self.lock_until(deadline)
    }

    #[inline]
    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.lock_until(timeout)
    }
}
