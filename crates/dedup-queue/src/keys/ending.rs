//! The end of a queue: no more adds, no more deliveries, and the leftovers.

use delay_queue::NEVER;

use super::{Keys, Phase};
use crate::policy::Pending;
use crate::records::{Delivery, On, Slot};

/// Leftovers of a queue, without the keys that guards hold.
pub(crate) struct Remaining<K> {
    pub(crate) ready: Vec<K>,
    pub(crate) delayed: Vec<(K, u64)>,
    /// Keys held by workers, with their further pending deliveries.
    pub(crate) held: Vec<(K, Option<Pending>, u64)>,
}

impl<K> Remaining<K> {
    /// Puts earlier leftovers in front.
    pub(crate) fn behind(self, earlier: Option<Self>) -> Self {
        let Some(mut all) = earlier else { return self };
        all.ready.extend(self.ready);
        all.delayed.extend(self.delayed);
        all.held.extend(self.held);
        all
    }
}

impl<K> Keys<K> {
    /// Rejects adds from now on. The caller has processed the keys that are due.
    pub(crate) fn shut_down(&mut self) {
        self.phase = self.phase.max(Phase::ShutDown);
        self.refresh_fast_adds();
    }

    /// Stops delivery, and returns all leftovers.
    pub(crate) fn stop(&mut self) -> Remaining<K> {
        self.phase = Phase::Stopped;
        self.refresh_fast_adds();
        let mut rest = Remaining {
            ready: Vec::with_capacity(self.ready.len()),
            delayed: Vec::with_capacity(self.delayed.len()),
            held: Vec::with_capacity(self.held.len()),
        };
        while let Some(slot) = self.ready.pop(&mut self.records) {
            self.note(0, -1);
            rest.ready.extend(self.hand_over(slot));
        }
        for slot in self.records.search(On::Held) {
            let record = &mut self.records[slot];
            let delivery = std::mem::replace(&mut record.delivery, Delivery::Nothing);
            let key = record.key.take();
            let (pending, due) = match delivery {
                Delivery::Nothing => (None, NEVER),
                Delivery::Now => {
                    self.dirty -= 1;
                    self.note(0, -1);
                    (Some(Pending::Dirty), NEVER)
                }
                Delivery::Later(entry) => {
                    let due = self.undelay(entry);
                    (Some(Pending::Delayed), due)
                }
            };
            // A key that an earlier stop has returned is no longer there.
            rest.held.extend(key.map(|key| (key, pending, due)));
        }
        while let Some((slot, due)) = self.delayed.pop() {
            let key = self.hand_over(slot);
            rest.delayed.extend(key.map(|key| (key, due)));
        }
        self.trim_delayed();
        rest
    }

    /// Removes a key that is neither held nor on a list, with its failures, and returns it as a
    /// leftover.
    fn hand_over(&mut self, slot: Slot) -> Option<K> {
        self.records[slot].delivery = Delivery::Nothing;
        let (key, twin) = self.records.erase(slot);
        self.defer_drop((None, twin));
        key
    }

    /// Returns for how long the held keys have been held, in total, and the longest. Zero if times
    /// are not recorded.
    pub(crate) fn unfinished(&self) -> (u64, u64) {
        let ages = self.records.walk(self.held.list());
        let ages = ages.map(|slot| self.now.saturating_sub(self.records[slot].taken));
        ages.fold((0, 0), |(sum, longest), age| {
            (u64::saturating_add(sum, age), age.max(longest))
        })
    }

    pub(crate) fn shrink(&mut self) {
        self.records.shrink();
        self.renew_delayed();
    }

    pub(crate) fn capacity(&self) -> usize {
        self.records.capacity()
    }
}
