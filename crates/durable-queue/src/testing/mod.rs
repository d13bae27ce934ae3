//! Test helpers for users of queues and for stores: a store in memory that fails on request, and a store's
//! clock that is moved manually.

mod faults;
mod sim;

use std::fmt;
use std::time::{Duration, Instant};

use sync_shim::{Clock, ManualClock};

pub use faults::{Call, Fault};
pub use sim::SimStore;

use crate::time::{StoreClock, StoreTime};

/// A store's clock that follows a [`ManualClock`], starting in September 2001.
#[derive(Clone)]
pub struct ManualStoreClock {
    clock: ManualClock,
    epoch: Instant,
}

impl ManualStoreClock {
    /// The clock's initial time.
    pub const START: StoreTime = StoreTime::from_micros(1_000_000_000_000_000);

    /// Creates a clock that shows [`START`](Self::START) now, and advances with `clock`.
    pub fn new(clock: &ManualClock) -> Self {
        Self {
            clock: clock.clone(),
            epoch: clock.now(),
        }
    }

    /// Returns the manual clock.
    pub fn manual(&self) -> &ManualClock {
        &self.clock
    }

    /// Advances both clocks.
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
