//! Keys go to workers and are let go; and what is remembered of them then.

use super::Keys;
use crate::held::Place;
use crate::policy::Policy;
use crate::records::{On, Owed, Slot};

/// A key that goes to a worker.
#[derive(Debug)]
pub(crate) struct Taken<K> {
    pub(crate) key: K,
    pub(crate) place: Place,
    /// Since it came to be owed; for a delayed one, since it fell due.
    pub(crate) waited: u64,
}

/// What a worker says when it lets a key go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Done; failures are remembered.
    Done,
    /// Done; failures are forgotten.
    Forget,
    /// To be delivered again at that time; and it has failed so often, if that is said.
    Again { due: u64, failures: Option<u32> },
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Ended<K> {
    /// How long it was held.
    pub(crate) worked: u64,
    /// The worker's copy, if the queue does not need it.
    pub(crate) key: Option<K>,
    /// It is ready again at once.
    pub(crate) ready: bool,
}

impl<K> Keys<K> {
    /// The key that has been ready longest goes to a worker.
    pub(crate) fn take(&mut self) -> Option<Taken<K>> {
        let slot = self.ready.pop(&mut self.records)?;
        self.held.enter(&mut self.records, slot);
        self.note(0, -1);
        let record = &mut self.records[slot];
        record.owed = Owed::Nothing;
        record.taken = self.now;
        Some(Taken {
            key: record.twin.take().expect("a ready key has its twin"),
            place: Place::new(slot, record.failures),
            waited: self.now.saturating_sub(record.since),
        })
    }

    /// A worker lets its key go.
    pub(crate) fn finish(&mut self, slot: Slot, key: K, ending: Ending) -> Ended<K> {
        self.held.leave(&mut self.records, slot);
        let record = &mut self.records[slot];
        let worked = self.now.saturating_sub(record.taken);
        match ending {
            Ending::Done => {}
            Ending::Forget => record.failures = 0,
            Ending::Again { failures, .. } => record.failures = failures.unwrap_or(record.failures),
        }
        let ends = record.owed == Owed::Nothing && record.failures == 0;
        if ends && !matches!(ending, Ending::Again { .. }) {
            let gone = self.records.erase(slot);
            self.bury(gone);
            return Ended {
                worked,
                key: Some(key),
                ready: false,
            };
        }
        self.keep(slot, key);
        if self.records[slot].owed == Owed::Now {
            self.dirty -= 1;
            self.ready.push(&mut self.records, slot);
        } else if let Ending::Again { due, .. } = ending {
            self.owe_later(slot, due, Policy::Earliest);
        } else if self.records[slot].owed == Owed::Nothing {
            self.rest(slot);
        }
        Ended {
            worked,
            key: None,
            ready: self.records[slot].on == On::Ready,
        }
    }

    /// The worker's copy of a key comes back.
    fn keep(&mut self, slot: Slot, key: K) {
        let record = &mut self.records[slot];
        if record.key.is_some() {
            record.twin = Some(key);
        } else {
            record.key = Some(key); // Its own went as a leftover.
        }
    }

    /// Nothing is owed to the key any more, and nobody holds it: it rests, or is gone.
    pub(super) fn rest(&mut self, slot: Slot) {
        if self.records[slot].failures > 0 {
            self.records[slot].since = self.now;
            self.resting.push(&mut self.records, slot);
            self.depend_on_time();
        } else {
            let gone = self.records.erase(slot);
            self.bury(gone);
        }
    }

    /// How often the key has failed in a row.
    pub(crate) fn failures(&self, found: Option<Slot>) -> u32 {
        let slot = self.still(found);
        slot.map_or(0, |slot| self.records[slot].failures)
    }

    /// The same, of a held key.
    pub(crate) fn failures_of_held(&self, slot: Slot) -> u32 {
        self.records[slot].failures
    }

    /// The key has no failures from now on.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.records[slot].failures = 0;
        if self.records[slot].on == On::Resting {
            self.resting.unlink(&mut self.records, slot);
            self.rest(slot);
        }
    }

    /// As [`forget`](Keys::forget), of a key that was looked for.
    pub(crate) fn forget_found(&mut self, found: Option<Slot>) {
        if let Some(slot) = self.still(found) {
            self.forget(slot);
        }
    }
}
