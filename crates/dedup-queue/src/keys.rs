//! What becomes of the keys: a state machine that waits for nobody.
//!
//! Everything here runs under the queue's lock and runs no foreign code, so nothing of it can
//! panic half-way: keys are compared before a section begins ([`Keys::find`]), hashed and cloned
//! before the lock is taken, and dropped after it is free ([`Keys::gone`]). Time comes in as a
//! number. What others must be told of (takers, drainers, metrics) is read off afterwards.
//!
//! # Words
//! A key is *owed* a delivery now or later, or nothing, and it is *held* by a worker or not. Owed
//! now and not held: *ready*. Owed now and held: *dirty*. Owed later: *delayed*, held or not.
//! Neither owed nor held: *resting*, and remembered only for its failures.
//!
//! # Invariants, whenever the lock is free
//! 1. A key has one record at most, and has one only while it is held, owed something, or has
//!    failures. So at most one delivery of it is owed, and no two workers hold it.
//! 2. The list `ready` holds exactly the ready ones, in the order in which they became so;
//!    `resting` exactly the resting ones, likewise; and `held` the held ones, which it only counts
//!    unless metrics ask how long they have been held.
//! 3. The heap has exactly one entry for each delayed key, and the record knows it.
//! 4. A record has its twin key unless it is held.
//! 5. Once shut down, no key becomes owed a delivery now that was not: so when `ready` and `dirty`
//!    are empty they stay so, and *closed* is for good.

use delay_queue::takers::Stock;
use delay_queue::{DelayHeap, NEVER};

use crate::policy::{Added, Pending, Policy};
use crate::records::{Gone, List, On, Owed, Records, Slot};

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
    ready: List,
    held: List,
    resting: List,
    dirty: usize,
    delayed: DelayHeap<Slot>,
    phase: Phase,
    /// The latest time that was read.
    now: u64,
    /// Something may depend on the time. Set with whatever does, looked after whenever time is read.
    timed: bool,
    settings: Settings,
    /// Somebody may have to be told of what has changed, or has keys to drop. Set with whatever
    /// makes it so, looked after by [`State::settle`](crate::state::State::settle).
    pub(crate) unsettled: bool,
    /// What metrics are to be told.
    pub(crate) noted: Noted,
    /// Keys to be dropped when the lock is free.
    pub(crate) gone: Vec<Gone<K>>,
}

/// What does not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    /// How long failures of a resting key are remembered; [`NEVER`]: for ever.
    pub(crate) expiry: u64,
    /// Times are to be noted, so the clock must be read.
    pub(crate) metered: bool,
}

/// Changes since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Deliveries that came to be owed now.
    pub(crate) adds: u64,
    /// How many more of them there are.
    pub(crate) depth: i64,
}

/// A key, and its twin for a guard, until they are taken.
pub(crate) type Pair<K> = Option<(K, K)>;

/// A key that goes to a worker.
#[derive(Debug)]
pub(crate) struct Taken<K> {
    pub(crate) key: K,
    pub(crate) slot: Slot,
    pub(crate) failures: u32,
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

/// What is left of a queue, without the keys that guards hold.
pub(crate) struct Rest<K> {
    pub(crate) ready: Vec<K>,
    pub(crate) delayed: Vec<(K, u64)>,
    /// Held by workers, and what was owed to them besides.
    pub(crate) held: Vec<(K, Option<Pending>, u64)>,
}

/// How many keys are in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) ready: usize,
    pub(crate) held: usize,
    pub(crate) dirty: usize,
    pub(crate) delayed: usize,
    pub(crate) resting: usize,
}

impl<K> Keys<K> {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            records: Records::new(),
            ready: List::new(On::Ready, true),
            held: List::new(On::Held, settings.metered),
            resting: List::new(On::Resting, true),
            dirty: 0,
            delayed: DelayHeap::new(),
            phase: Phase::Open,
            now: 0,
            timed: settings.metered,
            unsettled: settings.metered,
            settings,
            noted: Noted::default(),
            gone: Vec::new(),
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            ready: self.ready.len(),
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

    /// Whether anything here may depend on what time it is.
    #[inline]
    pub(crate) fn needs_time(&self) -> bool {
        self.timed
    }

    /// Whether it does.
    fn depends_on_time(&self) -> bool {
        self.settings.metered
            || (self.phase == Phase::Open && !self.delayed.is_empty())
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
        if self.phase == Phase::Open && self.delayed.peek_due().is_some_and(|due| due <= self.now) {
            self.fall_due();
        }
        if self.resting.len() > 0 && self.settings.expiry != NEVER {
            self.expire();
        }
    }

    fn fall_due(&mut self) {
        while let Some(entry) = self.delayed.pop_ready(self.now) {
            self.records[entry.value].owed = Owed::Nothing;
            self.owe(entry.value, entry.due);
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
            let gone = self.records.erase(slot);
            self.bury(gone);
        }
    }

