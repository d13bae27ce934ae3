//! The states of the keys: a state machine without waiters.
//!
//! All methods run under the queue's lock and run no user code, so none of them can panic half-way:
//! keys are compared before a section begins ([`Keys::find`]), hashed and cloned before the lock is
//! taken, and dropped after it is released ([`Keys::garbage`]). Times are passed as numbers. The
//! consequences for other parties (waiters, drains, metrics) are read off afterwards.
//!
//! # Terms
//! A key's delivery is *pending* now, pending later, or not pending, and the key is *held* by a
//! worker or not. Pending now and not held: *ready*. Pending now and held: *dirty*. Pending later:
//! *delayed*, held or not. Neither pending nor held: *resting*, remembered only for its failures.
//!
//! # Invariants, whenever the lock is free
//! 1. A key has at most one record, and only while it is held, pending, or has failures. So at most
//!    one delivery of it is pending, and no two workers hold it.
//! 2. The list `ready` has exactly the ready keys, in the order in which they became ready;
//!    `resting` has exactly the resting keys, likewise; and `held` has the held keys, which it only
//!    counts unless metrics ask how long they have been held.
//! 3. The heap has exactly one entry for each delayed key, and the record refers to it.
//! 4. A record has its twin key unless the key is held.
//! 5. After shutting down, no new delivery becomes pending now: so once there are no ready or dirty
//!    keys, there never are, and *closed* is final.

use std::ops::AddAssign;

use delay_queue::wait::ReadySource;
use delay_queue::{EntryId, NEVER};

use crate::policy::Policy;
use crate::records::{Cause, Delivery, Garbage, HeldRecords, List, RESTING, Records, Slot};

mod delayed;
mod ending;
mod fast;
mod holding;
mod lanes;
mod listing;
mod queueing;

use delayed::Delayed;
pub(crate) use ending::Remaining;
pub(crate) use holding::{Ended, Ending, Place, Taken, time_left};
pub(crate) use lanes::Ready;
pub(crate) use listing::Listed;
pub(crate) use queueing::Pair;

/// The phase of the queue's life. Never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Open,
    /// Adds are rejected; ready and dirty keys are still delivered.
    ShutDown,
    /// No key is delivered any more.
    Stopped,
}

pub(crate) struct Keys<K> {
    records: Records<K>,
    ready: Ready,
    held: HeldRecords,
    resting: List<RESTING>,
    dirty: usize,
    delayed: Delayed,
    phase: Phase,
    /// The latest reading of the clock.
    now: u64,
    /// Whether anything may depend on the time. Set by everything that does, updated at each
    /// reading.
    timed: bool,
    /// Whether the queue is open, nothing depends on the time, nothing has to be settled, and there
    /// are no metrics (see `keys/fast.rs`). Never `true` wrongly.
    fast_adds: bool,
    settings: Settings,
    /// Whether a change may concern a waiter, keys have to be dropped, or the low lane has keys.
    /// Set by the respective change, cleared by [`settled`](Keys::settled).
    unsettled: bool,
    pub(crate) metric_changes: MetricChanges,
    /// Keys to be dropped when the lock is free.
    pub(crate) garbage: Vec<Garbage<K>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    /// Duration for which failures of a resting key are remembered; [`NEVER`]: for ever.
    pub(crate) expiry: u64,
    /// Whether times are recorded, for metrics or for listing the keys: so the clock must be read.
    pub(crate) metered: bool,
}

/// Changes since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetricChanges {
    /// Number of deliveries that became pending now.
    pub(crate) adds: u64,
    /// Change of the number of deliveries that are pending now.
    pub(crate) depth: i64,
}

impl AddAssign for MetricChanges {
    fn add_assign(&mut self, more: Self) {
        self.adds += more.adds;
        self.depth += more.depth;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) ready: usize,
    pub(crate) low: usize,
    pub(crate) held: usize,
    pub(crate) dirty: usize,
    pub(crate) delayed: usize,
    pub(crate) resting: usize,
}

