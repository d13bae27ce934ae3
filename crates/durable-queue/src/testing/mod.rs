//! For tests of what is built on a queue, and of stores: a store in memory that fails on request,
//! and a store's clock that is moved by hand.

mod faults;
mod sim;

use std::fmt;
use std::time::{Duration, Instant};

use sync_shim::{Clock, ManualClock};

pub use faults::{Call, Fault};
pub use sim::SimStore;

use crate::time::{StoreClock, StoreTime};

/// A store's clock that follows a [`ManualClock`], from a point in this millennium on.
#[derive(Clone)]
pub struct ManualStoreClock {
    clock: ManualClock,
    epoch: Instant,
}

impl ManualStoreClock {
    /// What the clock shows at first.
    pub const START: StoreTime = StoreTime::from_micros(1_000_000_000_000_000);

    /// Shows [`START`](Self::START) now, and later as `clock` is moved.
    pub fn new(clock: &ManualClock) -> Self {
        Self {
            clock: clock.clone(),
            epoch: clock.now(),
        }
    }

    /// The clock that it follows.
    pub fn manual(&self) -> &ManualClock {
        &self.clock
    }

    /// Moves both.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

impl StoreClock for ManualStoreClock {
    fn now(&self) -> StoreTime {
        Self::START.after(self.clock.now() - self.epoch)
    }
}

impl fmt::Debug for ManualStoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualStoreClock")
            .field(&self.now())
            .finish()
    }
}
