//! A value of which each process has its own: a static that survives a fork.
//!
//! Not for: values that need no threads and no locks. A child may use its copy of those.
//!
//! # Invariants
//! 1. A published value is never dropped or moved. The inherited value stays where it is, because threads of
//!    the parent may have been changing it during the fork.
//! 2. A value is published for the process that made it, and at most one per process.
//! 3. No lock: a child would inherit it locked if another thread held it during the fork.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use crate::Process;
use crate::atomic::AtomicPtr;
use crate::atomic::Ordering::{AcqRel, Acquire};

/// A value of each process, made at its first use and never dropped.
pub struct PerProcess<T> {
    /// The value of this process, or of the nearest ancestor that has made one; null before the first.
    newest: AtomicPtr<Own<T>>,
    /// Shared between threads if the values may be.
    values: PhantomData<T>,
}

struct Own<T> {
    process: Process,
    value: T,
}

impl<T> PerProcess<T> {
    /// Creates a cell without a value.
    #[cfg(not(anthill_loom))]
    pub const fn new() -> Self {
        Self {
            newest: AtomicPtr::new(ptr::null_mut()),
            values: PhantomData,
        }
    }

    /// Creates a cell without a value.
    #[cfg(anthill_loom)]
    pub fn new() -> Self {
        Self {
            newest: AtomicPtr::new(ptr::null_mut()),
            values: PhantomData,
        }
    }

    fn newest(&self) -> Option<&Own<T>> {
        // Acquire pairs with the exchange in `set`.
        let newest = self.newest.load(Acquire);
        // SAFETY: by invariant 1 the pointer is null or valid for as long as the process lives.
        unsafe { newest.as_ref() }
    }

    /// Returns this process's value, if it has been made.
    pub fn get(&self) -> Option<&T> {
        let own = self.newest().filter(|own| own.process.is_current());
        own.map(|own| &own.value)
    }

    /// Returns this process's value. The first call makes it, from the value of the nearest ancestor that
    /// had one: in a forked child, no lock of that value may be taken.
    ///
    /// Threads that race may all call `make`. All get the same value; the others are dropped.
    ///
    /// # Panics
    /// If `make` panics, which leaves the cell as it was.
    pub fn get_or_init(&self, make: impl FnOnce(Option<&T>) -> T) -> &T {
        if let Some(own) = self.get() {
            return own;
        }
        let value = make(self.newest().map(|inherited| &inherited.value));
        match self.set(value) {
            Ok(own) => own,
            Err(_late) => self.get().expect("another thread has set the value"),
        }
    }

    /// Sets this process's value.
    ///
    /// # Errors
    /// The given value, if the process has one.
    pub fn set(&self, value: T) -> Result<&T, T> {
        // Acquire pairs with the exchange below, in the call that published the value found.
        let found = self.newest.load(Acquire);
        // SAFETY: as in `newest`.
        if unsafe { found.as_ref() }.is_some_and(|own| own.process.is_current()) {
            return Err(value);
        }
        let process = Process::current();
        let own = Box::into_raw(Box::new(Own { process, value }));
        // Release publishes the value, acquire finds the one that another thread has published.
        match self.newest.compare_exchange(found, own, AcqRel, Acquire) {
            // SAFETY: `own` comes from a box, and from now on invariant 1 keeps it.
            Ok(_) => Ok(&unsafe { &*own }.value),
            // SAFETY: `own` comes from the box above, and was not published.
            Err(_other) => Err(unsafe { Box::from_raw(own) }.value),
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerProcess").field(&self.get()).finish()
    }
}
