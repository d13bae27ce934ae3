//! The end: no more adds, no more deliveries, and what is left.

use delay_queue::NEVER;

use super::{Keys, Phase};
use crate::policy::Pending;
use crate::records::{Delivery, On, Slot};

/// What is left of a queue, without the keys that guards hold.
pub(crate) struct Remaining<K> {
    pub(crate) ready: Vec<K>,
    pub(crate) delayed: Vec<(K, u64)>,
    /// Held by workers, and which delivery was pending besides.
    pub(crate) held: Vec<(K, Option<Pending>, u64)>,
}

impl<K> Remaining<K> {
    /// Puts what was left earlier in front.
    pub(crate) fn behind(self, earlier: Option<Self>) -> Self {
        let Some(mut all) = earlier else { return self };
        all.ready.extend(self.ready);
        all.delayed.extend(self.delayed);
        all.held.extend(self.held);
        all
    }
}

impl<K> Keys<K> {
    /// Adds are refused from now on. What is due has been moved before.
    pub(crate) fn shut_down(&mut self) {
        self.phase = self.phase.max(Phase::ShutDown);
        self.refresh_fast_adds();
    }

    /// Nothing is delivered from now on; everything that is left comes out.
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
            // One that was handed over by an earlier stop is not there any more.
            rest.held.extend(key.map(|key| (key, pending, due)));
        }
        while let Some((slot, due)) = self.delayed.pop() {
            let key = self.hand_over(slot);
            rest.delayed.extend(key.map(|key| (key, due)));
        }
        self.trim_delayed();
        rest
    }

    /// A key that is neither held nor on a list becomes a leftover. Its failures go with it.
    fn hand_over(&mut self, slot: Slot) -> Option<K> {
        self.records[slot].delivery = Delivery::Nothing;
        let (key, twin) = self.records.erase(slot);
        self.defer_drop((None, twin));
        key
    }

    /// How long the held keys have been held, in all, and the longest. Nothing, if times are not
    /// noted.
    pub(crate) fn unfinished(&self) -> (u64, u64) {
        let ages = self.records.walk(self.held.list());
        let ages = ages.map(|slot| self.now.saturating_sub(self.records[slot].taken));
        ages.fold((0, 0), |(sum, longest), age| {
            (u64::saturating_add(sum, age), age.max(longest))
        })
    }

    /// Returns memory that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.records.shrink();
        self.renew_delayed();
    }

    /// For how many keys there is memory.
    pub(crate) fn capacity(&self) -> usize {
        self.records.capacity()
    }
}
