//! How long before their times jobs are claimed.
//!
//! If it is not said, it is [`HORIZON`], and longer while turns of the store are slow. Why it is never
//! shorter, and follows nothing else: `docs/decisions/horizon.md`.
//!
//! # What always holds
//! 1. It changes with a claim, and not before the next: what the pump waits for, and what the store has told
//!    others that it waits for, go by the same one.
//! 2. Half of the lease is left at a job's time, unless the horizon is said.

use std::time::Duration;

/// How long before their times jobs are claimed, if not said, on a store that answers in time.
pub const HORIZON: Duration = Duration::from_millis(500);
/// The most that it comes to on a store that is slow, if not said; or half of the lease, if that is less.
pub const LONGEST_HORIZON: Duration = Duration::from_secs(3);
/// A claim waits for the turn that is under way, and takes one itself. Both may take twice as long as
/// turns do of late.
const TURNS: u32 = 4;
/// A slow turn counts at once, and is forgotten by an eighth with each that is quicker.
const FADE: u32 = 7;

#[derive(Debug)]
pub(crate) struct Horizon {
    fixed: Option<Duration>,
    most: Duration,
    /// How long turns take, of late.
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

    /// The store has answered a turn.
    pub(crate) fn learn(&mut self, took: Duration) {
        self.took = took.max((self.took * FADE + took) / (FADE + 1));
    }

    /// That of a claim which is made now.
    pub(crate) fn renew(&mut self) -> Duration {
        let needed = self.took.saturating_mul(TURNS).max(HORIZON);
        self.current = self.fixed.unwrap_or(needed.min(self.most));
        self.current
    }

    /// That of the last claim.
    pub(crate) fn current(&self) -> Duration {
        self.current
    }
}
