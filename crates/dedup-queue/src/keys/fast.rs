//! The fast paths: short sections that neither read the time nor settle.
//!
//! Keys are taken and released this way while the queue is *settled*: it has no waiters and no
//! metrics. They are added this way while *fast adds* are enabled: the queue is settled, open, and
//! contains nothing that depends on the time. A busy queue is usually in that state, so these
//! sections are kept short: they record no times, and their results fit into registers. They are
//! special cases of `queueing.rs` and `holding.rs`; `PROTOCOL.md` explains why they are sufficient,
//! and the random programs of `tests/model` use both paths.

use super::{Keys, Place};
use crate::records::{Delivery, On, Slot};

impl<K> Keys<K> {
    #[inline]
    pub(crate) fn has_fast_adds(&self) -> bool {
        self.fast_adds
    }

    /// Adds a key without a record, to be delivered now.
    #[inline]
    pub(crate) fn add_fast(&mut self, hash: u64, key: K, twin: K) {
        let slot = self.records.insert(hash, key, twin);
        self.records[slot].delivery = Delivery::Now;
        self.ready.push_normal(&mut self.records, slot);
    }

    /// Takes the key that has been ready longest, with its slot and its failures. The low lane is
    /// empty, so the lane recorded for the key does not change.
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

    /// Releases a key without a pending delivery or failures: erases its record, and returns the
    /// queue's copy of the key. Returns `None` if there is a delivery or a failure, or if the
    /// record is an exile; then the caller must call [`finish`](Keys::finish).
    #[inline]
    pub(crate) fn finish_fast(&mut self, slot: Slot, forget: bool) -> Option<K> {
        let record = self.records.get_near(slot)?;
        if record.delivery != Delivery::Nothing || (record.failures > 0 && !forget) {
            return None;
        }
        record.key.as_ref()?; // The key was returned by a stop.
        record.on = On::None;
        self.held.count_out();
        let (own, _lent) = self.records.erase(slot);
        own
    }
}