impl<K> Keys<K> {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            records: Records::new(),
            ready: Ready::new(),
            held: HeldRecords::new(settings.metered),
            resting: List::new(),
            dirty: 0,
            delayed: Delayed::new(),
            phase: Phase::Open,
            now: 0,
            timed: settings.metered,
            unsettled: settings.metered,
            fast_adds: !settings.metered,
            settings,
            metric_changes: MetricChanges::default(),
            garbage: Vec::new(),
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            ready: self.ready.len(),
            low: self.ready.low(),
            held: self.held.len(),
            dirty: self.dirty,
            delayed: self.delayed.len(),
            resting: self.resting.len(),
        }
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns whether no key will be delivered any more.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.phase != Phase::Open && self.ready.len() == 0 && self.dirty == 0
    }

    /// Returns whether no key is ready or held.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.ready.len() == 0 && self.held.len() == 0
    }

    /// Returns whether no key is pending or held. Keys that are delayed after a shut-down are
    /// leftovers: they are no longer pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_drained() && (self.phase != Phase::Open || self.delayed.len() == 0)
    }

    /// Returns whether anything may depend on the time.
    #[inline]
    pub(crate) fn needs_time(&self) -> bool {
        self.timed
    }

    /// Returns whether anything does depend on the time.
    fn depends_on_time(&self) -> bool {
        self.settings.metered
            || (self.phase == Phase::Open && self.delayed.len() > 0)
            || (self.settings.expiry != NEVER && self.resting.len() > 0)
    }

    /// Returns whether the key has failures that may expire: then the time must be read before the
    /// key comes to rest.
    pub(crate) fn may_expire(&self, slot: Slot) -> bool {
        self.settings.expiry != NEVER && self.records[slot].failures > 0
    }

    /// Returns the key's record. The only part of a section that runs a key's code (`Eq`), so it
    /// comes first.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl FnMut(&K) -> bool) -> Option<Slot> {
        self.records.find(hash, is)
    }

    /// Records a reading of the clock: due keys become ready or dirty, and old failures are
    /// forgotten.
    #[inline]
    pub(crate) fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.timed = self.depends_on_time();
        self.refresh_fast_adds();
        if self.phase == Phase::Open && self.delayed.peek_due().is_some_and(|due| due <= self.now) {
            self.fall_due();
        }
        if self.resting.len() > 0 && self.settings.expiry != NEVER {
            self.expire();
        }
    }

    fn fall_due(&mut self) {
        while let Some((slot, due)) = self.delayed.pop_ready(self.now) {
            let record = &mut self.records[slot];
            record.delivery = Delivery::Nothing;
            if record.asked.cause() == Cause::Yielding {
                record.asked.set_cause(Cause::Asked); // The add yields no longer than until this time.
            }
            self.enqueue(slot, due);
        }
        self.trim_delayed();
    }

    /// Removes the entry of a delayed key from the heap, and returns its due time.
    fn undelay(&mut self, entry: EntryId) -> u64 {
        let due = self.delayed.remove(entry);
        self.trim_delayed();
        due
    }

    /// Frees memory of the heap if most of it is unused. O(log n) for each entry that has left.
    #[inline]
    fn trim_delayed(&mut self) {
        if self.delayed.is_sparse() {
            self.renew_delayed();
        }
    }

    #[cold]
    #[inline(never)]
    fn renew_delayed(&mut self) {
        for (slot, entry) in self.delayed.renew() {
            self.records[slot].delivery = Delivery::Later(entry);
        }
    }

    fn expire(&mut self) {
        while let Some(slot) = self.resting.first()
            && self.records[slot]
                .since
                .saturating_add(self.settings.expiry)
                <= self.now
        {
            self.resting.unlink(&mut self.records, slot);
            let garbage = self.records.erase(slot);
            self.defer_drop(garbage);
        }
    }

    fn depend_on_time(&mut self) {
        self.timed = true;
        self.fast_adds = false;
    }

    /// Records that a waiter may be concerned: the section settles.
    pub(crate) fn mark_unsettled(&mut self) {
        self.unsettled = true;
    }

    /// Returns whether this section has caused user code to be run when the lock is free: metrics,
    /// or drops of keys. A worker that is about to wait first lets that code run, and looks again:
    /// while the code runs, its thread must not count as waiting.
    #[inline]
    pub(crate) fn has_user_code(&self) -> bool {
        !self.garbage.is_empty() || self.metric_changes != MetricChanges::default()
    }

    /// Called after the section has settled. If `watched`, there are waiters, and the next section
    /// settles too. The same holds while the low lane has keys, because the fast takes know only
    /// the normal lane.
    pub(crate) fn settled(&mut self, watched: bool) {
        self.unsettled = watched || self.settings.metered || self.ready.has_low();
        self.refresh_fast_adds();
    }

    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        !self.unsettled
    }

    fn refresh_fast_adds(&mut self) {
        self.fast_adds = !self.timed && !self.unsettled && self.phase == Phase::Open;
    }

    /// Registers keys to be dropped when the lock is free.
    fn defer_drop(&mut self, garbage: Garbage<K>) {
        self.garbage.push(garbage);
        self.mark_unsettled();
    }

    /// Records changes for metrics, if there are any.
    #[inline]
    fn note(&mut self, adds: u64, depth: i64) {
        if self.settings.metered {
            self.metric_changes.adds += adds;
            self.metric_changes.depth += depth;
        }
    }

    /// Returns a slot found earlier in this section, unless it has expired since.
    #[inline]
    pub(crate) fn still(&self, found: Option<Slot>) -> Option<Slot> {
        found.filter(|&slot| self.records.has(slot))
    }
}

/// The keys as seen by waiters. Not generic, so the code that uses it is compiled once for all
/// keys.
pub(crate) struct WaitersView {
    now: u64,
    ready: usize,
    next_due: u64,
}

impl<K> Keys<K> {
    pub(crate) fn waiters_view(&self) -> WaitersView {
        WaitersView {
            now: self.now,
            ready: self.ready.len(),
            next_due: self.next_due(),
        }
    }

    /// Returns when the next key falls due; [`NEVER`] if none does.
    pub(crate) fn next_due(&self) -> u64 {
        if self.phase != Phase::Open {
            return NEVER; // Delayed keys are leftovers now.
        }
        self.delayed.peek_due().unwrap_or(NEVER)
    }
}

impl ReadySource for WaitersView {
    fn now(&self) -> u64 {
        self.now
    }

    fn ready(&mut self, limit: usize) -> usize {
        self.ready.min(limit)
    }

    fn next_due(&mut self) -> u64 {
        self.next_due
    }
}

/// Returns [`NEVER`] if the duration does not fit.
pub(crate) fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(NEVER)
}
