//! Listing the keys without changing them.

use super::Keys;
use crate::policy::Pending;
use crate::records::{Delivery, Lane, On, Record, Slot};

/// A key with its state. Times are numbers of the queue's epoch.
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
    /// Lists the keys of `most` records from this one on, and returns the record after them, if
    /// there is one. This is the only section that clones keys. The keys listed so far belong to
    /// the caller, so a panic drops them when the lock is free.
    pub(crate) fn list(&self, from: Slot, most: usize, into: &mut Vec<Listed<K>>) -> Option<Slot> {
        let mut records = self.records.iter_from(from);
        for (_, record) in records.by_ref().take(most) {
            // A free record has no key, and neither has a record whose key was returned as a
            // leftover.
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
