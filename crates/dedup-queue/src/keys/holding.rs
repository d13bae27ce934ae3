//! Taking and releasing keys, and remembering their failures.

use std::time::Duration;

use delay_queue::NEVER;

use super::Keys;
use crate::policy::{Policy, Retried};
use crate::records::{Cause, Delivery, Lane, On, Slot};

/// The time from `now` to `due`.
pub(crate) fn time_left(due: u64, now: u64) -> Duration {
    if due == NEVER {
        Duration::MAX
    } else {
        Duration::from_nanos(due.saturating_sub(now))
    }
}

/// The key's record, and its number of failures when it was taken.
///
/// One word: a guard is moved right after it is created, and two separate writes cannot be read as
/// one before they have reached the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u64);

impl Place {
    #[inline]
    pub(crate) fn new(slot: Slot, failures: u32) -> Self {
        Self(u64::from(slot) | u64::from(failures) << 32)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the slot is the low half")]
    pub(crate) fn slot(self) -> Slot {
        self.0 as Slot
    }

    pub(crate) fn failures(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[derive(Debug)]
pub(crate) struct Taken<K> {
    pub(crate) key: K,
    pub(crate) place: Place,
    /// Time since its delivery was pending; for a delayed one, since it fell due.
    pub(crate) waited: u64,
}

/// The end of a worker's work on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Done; failures are remembered.
    Done,
    /// Done; failures are forgotten.
    Forget,
    /// The key has used all its attempts: its failures are forgotten, and a retry that is pending
    /// for them is cancelled.
    GiveUp,
    /// The key is delivered again at that time. Counts no failure.
    Again { due: u64 },
    /// The key is retried at that time, with this number of failures; with an unchanged number, it
    /// returns to its back-off.
    Failed { due: u64, failures: u32 },
}

/// Result of releasing a key.
#[derive(Debug)]
pub(crate) struct Ended<K> {
    /// Time for which it was held.
    pub(crate) worked: u64,
    /// The worker's copy, if the queue does not need it.
    pub(crate) key: Option<K>,
    pub(crate) ready: bool,
}

impl<K> Keys<K> {
    /// Takes the key that has been ready longest.
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
            // The worker has requested the delivery: it is no longer only for failures.
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
            ready: self.records[slot].delivery == Delivery::Now, // The key is no longer held.
        }
    }

    /// Determines, for a key that is being released, the lane of its next delivery, and whether
    /// that yields to the back-off.
    #[cold]
    fn settle_asked(&mut self, slot: Slot, is_over: bool) {
        let held_lane = self.records[slot].asked.held_lane();
        self.records[slot].asked.set_held_lane(Lane::Normal);
        if !is_over {
            self.ask(slot, held_lane); // It is to come again.
        }
        self.yield_to_backoff(slot);
    }

    /// Keeps the worker's copy of a key if the queue needs one.
    fn keep(&mut self, slot: Slot, key: K) {
        let record = &mut self.records[slot];
        if record.key.is_some() {
            record.twin = Some(key);
        } else {
            record.key = Some(key); // The queue's own copy was returned as a leftover.
        }
    }

    /// Called when no delivery of the key is pending and no worker holds it: it rests, or is
    /// erased.
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

    pub(crate) fn failures(&self, found: Option<Slot>) -> u32 {
        let slot = self.still(found);
        slot.map_or(0, |slot| self.records[slot].failures)
    }

    /// Returns when the key is delivered, if it is ready or waits for the end of a back-off.
    pub(crate) fn waits(&self, found: Option<Slot>) -> Option<Retried> {
        let record = &self.records[self.still(found)?];
        match record.delivery {
            _ if record.on == On::Held => None,
            Delivery::Now => Some(Retried::Ready),
            Delivery::Later(entry) if record.backoff > self.now => {
                let due = self.delayed.due(entry)?;
                Some(Retried::After(time_left(due, self.now)))
            }
            Delivery::Later(_) | Delivery::Nothing => None,
        }
    }

    pub(crate) fn failures_of_held(&self, slot: Slot) -> u32 {
        self.records[slot].failures
    }

    pub(crate) fn backoff_of_held(&self, slot: Slot) -> (u32, u64) {
        (self.records[slot].failures, self.records[slot].backoff)
    }

    pub(super) fn count_failure(&mut self, slot: Slot, failures: u32, backoff: u64) {
        let record = &mut self.records[slot];
        record.failures = failures;
        record.backoff = backoff;
    }

    fn forget_failures(&mut self, slot: Slot) {
        self.count_failure(slot, 0, 0);
    }

    /// Cancels the key's retry. Another pending delivery stays.
    fn withdraw_retry(&mut self, slot: Slot) {
        if self.records[slot].asked.cause() == Cause::Failure {
            self.withdraw(Some(slot), false);
        }
    }

    pub(crate) fn forget(&mut self, slot: Slot) {
        self.forget_failures(slot);
        if self.records[slot].on == On::Resting {
            self.resting.unlink(&mut self.records, slot);
            self.rest(slot);
        }
    }

    pub(crate) fn give_up(&mut self, found: Option<Slot>) {
        if let Some(slot) = self.still(found) {
            self.withdraw_retry(slot);
        }
        self.forget_found(found);
    }

    pub(crate) fn forget_found(&mut self, found: Option<Slot>) {
        if let Some(slot) = self.still(found) {
            self.forget(slot);
        }
    }
}
