//! Making deliveries pending, now or later, and cancelling them.

use delay_queue::NEVER;

use super::{Keys, Phase, nanos};
use crate::policy::{Added, Pending, Policy};
use crate::records::{Asked, Cause, Delivery, Lane, On, Slot};

/// A key and its clone for a guard, until they are taken.
pub(crate) type Pair<K> = Option<(K, K)>;

impl<K> Keys<K> {
    /// Adds a key without a record, to be delivered now.
    #[inline]
    pub(crate) fn add_new(&mut self, hash: u64, key: K, twin: K, lane: Lane) {
        let slot = self.records.insert(hash, key, twin);
        self.note(1, 1);
        let record = &mut self.records[slot];
        record.delivery = Delivery::Now;
        record.since = self.now;
        record.asked.set_lane(lane);
        self.push_ready(slot);
    }

    /// Adds a key with a record, to be delivered now.
    #[inline]
    pub(crate) fn add_known(&mut self, slot: Slot, lane: Lane) -> Added {
        // In the usual case, nothing about the request changes.
        let is_alike = lane == Lane::Normal && self.records[slot].asked == Asked::NOT;
        let moved_up = !is_alike && self.ask_anew(slot, lane);
        match self.records[slot].delivery {
            Delivery::Now if moved_up => Added::Moved,
            Delivery::Now => Added::Merged,
            Delivery::Nothing => {
                self.enqueue(slot, self.now);
                Added::New
            }
            Delivery::Later(entry) => {
                self.undelay(entry);
                self.records[slot].delivery = Delivery::Nothing;
                self.enqueue(slot, self.now);
                Added::Moved
            }
        }
    }

    #[cold]
    fn ask_anew(&mut self, slot: Slot, lane: Lane) -> bool {
        self.records[slot].asked.set_cause(Cause::Asked);
        self.ask(slot, lane)
    }

    /// Adds a key to be delivered at `due`, subject to the queue's policy.
    pub(crate) fn add_after(
        &mut self,
        found: Option<Slot>,
        hash: u64,
        pair: &mut Pair<K>,
        due: u64,
        lane: Lane,
    ) -> Added {
        let slot = self.still(found);
        let slot = slot.unwrap_or_else(|| self.insert(hash, pair));
        let moved_up = self.ask(slot, lane);
        let record = &mut self.records[slot];
        // An add that yields may be for an earlier time: then it stays.
        if record.asked.cause() != Cause::Yielding || record.delivery == Delivery::Now {
            record.asked.set_cause(Cause::Asked);
        }
        let added = self.delay(slot, due, self.settings.policy);
        if moved_up { Added::Moved } else { added }
    }

    /// Adds a key with a record, to be delivered when its back-off is over, or now if it has none.
    /// The caller has read the clock.
    pub(crate) fn add_yielding(&mut self, slot: Slot, lane: Lane) -> Added {
        let record = &mut self.records[slot];
        if record.on == On::Held {
            return self.add_yielding_held(slot, lane);
        }
        if record.backoff <= self.now {
            return self.add_known(slot, lane);
        }
        record.asked.set_cause(Cause::Asked);
        let due = record.backoff;
        let moved_up = self.ask(slot, lane);
        let added = self.delay(slot, due, Policy::Earliest);
        if moved_up { Added::Moved } else { added }
    }

    /// Whether there is a back-off to wait for depends on how the key is released: see `finish`.
    fn add_yielding_held(&mut self, slot: Slot, lane: Lane) -> Added {
        self.ask(slot, lane);
        let record = &mut self.records[slot];
        let before = record.asked.cause();
        match record.delivery {
            Delivery::Now => Added::Merged,
            Delivery::Nothing => {
                record.asked.set_cause(Cause::Yielding);
                self.enqueue(slot, self.now);
                Added::New
            }
            // Its existing time counts too, if it comes first.
            Delivery::Later(_) => {
                record.asked.set_cause(Cause::Yielding);
                if before == Cause::Yielding {
                    Added::Merged
                } else {
                    Added::Moved
                }
            }
        }
    }

    /// Called when the key is released and its failures have been counted or forgotten. An add that
    /// yields waits for the end of the back-off, or is pending now (the key is still held, so
    /// dirty) if there is none.
    pub(super) fn yield_to_backoff(&mut self, slot: Slot) {
        let record = &mut self.records[slot];
        if record.asked.cause() != Cause::Yielding {
            return;
        }
        record.asked.set_cause(Cause::Asked);
        let due = record.backoff;
        let waits = due > self.now;
        match record.delivery {
            Delivery::Now if waits => {
                record.delivery = Delivery::Nothing;
                self.dirty -= 1;
                self.note(0, -1);
                self.delay(slot, due, Policy::Earliest);
            }
            Delivery::Later(_) if waits => _ = self.delay(slot, due, Policy::Earliest),
            Delivery::Later(entry) if self.phase == Phase::Open => {
                record.delivery = Delivery::Now;
                record.since = self.now;
                self.undelay(entry);
                self.dirty += 1;
                self.note(1, 1);
            }
            // Pending now; or a leftover, because adds are rejected; or cancelled.
            _ => {}
        }
    }

