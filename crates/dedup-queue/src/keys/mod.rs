//! What becomes of the keys: a state machine without waiters.
//!
//! Everything here runs under the queue's lock and runs no user code, so nothing of it can
//! panic half-way: keys are compared before a section begins ([`Keys::find`]), hashed and cloned
//! before the lock is taken, and dropped after it is free ([`Keys::garbage`]). Time comes in as a
//! number. What concerns others (waiters, drains, metrics) is read off afterwards.
//!
//! # Words
//! A delivery of a key is *pending* now or later, or not at all, and the key is *held* by a worker or
//! not. Pending now and not held: *ready*. Pending now and held: *dirty*. Pending later: *delayed*,
//! held or not. Neither pending nor held: *resting*, and remembered only for its failures.
//!
//! # Invariants, whenever the lock is free
//! 1. A key has one record at most, and has one only while it is held, pending, or has failures.
//!    So at most one delivery of it is pending, and no two workers hold it.
//! 2. The list `ready` holds exactly the ready ones, in the order in which they became so;
//!    `resting` exactly the resting ones, likewise; and `held` the held ones, which it only counts
//!    unless metrics ask how long they have been held.
//! 3. The heap has exactly one entry for each delayed key, and the record knows it.
//! 4. A record has its twin key unless it is held.
//! 5. Once shut down, no delivery becomes pending now that was not: so when `ready` and `dirty`
//!    are empty they stay so, and *closed* is for good.

use std::ops::AddAssign;

use delay_queue::wait::ReadySource;
use delay_queue::{EntryId, NEVER};

use crate::policy::Policy;
use crate::records::{Cause, Delivery, Garbage, HeldOnes, List, RESTING, Records, Slot};

mod delayed;
mod ending;
mod fast;
mod holding;
mod lanes;
mod listing;
mod queueing;

use delayed::Delayed;
pub(crate) use ending::Remaining;
pub(crate) use holding::{Ended, Ending, Place, Taken};
pub(crate) use lanes::Ready;
pub(crate) use listing::Listed;
pub(crate) use queueing::Pair;

/// How far the queue's life has got. It goes one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Open,
    /// Adds are refused; what is ready or dirty is still delivered.
    ShutDown,
    /// Nothing is delivered any more.
    Stopped,
}

pub(crate) struct Keys<K> {
    records: Records<K>,
    ready: Ready,
    held: HeldOnes,
    resting: List<RESTING>,
    dirty: usize,
    delayed: Delayed,
    phase: Phase,
    /// The latest time that was read.
    now: u64,
    /// Something may depend on the time. Set with whatever does, looked after whenever time is read.
    timed: bool,
    /// The queue is open, nothing depends on the time, nothing is to be settled, and there are no
    /// metrics: `keys/fast.rs`. Never `true` wrongly.
    fast_adds: bool,
    settings: Settings,
    /// A waiter may be concerned by what has changed, or keys are to be dropped, or the low lane has
    /// keys. Set with whatever makes it so, cleared by [`settled`](Keys::settled).
    unsettled: bool,
    /// What is to be reported to the metrics.
    pub(crate) metric_changes: MetricChanges,
    /// Keys to be dropped when the lock is free.
    pub(crate) garbage: Vec<Garbage<K>>,
}

/// What does not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    /// How long failures of a resting key are remembered; [`NEVER`]: for ever.
    pub(crate) expiry: u64,
    /// Times are to be noted, for metrics or for those who list the keys: so the clock must be read.
    pub(crate) metered: bool,
}

/// Changes since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetricChanges {
    /// Deliveries that became pending now.
    pub(crate) adds: u64,
    /// How many more of them there are.
    pub(crate) depth: i64,
}

impl AddAssign for MetricChanges {
    fn add_assign(&mut self, more: Self) {
        self.adds += more.adds;
        self.depth += more.depth;
    }
}

