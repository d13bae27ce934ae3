//! Test helpers for users of [`durable_queue`], and for authors of stores: a [store in memory](SimStore) that fails on
//! request, a store's [clock](ManualStoreClock) that tests move, and [`conformance`], the tests that every store has to pass.
//!
//! ```
//! use durable_queue::{DurableQueue, When};
//! use durable_queue_testing::{Call, Fault, ManualClock, ManualStoreClock, SimStore};
//!
//! let clock = ManualClock::new();
//! let store = SimStore::with_faults(ManualStoreClock::new(&clock), |call| match call {
//!     Call::Enqueue => Fault::After, // The job is stored, and the response gets lost.
//!     _ => Fault::None,
//! });
//! let queue = DurableQueue::builder("mail", store).clock(clock).build()?;
//! let error = queue.push("to Ann".to_owned(), When::NOW).unwrap_err();
//! assert_eq!(error.value, "to Ann");
//! assert_eq!(*queue.take()?, "to Ann");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

// Its tests start threads, and run on real stores.
#[cfg(not(anthill_loom))]
pub mod conformance;
mod faults;
mod sim;

use std::fmt;
use std::time::{Duration, Instant};

use durable_queue::{StoreClock, StoreTime};
use sync_shim::Clock;

pub use sync_shim::ManualClock;

pub use self::faults::{Call, Fault};
pub use self::sim::SimStore;

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

// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
