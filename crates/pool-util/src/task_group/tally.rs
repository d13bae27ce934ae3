//! Result of a wait for several tasks: the first error, after all have ended.

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

    /// Adds a task's outcome, which `look` returns. `look` may drop the value and panic.
    pub(super) fn add(&mut self, look: impl FnOnce() -> Result<(), E>) {
        // USER CODE: the drop of a task's value. The first panic continues after the wait.
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

    /// Continues the first panic of a destructor, if there was one.
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