    /// Sets the key's failures, and delivers it at `due` or earlier. Returns whether that is now.
    pub(crate) fn add_failed(
        &mut self,
        found: Option<Slot>,
        hash: u64,
        pair: &mut Pair<K>,
        due: u64,
        failures: u32,
    ) -> bool {
        let slot = self.still(found);
        let slot = slot.unwrap_or_else(|| self.insert(hash, pair));
        self.count_failure(slot, failures, due);
        self.ask(slot, Lane::Normal);
        self.delay_retry(slot, due);
        self.records[slot].delivery == Delivery::Now
    }

    /// Schedules a retry at `due`, unless the key is to be delivered earlier anyway.
    pub(super) fn delay_retry(&mut self, slot: Slot, due: u64) {
        if self.records[slot].delivery == Delivery::Nothing {
            self.records[slot].asked.set_cause(Cause::Failure);
        }
        self.delay(slot, due, Policy::Earliest);
    }

    #[inline]
    fn insert(&mut self, hash: u64, pair: &mut Pair<K>) -> Slot {
        let (key, twin) = pair.take().expect("the caller has not given its pair away");
        self.records.insert(hash, key, twin)
    }

    /// Makes a delivery of the key pending now. None may be pending.
    #[inline]
    pub(super) fn enqueue(&mut self, slot: Slot, since: u64) {
        self.note(1, 1);
        let record = &mut self.records[slot];
        record.delivery = Delivery::Now;
        record.since = since;
        match record.on {
            On::Held => self.dirty += 1,
            On::Resting => {
                self.resting.unlink(&mut self.records, slot);
                self.push_ready(slot);
            }
            On::None | On::Ready | On::ReadyLow => self.push_ready(slot),
        }
    }

    pub(super) fn delay(&mut self, slot: Slot, due: u64, policy: Policy) -> Added {
        let record = &self.records[slot];
        let (entry, due, added) = match record.delivery {
            Delivery::Now => return Added::Merged,
            Delivery::Nothing => {
                let due = match policy {
                    Policy::DebounceMaxWait(wait) => due.min(self.now.saturating_add(nanos(wait))),
                    _ => due,
                };
                (None, due, Added::New)
            }
            Delivery::Later(entry) => {
                let was = self.delayed.due(entry).unwrap_or(NEVER);
                let due = match policy {
                    Policy::Earliest => due.min(was),
                    Policy::Latest => due.max(was),
                    Policy::Debounce => due,
                    Policy::DebounceMaxWait(wait) => {
                        due.min(record.since.saturating_add(nanos(wait)))
                    }
                };
                if due == was {
                    return Added::Merged;
                }
                (Some(entry), due, Added::Moved)
            }
        };
        if due <= self.now && self.phase == Phase::Open {
            if let Some(entry) = entry {
                self.undelay(entry);
                self.records[slot].delivery = Delivery::Nothing;
            }
            self.enqueue(slot, self.now);
        } else if let Some(entry) = entry {
            self.delayed.reset(entry, due);
        } else {
            if self.records[slot].on == On::Resting {
                self.resting.unlink(&mut self.records, slot);
            }
            let entry = self.delayed.push(slot, due);
            self.depend_on_time();
            let record = &mut self.records[slot];
            record.delivery = Delivery::Later(entry);
            record.since = self.now;
        }
        added
    }

    /// Cancels the pending delivery, or only a delayed one.
    pub(crate) fn withdraw(&mut self, found: Option<Slot>, delayed_only: bool) -> Option<Pending> {
        let slot = self.still(found)?;
        let held = self.records[slot].on == On::Held;
        let pending = match self.records[slot].delivery {
            Delivery::Nothing => return None,
            Delivery::Now if delayed_only => return None,
            Delivery::Now if held => {
                self.dirty -= 1;
                self.note(0, -1);
                Pending::Dirty
            }
            Delivery::Now => {
                self.ready.unlink(&mut self.records, slot);
                self.note(0, -1);
                Pending::Ready
            }
            Delivery::Later(entry) => {
                self.undelay(entry);
                Pending::Delayed
            }
        };
        self.records[slot].delivery = Delivery::Nothing;
        self.records[slot].asked.set_cause(Cause::Asked);
        if !held {
            self.rest(slot);
        }
        Some(pending)
    }
}
