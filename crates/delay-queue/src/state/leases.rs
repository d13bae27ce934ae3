//! Entries on probation: a feeder has taken them and offers them to somebody, who may not come.
//!
//! Such an entry is in nobody's hands but the feeder's: it is not counted, its id finds nothing,
//! but its place is taken, and a closed queue is not at its end before it is gone or back.
//!
//! The section that lends an entry may owe calls, which run foreign code on the feeder's thread. A
//! waker there may wait for what is lent, for it may close the queue for good. So the feeder collects
//! its entry only after the calls, in another section; until then it lies here, and closing for
//! good takes it back without waiting for the feeder.

use std::task::Waker;

use sync_shim::Parker;

use super::{Effects, State};
use crate::wait::{Effects as _, Waiter, WakeList};
use crate::{CheckedOut, EntryId};

/// What is on probation, and who waits for its coming back. Held under the queue's lock.
pub(super) struct Leases<T> {
    /// With each, what makes its feeder give it back. Not foreign: it may be cloned and dropped
    /// under the lock.
    out: Vec<(EntryId, Waker)>,
    /// Those of them that their feeders have not collected yet.
    uncollected: Vec<CheckedOut<T>>,
    waiting: Vec<Parker>,
    recalled: bool,
}

impl<T> Leases<T> {
    pub(super) fn new() -> Self {
        Self {
            out: Vec::new(),
            uncollected: Vec::new(),
            waiting: Vec::new(),
            recalled: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// From now on nothing more is given, and what is out has to come back.
    pub(super) fn recall(&mut self, wakes: &mut WakeList) {
        self.recalled = true;
        for (_, feeder) in &self.out {
            wakes.push(Waiter::Internal(feeder.clone()));
        }
    }

    /// To be called when nothing is out any more.
    pub(super) fn wait(&mut self, parker: Parker) {
        self.waiting.push(parker);
    }

    fn end(&mut self, id: EntryId, effects: &mut Effects) {
        self.out.retain(|&(out, _)| out != id);
        if self.out.is_empty() {
            for parker in self.waiting.drain(..) {
                effects.wakes().push(Waiter::Thread(parker));
            }
        }
    }
}

impl<T> State<T> {
    /// What was lent and not collected is back where it was. Of that, what was cleared meanwhile
    /// is handed to the caller.
    pub(super) fn take_back_uncollected(&mut self, effects: &mut Effects) -> Vec<CheckedOut<T>> {
        let mut cleared = Vec::new();
        for out in std::mem::take(&mut self.leases.uncollected) {
            self.leases.end(out.id(), effects);
            cleared.extend(self.heap.check_in(out).err());
        }
        cleared
    }
}

#[cfg(any(feature = "channel", anthill_loom))]
mod lending {
    use super::{CheckedOut, EntryId, Waker};
    use crate::state::{Effects, State};
    use crate::wait::{Effects as _, Unavailable};

    /// An entry that a feeder has been lent.
    pub(crate) enum Leased<T> {
        /// In its hands.
        Now(CheckedOut<T>),
        /// To be collected when the section's calls have been made.
        Later(EntryId),
    }

    impl<T> State<T> {
        /// As [`take`](State::take), on probation. `feeder` is woken if it has to come back.
        pub(crate) fn check_out(
            &mut self,
            feeder: &Waker,
            effects: &mut Effects,
        ) -> Result<Leased<T>, Unavailable> {
            if self.leases.recalled {
                return Err(Unavailable::Closed);
            }
            let Some(out) = self.heap.check_out(self.now) else {
                return Err(self.unavailable());
            };
            self.leases.out.push((out.id(), feeder.clone()));
            self.settle(effects);
            if effects.is_empty() {
                return Ok(Leased::Now(out));
            }
            let id = out.id();
            self.leases.uncollected.push(out);
            Ok(Leased::Later(id))
        }

        /// The entry that was lent, if it has not been taken back.
        pub(crate) fn collect(&mut self, id: EntryId) -> Option<CheckedOut<T>> {
            let uncollected = &mut self.leases.uncollected;
            let at = uncollected.iter().position(|out| out.id() == id)?;
            Some(uncollected.swap_remove(at))
        }

        /// What was taken on probation has been taken for good. Its value is elsewhere.
        pub(crate) fn gone(&mut self, out: CheckedOut<()>, effects: &mut Effects) {
            self.leases.end(out.id(), effects);
            // If the queue has been cleared, there is no place to be freed.
            let _ = self.heap.settle(out);
            self.counts.taken += 1;
            self.freed(effects);
        }

        /// What was taken on probation comes back, to where it was. If the queue has been cleared
        /// meanwhile it is handed to the caller, as something to be cleared.
        pub(crate) fn check_in(
            &mut self,
            out: CheckedOut<T>,
            effects: &mut Effects,
        ) -> Option<CheckedOut<T>> {
            self.leases.end(out.id(), effects);
            let cleared = self.heap.check_in(out).err();
            self.freed(effects);
            cleared
        }
    }
}

#[cfg(any(feature = "channel", anthill_loom))]
pub(crate) use lending::Leased;