/// How many keys are in which state.
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
            held: HeldOnes::new(settings.metered),
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

    /// Nothing will be delivered any more.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.phase != Phase::Open && self.ready.len() == 0 && self.dirty == 0
    }

    /// Nothing is ready and nothing held.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.ready.len() == 0 && self.held.len() == 0
    }

    /// Nothing is pending and nothing held. What is delayed when adds are refused is left over: it is not
    /// pending any more.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_drained() && (self.phase != Phase::Open || self.delayed.len() == 0)
    }

    /// Whether anything here may depend on what time it is.
    #[inline]
    pub(crate) fn needs_time(&self) -> bool {
        self.timed
    }

    /// Whether it does.
    fn depends_on_time(&self) -> bool {
        self.settings.metered
            || (self.phase == Phase::Open && self.delayed.len() > 0)
            || (self.settings.expiry != NEVER && self.resting.len() > 0)
    }

    /// Whether the key has failures that may expire: to know since when it rests, the time must be
    /// read before it comes to rest.
    pub(crate) fn may_expire(&self, slot: Slot) -> bool {
        self.settings.expiry != NEVER && self.records[slot].failures > 0
    }

    /// The key's record. The only section part that runs a key's code (`Eq`), so it comes first.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl FnMut(&K) -> bool) -> Option<Slot> {
        self.records.find(hash, is)
    }

    /// Time has been read: what is due becomes ready, or dirty; old failures are forgotten.
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
                record.asked.set_cause(Cause::Asked); // It gives way no longer than until this time.
            }
            self.enqueue(slot, due);
        }
        self.trim_delayed();
    }

    /// Takes the entry of a delayed key out of the heap, and says when it was due.
    fn undelay(&mut self, entry: EntryId) -> u64 {
        let due = self.delayed.remove(entry);
        self.trim_delayed();
        due
    }

    /// Frees memory of the heap if most of it is not in use. O(log n) for each entry that has left.
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

    /// Something may depend on the time from now on.
    fn depend_on_time(&mut self) {
        self.timed = true;
        self.fast_adds = false;
    }

    /// A waiter may be concerned: the section settles.
    pub(crate) fn mark_unsettled(&mut self) {
        self.unsettled = true;
    }

    /// Whether this section has brought about what runs user code when the lock is free: metrics, or
    /// drops of keys. A worker that is about to wait lets it run first, and looks again: while it runs, its
    /// thread must not count as waiting.
    #[inline]
    pub(crate) fn has_user_code(&self) -> bool {
        !self.garbage.is_empty() || self.metric_changes != MetricChanges::default()
    }

    /// The section has settled. While `watched`, there are waiters, and the next settles too; and while
    /// the low lane has keys, for it is the short takes that know only one lane.
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

    /// These keys are to be dropped when the lock is free.
    fn defer_drop(&mut self, garbage: Garbage<K>) {
        self.garbage.push(garbage);
        self.mark_unsettled();
    }

    /// For metrics, if there are any.
    #[inline]
    fn note(&mut self, adds: u64, depth: i64) {
        if self.settings.metered {
            self.metric_changes.adds += adds;
            self.metric_changes.depth += depth;
        }
    }

    /// A slot found earlier in this section, unless it has expired since.
    #[inline]
    pub(crate) fn still(&self, found: Option<Slot>) -> Option<Slot> {
        found.filter(|&slot| self.records.has(slot))
    }
}

/// What waiters must know of the keys. Of one type, whatever the keys are: so what asks it is compiled once.
pub(crate) struct Ahead {
    now: u64,
    ready: usize,
    next_due: u64,
}

impl<K> Keys<K> {
    pub(crate) fn ahead(&self) -> Ahead {
        Ahead {
            now: self.now,
            ready: self.ready.len(),
            next_due: self.next_due(),
        }
    }

    /// When the next key falls due; [`NEVER`] if none does.
    pub(crate) fn next_due(&self) -> u64 {
        if self.phase != Phase::Open {
            return NEVER; // What falls due now is left over.
        }
        self.delayed.peek_due().unwrap_or(NEVER)
    }
}

impl ReadySource for Ahead {
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

/// [`NEVER`] if it does not fit.
pub(crate) fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(NEVER)
}
