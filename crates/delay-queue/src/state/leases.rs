//! Leases: entries that are reserved, because a feeder has taken them out and offers them to a
//! receiver, which may never come.
//!
//! Only the feeder has such an entry: it is not counted, its id finds nothing,
//! but its place is taken, and a closed queue is not at its end before it is gone or back.
//!
//! The section that leases an entry may have effects, which run user code on the feeder's thread. A
//! waker there may wait for what is leased, for it may close the queue for good. So the feeder collects
//! its entry only after them, in another section; until then it stays here, and closing for
//! good takes it back without waiting for the feeder.

use std::collections::BTreeMap;
use std::task::Waker;

use sync_shim::Parker;

use super::{Effects, State};
use crate::wait::{Effects as _, WakeList};
use crate::{CheckedOut, EntryId};

/// What is reserved, and which closers wait for it to come back. Held under the queue's lock.
pub(super) struct Leases<T> {
    out: BTreeMap<(u64, u64), Lease>,
    /// Those of them that their feeders have not collected yet.
    uncollected: Vec<CheckedOut<T>>,
    waiting: Vec<Parker>,
    recalled: bool,
}

/// One entry that is reserved.
struct Lease {
    /// Makes its feeder give it back. No user code: it may be cloned and dropped under the lock.
    feeder: Waker,
    /// Where the entry is among the uncollected ones.
    #[cfg(any(feature = "channel", anthill_loom))]
    uncollected: Option<usize>,
}

impl<T> Leases<T> {
    pub(super) fn new() -> Self {
        Self {
            out: BTreeMap::new(),
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
        for lease in self.out.values() {
            wakes.push_internal(lease.feeder.clone());
        }
    }

    /// To be woken when nothing is out any more.
    pub(super) fn wait(&mut self, parker: Parker) {
        self.waiting.push(parker);
    }

    fn end(&mut self, id: EntryId, effects: &mut Effects) {
        self.out.remove(&id.key());
        if self.out.is_empty() {
            for parker in self.waiting.drain(..) {
                effects.wakes().push_thread(parker);
            }
        }
    }
}

impl<T> State<T> {
    /// What was leased and not collected is back where it was. Of that, what was cleared meanwhile
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
mod leasing {
    use super::{CheckedOut, EntryId, Lease, Leases, Waker};
    use crate::state::{Effects, State};
    use crate::wait::{Effects as _, Unavailable};

    /// A feeder's lease of an entry.
    pub(crate) enum Leased<T> {
        /// In its hands.
        Now(CheckedOut<T>),
        /// To be collected when the section's effects have run.
        Later(EntryId),
    }

    impl<T> State<T> {
        /// As [`take`](State::take), on a lease. `feeder` is woken if the lease is recalled.
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
            // Settling again, as the driver does, finds nothing to add.
            self.settle(effects);
            let id = out.id();
            let (leased, uncollected) = if effects.is_empty() {
                (Leased::Now(out), None)
            } else {
                let at = self.leases.uncollected.len();
                self.leases.uncollected.push(out);
                (Leased::Later(id), Some(at))
            };
            let lease = Lease {
                feeder: feeder.clone(),
                uncollected,
            };
            self.leases.out.insert(id.key(), lease);
            Ok(leased)
        }

        /// The leased entry, if it has not been taken back.
        pub(crate) fn collect(&mut self, id: EntryId) -> Option<CheckedOut<T>> {
            let Leases {
                out, uncollected, ..
            } = &mut self.leases;
            let at = out.get_mut(&id.key())?.uncollected.take()?;
            let collected = uncollected.swap_remove(at);
            let moved = uncollected.get(at).map(|moved| moved.id().key());
            if let Some(lease) = moved.and_then(|moved| out.get_mut(&moved)) {
                lease.uncollected = Some(at);
            }
            Some(collected)
        }

        /// A leased entry has been received. Its value is elsewhere.
        pub(crate) fn gone(&mut self, out: CheckedOut<()>, effects: &mut Effects) {
            self.leases.end(out.id(), effects);
            // If the queue has been cleared, there is no place to be freed.
            let _ = self.heap.settle(out);
            self.counts.taken += 1;
            self.freed(effects);
        }

        /// A leased entry comes back, to where it was. If the queue has been cleared
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
pub(crate) use leasing::Leased;