    /// These keys are to be dropped when the lock is free.
    fn bury(&mut self, gone: Gone<K>) {
        self.gone.push(gone);
        self.unsettled = true;
    }

    /// For metrics, if there are any.
    #[inline]
    fn note(&mut self, adds: u64, depth: i64) {
        if self.settings.metered {
            self.noted.adds += adds;
            self.noted.depth += depth;
        }
    }

    /// A slot found earlier in this section, unless it has expired since.
    #[inline]
    pub(crate) fn still(&self, found: Option<Slot>) -> Option<Slot> {
        found.filter(|&slot| self.records.has(slot))
    }

    /// A key without a record is to be delivered now.
    #[inline]
    pub(crate) fn add_new(&mut self, hash: u64, key: K, twin: K) {
        let slot = self.records.insert(hash, key, twin);
        self.note(1, 1);
        let record = &mut self.records[slot];
        record.owed = Owed::Now;
        record.since = self.now;
        self.ready.push(&mut self.records, slot);
    }

    /// A key with a record is to be delivered now.
    #[inline]
    pub(crate) fn add_known(&mut self, slot: Slot) -> Added {
        match self.records[slot].owed {
            Owed::Now => Added::Merged,
            Owed::Nothing => {
                self.owe(slot, self.now);
                Added::New
            }
            Owed::Later(entry) => {
                self.delayed.remove(entry);
                self.records[slot].owed = Owed::Nothing;
                self.owe(slot, self.now);
                Added::Moved
            }
        }
    }

    /// The key is to be delivered at `due`, by the queue's policy.
    pub(crate) fn add_after(
        &mut self,
        found: Option<Slot>,
        hash: u64,
        pair: &mut Pair<K>,
        due: u64,
    ) -> Added {
        let slot = self.still(found);
        let slot = slot.unwrap_or_else(|| self.insert(hash, pair));
        self.owe_later(slot, due, self.settings.policy)
    }

