//! A few sessions with a server, each for one call at a time.
//!
//! # What always holds
//! 1. A forked child does not reach the sessions, nor does it end them: see `own.rs`.

use std::fmt;

use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::{Mutex, MutexGuard};

use crate::own::Own;
use crate::store::Result;

/// The first session is there from the beginning; a slot that has none is for the caller to fill.
pub(crate) struct Slots<S> {
    slots: Own<Box<[Mutex<Option<S>>]>>,
    next: AtomicUsize,
}

impl<S> Slots<S> {
    pub(crate) fn new(first: S, most: usize) -> Self {
        let mut slots = vec![Mutex::new(Some(first))];
        slots.resize_with(most.max(1), || Mutex::new(None));
        Self {
            slots: Own::new(slots.into_boxed_slice()),
            next: AtomicUsize::new(0),
        }
    }

    /// The first that is free, so that a program which makes one call at a time has one session.
    ///
    /// # Errors
    /// In a forked child.
    pub(crate) fn slot(&self) -> Result<MutexGuard<'_, Option<S>>> {
        let slots = self.slots.get()?;
        if let Some(free) = slots.iter().find_map(Mutex::try_lock) {
            return Ok(free);
        }
        // Relaxed: any slot will do; the number only spreads the calls that wait.
        let number = self.next.fetch_add(1, Relaxed) % slots.len();
        Ok(slots[number].lock())
    }

    /// # Errors
    /// In a forked child.
    #[cfg(feature = "postgres")]
    pub(crate) fn check_process(&self) -> Result<()> {
        self.slots.get().map(drop)
    }
}

impl<S> fmt::Debug for Slots<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("most", &self.slots.get().map_or(0, |slots| slots.len()))
            .finish_non_exhaustive()
    }
}
