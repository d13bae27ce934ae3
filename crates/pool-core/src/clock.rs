//! The clock of pools and waits that were given none.

use std::sync::Arc;

use sync_shim::Clock;

/// The clock of what has no other.
#[cfg(not(anthill_loom))]
pub(crate) fn default_clock() -> Arc<dyn Clock> {
    Arc::new(sync_shim::MonotonicClock)
}

#[cfg(anthill_loom)]
pub(crate) fn default_clock() -> Arc<dyn Clock> {
    Arc::new(sync_shim::ManualClock::new())
}
