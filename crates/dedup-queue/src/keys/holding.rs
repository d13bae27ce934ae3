//! Keys go to workers and are let go; and what is remembered of them then.

use super::Keys;
use crate::policy::Policy;
use crate::records::{Cause, Delivery, Lane, On, Slot};

/// The key's record, and how often the key had failed when it was taken.
///
/// One word: a guard is moved right after it is made, and what was written in two pieces cannot be
/// read as one before it has reached the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u64);

impl Place {
    #[inline]
    pub(crate) fn new(slot: Slot, failures: u32) -> Self {
        Self(u64::from(slot) | u64::from(failures) << 32)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub(crate) fn slot(self) -> Slot {
        self.0 as Slot
    }

    pub(crate) fn failures(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A key that goes to a worker.
#[derive(Debug)]
pub(crate) struct Taken<K> {
    pub(crate) key: K,
    pub(crate) place: Place,
    /// Since its delivery was pending; for a delayed one, since it fell due.
    pub(crate) waited: u64,
}

/// What a worker says when it lets a key go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Done; failures are remembered.
    Done,
    /// Done; failures are forgotten.
    Forget,
    /// Its failures have brought it to its end: they are forgotten, and so is a try that is pending for
    /// them.
    GiveUp,
    /// To be delivered again at that time, whether it failed or not.
    Again { due: u64 },
    /// To be tried again at that time, for it has failed so often; or, with as many as before, goes
    /// back to wait for its try.
    Failed { due: u64, failures: u32 },
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
        record.delivery = Delivery::Nothing;
        record.taken = self.now;
        record.asked.set_held_lane(record.asked.lane());
        Some(Taken {
            key: record.twin.take().expect("a ready key has its twin"),
            place: Place::new(slot, record.failures),
            waited: self.now.saturating_sub(record.since),
        })
    }

    /// A worker lets its key go.
    pub(crate) fn finish(&mut self, slot: Slot, key: K, ending: Ending) -> Ended<K> {
        let worked = self.now.saturating_sub(self.records[slot].taken);
        match ending {
            Ending::Done | Ending::Again { .. } => {}
            Ending::Forget => self.forget_failures(slot),
            Ending::GiveUp => {
                self.forget_failures(slot);
                self.withdraw_retry(slot);
            }
            Ending::Failed { failures, due } => self.count_failure(slot, failures, due),
        }
        self.held.leave(&mut self.records, slot);
        let record = &self.records[slot];
        let is_over = matches!(ending, Ending::Done | Ending::Forget | Ending::GiveUp);
        if is_over && record.delivery == Delivery::Nothing && record.failures == 0 {
            let garbage = self.records.erase(slot);
            self.defer_drop(garbage);
            return Ended {
                worked,
                key: Some(key),
                ready: false,
            };
        }
        self.keep(slot, key);
        if !self.records[slot].asked.is_plain() {
            self.settle_asked(slot, is_over);
        }
        if matches!(ending, Ending::Again { .. }) {
            // The worker has asked for it: what is pending is no longer for failures alone.
            self.records[slot].asked.set_cause(Cause::Asked);
        }
        if self.records[slot].delivery == Delivery::Now {
            self.dirty -= 1;
            self.push_ready(slot);
        } else {
            match ending {
                Ending::Failed { due, .. } => self.delay_retry(slot, due),
                Ending::Again { due } => _ = self.delay(slot, due, Policy::Earliest),
                Ending::Done | Ending::Forget | Ending::GiveUp => {
                    if self.records[slot].delivery == Delivery::Nothing {
                        self.rest(slot);
                    }
                }
            }
        }
        Ended {
            worked,
            key: None,
            ready: self.records[slot].delivery == Delivery::Now, // It is not held any more.
        }
    }

    /// The key is being let go: in which lane it comes again, and whether its delivery gives way to the
    /// back-off.
    #[cold]
    fn settle_asked(&mut self, slot: Slot, is_over: bool) {
        let held_lane = self.records[slot].asked.held_lane();
        self.records[slot].asked.set_held_lane(Lane::Normal);
        if !is_over {
            self.ask(slot, held_lane); // It is to come again.
        }
        self.yield_to_backoff(slot);
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

    /// No delivery of the key is pending any more, and no worker holds it: it rests, or is gone.
    pub(super) fn rest(&mut self, slot: Slot) {
        if self.records[slot].failures > 0 {
            self.records[slot].since = self.now;
            self.resting.push(&mut self.records, slot);
            self.depend_on_time();
        } else {
            let garbage = self.records.erase(slot);
            self.defer_drop(garbage);
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

    /// The held key's failures, and when its back-off ends.
    pub(crate) fn backoff_of_held(&self, slot: Slot) -> (u32, u64) {
        (self.records[slot].failures, self.records[slot].backoff)
    }

    /// The key has failed so often, and its back-off ends then.
    pub(super) fn count_failure(&mut self, slot: Slot, failures: u32, backoff: u64) {
        let record = &mut self.records[slot];
        record.failures = failures;
        record.backoff = backoff;
    }

    fn forget_failures(&mut self, slot: Slot) {
        self.count_failure(slot, 0, 0);
    }

    /// The key is not tried again for its failures. Another pending delivery stays.
    fn withdraw_retry(&mut self, slot: Slot) {
        if self.records[slot].asked.cause() == Cause::Failure {
            self.withdraw(Some(slot), false);
        }
    }

    /// The key has no failures from now on.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.forget_failures(slot);
        if self.records[slot].on == On::Resting {
            self.resting.unlink(&mut self.records, slot);
            self.rest(slot);
        }
    }

    /// The key, held or not, has failed for the last time.
    pub(crate) fn give_up(&mut self, found: Option<Slot>) {
        if let Some(slot) = self.still(found) {
            self.withdraw_retry(slot);
        }
        self.forget_found(found);
    }

    /// As [`forget`](Keys::forget), of a key that was looked for.
    pub(crate) fn forget_found(&mut self, found: Option<Slot>) {
        if let Some(slot) = self.still(found) {
            self.forget(slot);
        }
    }
}
