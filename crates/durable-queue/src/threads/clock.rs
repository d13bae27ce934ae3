//! The process's clock as a type without parameters.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;
use std::{fmt, io};

use sync_shim::{Alarm, Clock, Parker};

/// A clock whose type is erased: the cost of a virtual call is negligible here.
#[derive(Clone)]
pub struct SharedClock(Arc<dyn Clock>);

impl SharedClock {
    /// Erases the type of `clock`.
    pub fn new(clock: impl Clock) -> Self {
        Self(Arc::new(clock))
    }
}

/// The system's clock; in models, a manual one.
impl Default for SharedClock {
    fn default() -> Self {
        #[cfg(not(anthill_loom))]
        let clock = sync_shim::MonotonicClock;
        #[cfg(anthill_loom)]
        let clock = sync_shim::ManualClock::new();
        Self::new(clock)
    }
}

// USER CODE: the queue's clock, on the pump, on threads that wait and on handlers' threads. No lock is held. A
// panic on the pump ends it, and all waits with `ShutDown`; one on another thread is that thread's.
impl Clock for SharedClock {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        self.0.wake_at(when, waker)
    }
}

impl fmt::Debug for SharedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
