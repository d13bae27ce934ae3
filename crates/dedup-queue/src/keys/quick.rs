//! The short sections, which neither read the time nor leave anybody to be told.
//!
//! Keys are taken and let go so while the queue is *settled*: nobody waits to be told of anything and
//! nobody measures. They are added so while it is *quiet*: settled, open, and without anything that
//! depends on the time. That is how a busy queue mostly is, so these are kept short: they note no
//! times, and what they return fits into registers. What they do is what `owing.rs` and `holding.rs`
//! do in general, `PROTOCOL.md` says why it is enough, and the random programs of `tests/model` go
//! through both.

use super::Keys;
use crate::held::Place;
use crate::records::{On, Owed, Slot};

impl<K> Keys<K> {
    /// Whether keys may be added so.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// A key without a record is to be delivered now.
    #[inline]
    pub(crate) fn add_quick(&mut self, hash: u64, key: K, twin: K) {
        let slot = self.records.insert(hash, key, twin);
        self.records[slot].owed = Owed::Now;
        self.ready.push(&mut self.records, slot);
    }

    /// The key that has been ready longest goes to a worker, with its number and its failures.
    #[inline]
    pub(crate) fn take_quick(&mut self) -> Option<(K, Place)> {
        let slot = self.ready.pop(&mut self.records)?;
        self.held.count_in();
        let record = &mut self.records[slot];
        record.on = On::Held;
        record.owed = Owed::Nothing;
        let key = record.twin.take().expect("a ready key has its twin");
        Some((key, Place::new(slot, record.failures)))
    }

    /// A worker lets its key go, and nothing is owed to it or remembered of it: the record is gone, and
    /// the queue's copy of the key comes back. `None`: something is, and
    /// [`finish`](Keys::finish) must see to it.
    #[inline]
    pub(crate) fn finish_quick(&mut self, slot: Slot, forget: bool) -> Option<K> {
        let record = &mut self.records[slot];
        if record.owed != Owed::Nothing || (record.failures > 0 && !forget) {
            return None;
        }
        record.key.as_ref()?; // Handed over by a stop.
        record.on = On::None;
        self.held.count_out();
        let (own, _lent) = self.records.erase(slot);
        own
    }
}
