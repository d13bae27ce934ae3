//! The limit of a call that waits.

use std::time::{Duration, Instant};

use crate::Clock;

/// How long a call waits: a [`Duration`] from its start, or until an [`Instant`]. Either converts
/// into it, so a call takes `impl Into<Timeout>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// That long, from the call on. A duration too long to express as an instant is no limit.
    After(Duration),
    /// Until then.
    At(Instant),
}

impl Timeout {
    /// The instant by `clock` at which a wait that begins now is over; `None` if never.
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
