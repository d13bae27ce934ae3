//! The pause after an error, which doubles with each further one.

use std::mem;
use std::time::{Duration, Instant};

use crate::engine::plan::doubled;

/// The first pause after an error of the store. It doubles up to [`LONGEST_PAUSE`].
pub const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two tries of a failing store, so a store is used within a second after it
/// recovers.
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

    /// Ends the pause. Returns whether there was one.
    pub(super) fn end(&mut self) -> bool {
        mem::take(self).is_on()
    }
}
