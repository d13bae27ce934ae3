//! What a wait for many ends comes to: the first error, once all have ended.

use std::panic::resume_unwind;

use sync_shim::foreign::{Payload, discard, guarded};

pub(super) struct Tally<E> {
    first: Result<(), E>,
    /// The first panic of a destructor.
    panicked: Option<Payload>,
}

impl<E> Tally<E> {
    pub(super) fn new() -> Self {
        Self {
            first: Ok(()),
            panicked: None,
        }
    }

    /// One more has ended as `look` says, which may drop its value.
    pub(super) fn add(&mut self, look: impl FnOnce() -> Result<(), E>) {
        let added = guarded(|| {
            let ended = look();
            if self.first.is_ok() {
                self.first = ended;
            }
        });
        if let Err(payload) = added {
            match self.panicked {
                None => self.panicked = Some(payload),
                Some(_) => discard(payload),
            }
        }
    }

    /// Panics as the first destructor that did.
    pub(super) fn outcome(self) -> Result<(), E> {
        match self.panicked {
            Some(payload) => {
                _ = sync_shim::foreign::drop_quietly(self.first);
                resume_unwind(payload)
            }
            None => self.first,
        }
    }
}
