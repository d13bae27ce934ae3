//! A small pool of sessions with a server, each for one call at a time.
//!
//! # Invariants
//! 1. A forked child neither uses nor closes the sessions: see [`Own`].
//! 2. A pump's call never waits for a call of the application, because one slot is reserved for pumps.

use std::fmt;

use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::{Mutex, MutexGuard};

use super::Own;
use crate::store::Result;

/// Origin of a call.
#[derive(Clone, Copy, Debug)]
pub enum Caller {
    /// The application.
    Application,
    /// A pump. If it is delayed, leases expire.
    Pump,
}

/// The caller fills a slot when it gets an empty one.
pub struct Slots<S> {
    slots: Own<All<S>>,
    next: AtomicUsize,
}

struct All<S> {
    pumps: Mutex<Option<S>>,
    shared: Box<[Mutex<Option<S>>]>,
}

impl<S> Slots<S> {
    /// Creates `most` slots for the application, and one for pumps. The first session exists already.
    pub fn new(first: S, most: usize) -> Self {
        Self::with(Some(first), most)
    }

    /// Like [`new`](Self::new), without a first session.
    pub fn empty(most: usize) -> Self {
        Self::with(None, most)
    }

    fn with(first: Option<S>, most: usize) -> Self {
        let mut shared = vec![Mutex::new(first)];
        shared.resize_with(most.max(1), || Mutex::new(None));
        Self {
            slots: Own::new(All {
                pumps: Mutex::new(None),
                shared: shared.into_boxed_slice(),
            }),
            next: AtomicUsize::new(0),
        }
    }

    /// Locks the first free slot, so that a program that makes one call at a time uses one session. A pump
    /// prefers the pumps' slot. If that is in use, it takes a free shared slot or waits for its own.
    ///
    /// # Errors
    /// In a forked child.
    pub fn slot(&self, caller: Caller) -> Result<MutexGuard<'_, Option<S>>> {
        let All { pumps, shared } = self.slots.get()?;
        if let Caller::Pump = caller
            && let Some(free) = pumps.try_lock()
        {
            return Ok(free);
        }
        if let Some(free) = shared.iter().find_map(Mutex::try_lock) {
            return Ok(free);
        }
        if let Caller::Pump = caller {
            return Ok(pumps.lock());
        }
        // Relaxed: any slot will do. The number only spreads the waiting calls.
        let number = self.next.fetch_add(1, Relaxed) % shared.len();
        Ok(shared[number].lock())
    }

    /// Checks that the sessions belong to this process.
    ///
    /// # Errors
    /// In a forked child.
    pub fn check_process(&self) -> Result<()> {
        self.slots.get().map(drop)
    }
}

impl<S> fmt::Debug for Slots<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("most", &self.slots.get().map_or(0, |all| all.shared.len()))
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    #[testkit::test]
    fn a_pump_has_a_slot_while_the_application_has_all_others() {
        let slots = Slots::new(1, 2);
        let first = slots.slot(Caller::Application).expect("no fork");
        assert_eq!(*first, Some(1));
        let second = slots.slot(Caller::Application).expect("no fork");
        let mut own = slots.slot(Caller::Pump).expect("no fork");
        assert_eq!(own.replace(3), None);
        drop(own);
        drop((first, second));
        // The application does not get the pumps' slot.
        let held = [(); 2].map(|()| slots.slot(Caller::Application).expect("no fork"));
        assert_eq!(held.map(|slot| *slot), [Some(1), None]);
        assert_eq!(*slots.slot(Caller::Pump).expect("no fork"), Some(3));
    }

    #[test]
    fn a_second_pump_takes_a_slot_of_the_application_that_is_free() {
        let slots = Slots::new(1, 1);
        let _first = slots.slot(Caller::Pump).expect("no fork");
        assert_eq!(*slots.slot(Caller::Pump).expect("no fork"), Some(1));
    }
}
