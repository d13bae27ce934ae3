//! Time, as something that is handed in.
//!
//! # What always holds
//! 1. A timed wait on a clock ends no earlier than its time by that same clock.
//! 2. A clock does not go backwards.
//! 3. Points past what an `Instant` can express are "never": [`Clock::after`] says so.

#[cfg_attr(
    not(anthill_loom),
    expect(unreachable_pub, reason = "public to the models alone")
)]
pub mod alarms;
mod manual;
#[cfg(not(anthill_loom))]
mod monotonic;
#[cfg(not(anthill_loom))]
mod process;

use std::task::Waker;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::Parker;

pub use manual::ManualClock;
#[cfg(not(anthill_loom))]
pub use monotonic::MonotonicClock;

/// A source of time and the only way to wait for it.
///
/// Queues ask for [`now`](Clock::now) with their lock held: it must be quick, and must not call
/// back into them. None of this may panic.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present.
    fn now(&self) -> Instant;

    /// Parks until the token comes (`true`) or this clock reaches `when` (`false`).
    fn park_until(&self, parker: &Parker, when: Instant) -> bool;

    /// Wakes `waker` once this clock reaches `when`, unless the alarm is dropped before.
    ///
    /// # Errors
    /// If there is no thread to serve it.
    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm>;

    /// The point `delay` from now, or `None` for one too far away to express: never.
    fn after(&self, delay: Duration) -> Option<Instant> {
        self.now().checked_add(delay)
    }
}

/// A pending [`Clock::wake_at`]. Dropping it takes it back; a wake-up under way may still come.
#[must_use = "dropping an alarm takes it back"]
pub struct Alarm(#[expect(dead_code, reason = "held for its Drop")] Box<dyn Send + Sync>);

impl Alarm {
    /// An alarm that is taken back by dropping `guard`. For implementors of [`Clock`].
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alarm(..)")
    }
}
