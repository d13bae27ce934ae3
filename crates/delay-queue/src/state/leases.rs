//! Leases: entries that a feeder has taken out and offers to a receiver, which may never come.
//!
//! A leased entry is not counted and its id finds nothing, but its place is taken, and a closed
//! queue has not ended before the entry is received or comes back.
//!
//! The section that leases an entry may have effects, which run user code on the feeder's thread. A
//! waker there may wait for the leased entry, because it may call `close_now`. So the feeder
//! collects its entry only after the effects, in another section. Until then the entry stays here,
//! and `close_now` takes it back without waiting for the feeder.

use std::collections::BTreeMap;
use std::task::Waker;

use sync_shim::Parker;

use super::{Effects, State};
use crate::wait::{Effects as _, WakeList};
use crate::{CheckedOut, EntryId};

/// The leased entries, and the closers that wait for them. Held under the queue's lock.
pub(super) struct Leases<T> {
    out: BTreeMap<(u64, u64), Lease>,
    /// The leased entries that their feeders have not collected yet.
    uncollected: Vec<CheckedOut<T>>,
    waiting: Vec<Parker>,
    recalled: bool,
}

struct Lease {
    /// Makes the feeder return the entry. Not user code: it may be cloned and dropped under the
    /// lock.
    feeder: Waker,
    /// Index in `Leases::uncollected`, if the entry is there.
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

    /// Recalls all leased entries, and prevents further leases.
    pub(super) fn recall(&mut self, wakes: &mut WakeList) {
        self.recalled = true;
        for lease in self.out.values() {
            wakes.push_internal(lease.feeder.clone());
        }
    }

    /// Registers a parker to be woken when no entry is leased any more.
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
    /// Returns leased entries that were not collected to their places. Entries of a heap that has
    /// since been cleared are returned to the caller.
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

    pub(crate) enum Leased<T> {
        /// The feeder holds the entry.
        Now(CheckedOut<T>),
        /// The feeder must collect the entry after the section's effects have run.
        Later(EntryId),
    }

    impl<T> State<T> {
        /// Leases the earliest due entry. `feeder` is woken if the lease is recalled.
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

        /// Returns the leased entry, unless it has been taken back.
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

        /// Ends the lease of an entry that has been received.
        pub(crate) fn gone(&mut self, out: CheckedOut<()>, effects: &mut Effects) {
            self.leases.end(out.id(), effects);
            // If the queue has been cleared, there is no place to free.
            let _ = self.heap.settle(out);
            self.counts.taken += 1;
            self.freed(effects);
        }

        /// Returns a leased entry to its place. If the queue has since been cleared, the entry is
        /// handed to the caller, to be dropped.
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
