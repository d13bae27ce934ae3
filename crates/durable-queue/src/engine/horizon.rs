//! The horizon: how long before their due times jobs are claimed.
//!
//! Unless the user sets it, it is [`HORIZON`], and longer while turns of the store are slow.
//! `docs/decisions/horizon.md` explains why it is never shorter and depends on nothing else.
//!
//! # Invariants
//! 1. It changes only with a claim, so that the pump waits with the same horizon that the store has told to
//!    other processes.
//! 2. At least half of the lease is left at a job's due time, unless the user sets the horizon.

use std::time::Duration;

/// Default horizon, for a store that answers in time.
pub const HORIZON: Duration = Duration::from_millis(500);
/// Maximum of the default horizon, for a slow store; or half of the lease, if that is less.
pub const LONGEST_HORIZON: Duration = Duration::from_secs(3);
/// A claim waits for the turn in progress, and takes one itself. Both may take twice as long as recent turns.
const TURNS: u32 = 4;
/// A slow turn counts at once, and is forgotten by an eighth with each quicker one.
const FADE: u32 = 7;

#[derive(Debug)]
pub(crate) struct Horizon {
    fixed: Option<Duration>,
    most: Duration,
    /// Recent duration of a turn.
    took: Duration,
    current: Duration,
}

impl Horizon {
    pub(crate) fn new(fixed: Option<Duration>, lease: Duration) -> Self {
        let mut horizon = Self {
            fixed,
            most: LONGEST_HORIZON.min(lease / 2),
            took: Duration::ZERO,
            current: Duration::ZERO,
        };
        horizon.renew();
        horizon
    }

    /// Records the duration of an answered turn.
    pub(crate) fn learn(&mut self, took: Duration) {
        self.took = took.max((self.took * FADE + took) / (FADE + 1));
    }

    /// Returns the horizon of a claim that is made now.
    pub(crate) fn renew(&mut self) -> Duration {
        let needed = self.took.saturating_mul(TURNS).max(HORIZON);
        self.current = self.fixed.unwrap_or(needed.min(self.most));
        self.current
    }

    /// Returns the horizon of the last claim.
    pub(crate) fn current(&self) -> Duration {
        self.current
    }
}
