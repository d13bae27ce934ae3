//! Panics of the destructors of values that a wait drops.

use std::panic::resume_unwind;

use sync_shim::foreign::{Payload, discard};

pub(super) struct Panics(Option<Payload>);

impl Panics {
    pub(super) fn new() -> Self {
        Self(None)
    }

    /// Keeps the first panic.
    pub(super) fn add(&mut self, payload: Payload) {
        match self.0 {
            None => self.0 = Some(payload),
            Some(_) => discard(payload),
        }
    }

    /// Continues the first panic, if there was one.
    pub(super) fn resume(self) {
        if let Some(payload) = self.0 {
            resume_unwind(payload);
        }
    }
}
