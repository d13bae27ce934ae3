//! A few sessions with a server, each for one call at a time.
//!
//! # What always holds
//! 1. A forked child does not reach the sessions, nor does it end them: see [`Own`].
//! 2. A pump's call waits for no call of the application: there is a slot that only pumps have.

use std::fmt;

use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::{Mutex, MutexGuard};

use super::Own;
use crate::store::Result;

/// Who makes a call.
#[derive(Clone, Copy, Debug)]
pub enum Caller {
    /// A call of the application.
    Application,
    /// A call of a pump. Leases end if it is kept waiting.
    Pump,
}

/// The first session is there from the beginning; a slot that has none is for the caller to fill.
pub struct Slots<S> {
    slots: Own<All<S>>,
    next: AtomicUsize,
}

struct All<S> {
    pumps: Mutex<Option<S>>,
    shared: Box<[Mutex<Option<S>>]>,
}

impl<S> Slots<S> {
    /// `most`: for the calls of the application. One more is the pumps'.
    pub fn new(first: S, most: usize) -> Self {
        let mut shared = vec![Mutex::new(Some(first))];
        shared.resize_with(most.max(1), || Mutex::new(None));
        Self {
            slots: Own::new(All {
                pumps: Mutex::new(None),
                shared: shared.into_boxed_slice(),
            }),
            next: AtomicUsize::new(0),
        }
    }

    /// The first that is free, so that a program which makes one call at a time has one session. A pump has its
    /// own, or waits for another pump unless a shared one is free.
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
        // Relaxed: any slot will do; the number only spreads the calls that wait.
        let number = self.next.fetch_add(1, Relaxed) % shared.len();
        Ok(shared[number].lock())
    }

    /// Whether the sessions are this process's.
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
        // The application does not get it.
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
