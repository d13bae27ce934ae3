//! The default clock of pools and waits.

use std::sync::Arc;

use sync_shim::Clock;

/// Returns the process-wide monotonic clock; in models, a clock that stands still.
#[cfg(not(anthill_loom))]
pub(crate) fn default_clock() -> Arc<dyn Clock> {
    Arc::new(sync_shim::MonotonicClock)
}

#[cfg(anthill_loom)]
pub(crate) fn default_clock() -> Arc<dyn Clock> {
    Arc::new(sync_shim::ManualClock::new())
}
