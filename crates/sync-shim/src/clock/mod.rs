//! Clocks as values that callers pass in.
//!
//! # Guarantees
//! 1. A timed wait on a clock ends no earlier than its time by that clock.
//! 2. A clock does not go backwards.
//! 3. Points past the range of `Instant` mean "never": see [`Clock::after`].

#[cfg_attr(
    not(anthill_loom),
    expect(unreachable_pub, reason = "public to the models alone")
)]
pub mod alarms;
mod deadline;
mod manual;
#[cfg(not(anthill_loom))]
mod monotonic;
#[cfg(not(anthill_loom))]
mod process;

use std::task::Waker;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::Parker;

pub use deadline::{Deadline, LONGEST_PACE, Time, pace};
pub use manual::ManualClock;
#[cfg(not(anthill_loom))]
pub use monotonic::{MonotonicClock, PlainClock};

/// A source of time, and the only way to wait for a time.
///
/// Queues call [`now`](Clock::now) with their lock held: it must be quick and must not call back
/// into them. No method may panic.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Instant;

    /// Parks until a token comes (`true`) or this clock reaches `when` (`false`).
    fn park_until(&self, parker: &Parker, when: Instant) -> bool;

    /// Calls `waker` once this clock reaches `when`, unless the alarm is dropped before.
    ///
    /// # Errors
    /// If there is no thread to serve the alarm. The caller must then keep the time by other means: see
    /// [`pace`].
    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm>;

    /// Whether this is the [`PlainClock`], whose alarms are set by [`wake_at`].
    #[doc(hidden)]
    fn is_plain(&self) -> bool {
        false
    }

    /// Returns the time `delay` from now, or `None` (never) if it cannot be expressed.
    fn after(&self, delay: Duration) -> Option<Instant> {
        self.now().checked_add(delay)
    }
}

/// Calls [`Clock::wake_at`], also for a [`PlainClock`].
///
/// # Errors
/// If there is no thread to serve the alarm.
pub fn wake_at(clock: &dyn Clock, when: Instant, waker: Waker) -> io::Result<Alarm> {
    #[cfg(not(anthill_loom))]
    if clock.is_plain() {
        return MonotonicClock.wake_at(when, waker);
    }
    clock.wake_at(when, waker)
}

/// Returns whether this is the error of an alarm of the [`MonotonicClock`] whose thread the operating system
/// refused to start.
pub fn is_refused(error: &io::Error) -> bool {
    #[cfg(not(anthill_loom))]
    return process::is_refused(error);
    #[cfg(anthill_loom)]
    {
        let _ = error; // The clocks of models need no thread.
        false
    }
}

/// A pending [`Clock::wake_at`]. Dropping it cancels the alarm; a wake-up that has already begun
/// may still come.
#[must_use = "dropping an alarm cancels it"]
pub struct Alarm(#[expect(dead_code, reason = "held for its Drop")] Box<dyn Send + Sync>);

impl Alarm {
    /// Creates an alarm that is cancelled by dropping `guard`. For implementors of [`Clock`].
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alarm(..)")
    }
}
