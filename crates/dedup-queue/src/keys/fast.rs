//! The fast paths: short sections, which neither read the time nor settle.
//!
//! Keys are taken and let go so while the queue is *settled*: there are no waiters and no metrics. They
//! are added so while *fast adds* are enabled: it is settled, open, and without anything that depends
//! on the time. That is how a busy queue mostly is, so these are kept short: they note no
//! times, and what they return fits into registers. What they do is what `queueing.rs` and `holding.rs`
//! do in general, `PROTOCOL.md` says why it is enough, and the random programs of `tests/model` go
//! through both.

use super::{Keys, Place};
use crate::records::{Delivery, On, Slot};

impl<K> Keys<K> {
    /// Whether keys may be added so.
    #[inline]
    pub(crate) fn has_fast_adds(&self) -> bool {
        self.fast_adds
    }

    /// A key without a record is to be delivered now.
    #[inline]
    pub(crate) fn add_fast(&mut self, hash: u64, key: K, twin: K) {
        let slot = self.records.insert(hash, key, twin);
        self.records[slot].delivery = Delivery::Now;
        self.ready.push_normal(&mut self.records, slot);
    }

    /// The key that has been ready longest goes to a worker, with its number and its failures. The low
    /// lane is empty, so what a record says of its lane is so before and after.
    #[inline]
    pub(crate) fn take_fast(&mut self) -> Option<(K, Place)> {
        let slot = self.ready.pop_normal(&mut self.records)?;
        self.held.count_in();
        let record = &mut self.records[slot];
        record.on = On::Held;
        record.delivery = Delivery::Nothing;
        let key = record.twin.take().expect("a ready key has its twin");
        Some((key, Place::new(slot, record.failures)))
    }

    /// A worker lets its key go, and no delivery is pending and nothing remembered: the record is gone, and
    /// the queue's copy of the key comes back. `None`: something is, or the record is far off, and
    /// [`finish`](Keys::finish) must see to it.
    #[inline]
    pub(crate) fn finish_fast(&mut self, slot: Slot, forget: bool) -> Option<K> {
        let record = self.records.get_near(slot)?;
        if record.delivery != Delivery::Nothing || (record.failures > 0 && !forget) {
            return None;
        }
        record.key.as_ref()?; // Handed over by a stop.
        record.on = On::None;
        self.held.count_out();
        let (own, _lent) = self.records.erase(slot);
        own
    }
}
