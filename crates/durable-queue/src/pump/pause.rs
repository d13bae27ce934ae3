//! The pause after an error: twice as long after each further one, until there is none.

use std::mem;
use std::time::{Duration, Instant};

use crate::plan::doubled;

/// The first pause after an error of the store; it doubles up to [`LONGEST_PAUSE`].
pub const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two tries of a store that fails: within a second after it is back, it is used.
pub const LONGEST_PAUSE: Duration = Duration::from_millis(800);

#[derive(Default)]
pub(super) struct Pause {
    errors: u32,
    pub(super) until: Option<Instant>,
}

impl Pause {
    pub(super) fn begin(&mut self, now: Instant) {
        self.until = now.checked_add(doubled(FIRST_PAUSE, self.errors, LONGEST_PAUSE));
        self.errors += 1;
    }

    pub(super) fn is_on(&self) -> bool {
        self.errors > 0
    }

    /// Whether there was one.
    pub(super) fn end(&mut self) -> bool {
        mem::take(self).is_on()
    }
}
