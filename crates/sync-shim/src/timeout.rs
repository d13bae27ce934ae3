//! The time limit of a call that waits.

use std::time::{Duration, Instant};

use crate::Clock;

/// The time limit of a call: a [`Duration`] from its start, or an [`Instant`]. Both convert into it,
/// so calls take `impl Into<Timeout>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// A duration from the call on. One whose end cannot be expressed as an instant means no limit.
    After(Duration),
    /// A point in time.
    At(Instant),
}

impl Timeout {
    /// Returns the deadline, by `clock`, of a wait that begins now; `None` if there is no limit.
    pub fn deadline(self, clock: &(impl Clock + ?Sized)) -> Option<Instant> {
        match self {
            Self::After(duration) => clock.after(duration),
            Self::At(instant) => Some(instant),
        }
    }
}

impl From<Duration> for Timeout {
    fn from(duration: Duration) -> Self {
        Self::After(duration)
    }
}

impl From<Instant> for Timeout {
    fn from(instant: Instant) -> Self {
        Self::At(instant)
    }
}
