//! Whether to stop, and what for.

use std::sync::OnceLock;

/// Set once, by the first signal.
pub(crate) struct Stop(OnceLock<u8>);

impl Stop {
    pub(crate) fn new() -> Self {
        Self(OnceLock::new())
    }

    /// No picture is begun from now on.
    pub(crate) fn set(&self, signal: i32) {
        self.0.get_or_init(|| u8::try_from(signal).unwrap_or(0));
    }

    /// The number of the signal that came.
    pub(crate) fn signal(&self) -> Option<u8> {
        self.0.get().copied()
    }
}