    /// The key has failed so often, and is to be delivered at `due` or earlier. Whether that is
    /// now is the answer.
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
        self.records[slot].failures = failures;
        self.owe_later(slot, due, Policy::Earliest);
        self.records[slot].owed == Owed::Now
    }

    #[inline]
    fn insert(&mut self, hash: u64, pair: &mut Pair<K>) -> Slot {
        let (key, twin) = pair.take().expect("the caller has not given its pair away");
        self.records.insert(hash, key, twin)
    }

    /// The key comes to be owed a delivery now. It is owed nothing.
    #[inline]
    fn owe(&mut self, slot: Slot, since: u64) {
        self.note(1, 1);
        let record = &mut self.records[slot];
        record.owed = Owed::Now;
        record.since = since;
        match record.on {
            On::Held => self.dirty += 1,
            On::Resting => {
                self.resting.unlink(&mut self.records, slot);
                self.ready.push(&mut self.records, slot);
            }
            On::None | On::Ready => self.ready.push(&mut self.records, slot),
        }
    }

    fn owe_later(&mut self, slot: Slot, due: u64, policy: Policy) -> Added {
        let record = &self.records[slot];
        let (entry, due, added) = match record.owed {
            Owed::Now => return Added::Merged,
            Owed::Nothing => {
                let due = match policy {
                    Policy::DebounceMaxWait(wait) => due.min(self.now.saturating_add(nanos(wait))),
                    _ => due,
                };
                (None, due, Added::New)
            }
            Owed::Later(entry) => {
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
                self.delayed.remove(entry);
                self.records[slot].owed = Owed::Nothing;
            }
            self.owe(slot, self.now);
        } else if let Some(entry) = entry {
            self.delayed.reset(entry, due);
        } else {
            if self.records[slot].on == On::Resting {
                self.resting.unlink(&mut self.records, slot);
            }
            let entry = self.delayed.push(slot, due);
            self.timed = true;
            let record = &mut self.records[slot];
            record.owed = Owed::Later(entry);
            record.since = self.now;
        }
        added
    }

    /// The key that has been ready longest goes to a worker.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<Taken<K>> {
        let slot = self.ready.pop(&mut self.records)?;
        self.held.push(&mut self.records, slot);
        self.note(0, -1);
        let record = &mut self.records[slot];
        record.owed = Owed::Nothing;
        record.taken = self.now;
        Some(Taken {
            key: record.twin.take().expect("a ready key has its twin"),
            slot,
            failures: record.failures,
            waited: self.now.saturating_sub(record.since),
        })
    }

    /// A worker lets its key go, and nothing is owed to it or known of it: the record is gone. The
    /// queue's copy of the key comes back, and how long it was held. `None`: something is, and
    /// [`finish`](Keys::finish) must see to it.
    ///
    /// What nearly every key comes to, so it is kept short, and returns what fits into registers.
    #[inline]
    pub(crate) fn finish_last(&mut self, slot: Slot, forget: bool) -> Option<(Option<K>, u64)> {
        let record = &self.records[slot];
        if record.owed != Owed::Nothing || (record.failures > 0 && !forget) {
            return None;
        }
        let worked = self.now.saturating_sub(record.taken);
        self.held.unlink(&mut self.records, slot);
        let (own, _lent) = self.records.erase(slot);
        Some((own, worked))
    }

    /// A worker lets its key go.
    pub(crate) fn finish(&mut self, slot: Slot, key: K, ending: Ending) -> Ended<K> {
        self.held.unlink(&mut self.records, slot);
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
    fn rest(&mut self, slot: Slot) {
        if self.records[slot].failures > 0 {
            self.records[slot].since = self.now;
            self.resting.push(&mut self.records, slot);
            self.timed = true;
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

    /// Takes back the delivery that the key is owed, or only a delayed one.
    pub(crate) fn withdraw(&mut self, found: Option<Slot>, delayed_only: bool) -> Option<Pending> {
        let slot = self.still(found)?;
        let held = self.records[slot].on == On::Held;
        let pending = match self.records[slot].owed {
            Owed::Nothing => return None,
            Owed::Now if delayed_only => return None,
            Owed::Now if held => {
                self.dirty -= 1;
                self.note(0, -1);
                Pending::Dirty
            }
            Owed::Now => {
                self.ready.unlink(&mut self.records, slot);
                self.note(0, -1);
                Pending::Ready
            }
            Owed::Later(entry) => {
                self.delayed.remove(entry);
                Pending::Delayed
            }
        };
        self.records[slot].owed = Owed::Nothing;
        if !held {
            self.rest(slot);
        }
        Some(pending)
    }

    /// Adds are refused from now on. What is due has been moved before.
    pub(crate) fn shut_down(&mut self) {
        self.phase = self.phase.max(Phase::ShutDown);
    }

    /// Nothing is delivered from now on; everything that is left comes out.
    pub(crate) fn stop(&mut self) -> Rest<K> {
        self.phase = Phase::Stopped;
        let mut rest = Rest {
            ready: Vec::with_capacity(self.ready.len()),
            delayed: Vec::with_capacity(self.delayed.len()),
            held: Vec::with_capacity(self.held.len()),
        };
        while let Some(slot) = self.ready.pop(&mut self.records) {
            self.note(0, -1);
            rest.ready.extend(self.hand_over(slot));
        }
        for slot in self.records.search(On::Held) {
            let record = &mut self.records[slot];
            let owed = std::mem::replace(&mut record.owed, Owed::Nothing);
            let key = record.key.take();
            let (pending, due) = match owed {
                Owed::Nothing => (None, NEVER),
                Owed::Now => {
                    self.dirty -= 1;
                    self.note(0, -1);
                    (Some(Pending::Dirty), NEVER)
                }
                Owed::Later(entry) => {
                    let due = self.delayed.remove(entry).map_or(NEVER, |entry| entry.due);
                    (Some(Pending::Delayed), due)
                }
            };
            // One that was handed over by an earlier stop is not there any more.
            rest.held.extend(key.map(|key| (key, pending, due)));
        }
        while let Some(entry) = self.delayed.pop() {
            let key = self.hand_over(entry.value);
            rest.delayed.extend(key.map(|key| (key, entry.due)));
        }
        rest
    }

    /// A key that is neither held nor on a list becomes a leftover. Its failures go with it.
    fn hand_over(&mut self, slot: Slot) -> Option<K> {
        self.records[slot].owed = Owed::Nothing;
        let (key, twin) = self.records.erase(slot);
        self.bury((None, twin));
        key
    }

    /// How long the held keys have been held, in all, and the longest. Nothing, if times are not
    /// noted.
    pub(crate) fn unfinished(&self) -> (u64, u64) {
        let ages = self.records.walk(&self.held);
        let ages = ages.map(|slot| self.now.saturating_sub(self.records[slot].taken));
        ages.fold((0, 0), |(sum, longest), age| {
            (u64::saturating_add(sum, age), age.max(longest))
        })
    }

    /// Returns memory that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.records.shrink();
        self.delayed.shrink_to_fit();
    }

    /// For how many keys there is memory.
    pub(crate) fn capacity(&self) -> usize {
        self.records.capacity()
    }
}

impl<K> Stock for Keys<K> {
    fn now(&self) -> u64 {
        self.now
    }

    fn ready(&mut self, limit: usize) -> usize {
        self.ready.len().min(limit)
    }

    fn next_due(&mut self) -> u64 {
        if self.phase != Phase::Open {
            return NEVER; // What falls due now is left over.
        }
        self.delayed.peek_due().unwrap_or(NEVER)
    }
}

/// [`NEVER`] if it does not fit.
pub(crate) fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(NEVER)
}
