//! A value under a spin lock.
//!
//! # Invariants
//! 1. At most one [`SpinGuard`] of a lock exists at a time.
//! 2. `value` is reached only through a live guard, or through exclusive access to the lock.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use sync_shim::cell::UnsafeCell;

use crate::RawSpinLock;

/// A lock around a value, for critical sections of a few dozen instructions.
///
/// A panic in the section releases the lock and leaves the value as it is at that moment (no
/// poisoning). Forgetting a guard (`std::mem::forget`) leaves the lock held for ever: later calls
/// of `lock` block, with no worse effect.
///
/// ```
/// use backoff_spinlock::SpinLock;
///
/// static HIGHEST: SpinLock<u64> = SpinLock::new(0);
///
/// HIGHEST.with(|highest| *highest = 7.max(*highest));
/// assert_eq!(*HIGHEST.lock(), 7);
/// ```
///
/// The lock is `Sync` if its value is `Send`:
/// ```compile_fail,E0277
/// fn shared<T: Sync>(_: T) {}
/// shared(backoff_spinlock::SpinLock::new(std::rc::Rc::new(0)));
/// ```
pub struct SpinLock<T: ?Sized> {
    raw: RawSpinLock,
    value: UnsafeCell<T>,
}

// SAFETY: by invariants 1 and 2 a shared lock only hands its value from thread to thread, and the
// raw lock orders one thread's access before the next one's.
unsafe impl<T: ?Sized + Send> Sync for SpinLock<T> {}
// SAFETY: moving the lock moves its value; the raw lock belongs to no thread.
unsafe impl<T: ?Sized + Send> Send for SpinLock<T> {}

/// Exclusive access to the value of a [`SpinLock`]; dropping it releases the lock.
///
/// The guard stays on its thread, so that no future that may change threads can hold it across an
/// `.await`:
/// ```compile_fail,E0277
/// fn sent<T: Send>(_: T) {}
/// sent(backoff_spinlock::SpinLock::new(0).lock());
/// ```
/// and it is `Sync` only if the value is:
/// ```compile_fail,E0277
/// fn shared<T: Sync>(_: T) {}
/// shared(backoff_spinlock::SpinLock::new(std::cell::Cell::new(0)).lock());
/// ```
#[doc(alias = "MutexGuard")]
#[must_use = "the lock is released when the guard is dropped"]
pub struct SpinGuard<'a, T: ?Sized> {
    lock: &'a SpinLock<T>,
    /// Neither `Send` nor, by itself, `Sync`.
    stays: PhantomData<*mut T>,
}

// SAFETY: a shared guard gives access to shared references to the value only.
unsafe impl<T: ?Sized + Sync> Sync for SpinGuard<'_, T> {}

impl<T> SpinLock<T> {
    /// Creates a free lock that protects `value`.
    #[cfg(not(anthill_loom))]
    pub const fn new(value: T) -> Self {
        Self {
            raw: RawSpinLock::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Creates a free lock that protects `value`.
    #[cfg(anthill_loom)]
    pub fn new(value: T) -> Self {
        Self {
            raw: RawSpinLock::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> SpinLock<T> {
    /// Blocks until the calling thread has the lock. Not re-entrant: a thread that already holds
    /// the guard blocks for ever.
    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        self.raw.lock();
        self.guard()
    }

    /// Returns a guard if the lock is free. Never blocks.
    #[inline]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.raw.try_lock().then(|| self.guard())
    }

    /// Runs `section` with the value locked. Blocks as [`lock`](Self::lock) does.
    #[inline]
    pub fn with<R>(&self, section: impl FnOnce(&mut T) -> R) -> R {
        section(&mut self.lock())
    }

    /// Returns the value. Needs no locking, as access is exclusive.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Must be called by the thread that has just acquired the raw lock.
    fn guard(&self) -> SpinGuard<'_, T> {
        SpinGuard {
            lock: self,
            stays: PhantomData,
        }
    }
}

impl<T: ?Sized> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `self` is a live guard, so by invariant 1 no other thread reaches the value,
        // and the reference lives no longer than the borrow of the guard.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T: ?Sized> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed exclusively.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T: ?Sized> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: only the thread that acquired the raw lock creates a guard, and the guard ends
        // here.
        unsafe { self.lock.raw.unlock() };
    }
}

impl<T: Default> Default for SpinLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for SpinLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for SpinLock<T> {
    /// Shows the value if the lock is free. Never blocks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SpinLock");
        match self.try_lock() {
            Some(guard) => shown.field("value", &&*guard),
            None => shown.field("value", &format_args!("<locked>")),
        };
        shown.finish()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for SpinGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for SpinGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
