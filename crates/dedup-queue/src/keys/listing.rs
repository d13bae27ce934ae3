//! What there is, read without changing it.

use super::Keys;
use crate::policy::Pending;
use crate::records::{Delivery, Lane, On, Record, Slot};

/// A key with its state. Times are the queue's.
#[derive(Debug)]
pub(crate) struct Listed<K> {
    pub(crate) key: K,
    pub(crate) held: bool,
    pub(crate) pending: Option<Pending>,
    pub(crate) low: bool,
    pub(crate) due: Option<u64>,
    pub(crate) pending_since: Option<u64>,
    pub(crate) held_since: Option<u64>,
    pub(crate) failures: u32,
}

impl<K: Clone> Keys<K> {
    /// Lists the keys of `most` records from this one on, and says which record comes then, if there is
    /// one. Clones keys: the one section that does. What it has listed so far is the caller's, so a
    /// panic drops it when the lock is free.
    pub(crate) fn list(&self, from: Slot, most: usize, into: &mut Vec<Listed<K>>) -> Option<Slot> {
        let mut records = self.records.iter_from(from);
        for (_, record) in records.by_ref().take(most) {
            // A free record has no key, and neither has one whose key was handed over as a leftover.
            if let Some(key) = &record.key {
                // USER CODE: the key's `Clone`, under the lock, for a few keys at a time. A panic ends the listing.
                into.push(self.listed(key.clone(), record));
            }
        }
        records.next().map(|(slot, _)| slot)
    }

    fn listed(&self, key: K, record: &Record<K>) -> Listed<K> {
        let held = record.on == On::Held;
        let (pending, due) = match record.delivery {
            Delivery::Nothing => (None, None),
            Delivery::Now if held => (Some(Pending::Dirty), None),
            Delivery::Now => (Some(Pending::Ready), None),
            Delivery::Later(entry) => (Some(Pending::Delayed), self.delayed.due(entry)),
        };
        let noted = |is_so: bool, time: u64| (is_so && self.settings.metered).then_some(time);
        Listed {
            key,
            held,
            pending,
            low: pending.is_some() && record.asked.lane() == Lane::Low,
            due,
            pending_since: noted(pending.is_some(), record.since),
            held_since: noted(held, record.taken),
            failures: record.failures,
        }
    }
}
