//! The request to stop, and its signal.

use std::sync::OnceLock;

/// Set once, by the first signal.
pub(crate) struct Stop(OnceLock<u8>);

impl Stop {
    pub(crate) fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Requests that no further picture is started.
    pub(crate) fn set(&self, signal: i32) {
        self.0.get_or_init(|| u8::try_from(signal).unwrap_or(0));
    }

    /// Returns the number of the signal, if one has arrived.
    pub(crate) fn signal(&self) -> Option<u8> {
        self.0.get().copied()
    }
}
