//! The state that the queue's lock protects, and every change to it as one section.
//!
//! The methods here run under the lock. They wake nothing, run no user code, and return their
//! deferred effects in an [`Effects`].
//!
//! # Invariants, whenever the lock is free
//! 1. Those of [`Waiters`].
//! 2. Pushers wait only while the queue is open and full.
//! 3. If the queue is closed and no entry in it can fall due, no waiter is queued.
//! 4. While the queue is idle, no thread or future waits for that.

mod leases;
#[cfg(all(test, not(anthill_loom)))]
mod tests;

use std::mem;

use sync_shim::Parker;

use crate::heap::MOST;
use crate::idle::IdleWaiters;
use crate::wait::{self, AlarmRequest, Effects as _, ReadySource, Unavailable, Waiters, WakeList};
use crate::wait_queue::WaitQueue;
use crate::{CheckedOut, DelayHeap, Entry, EntryId, NEVER, ReserveError};
#[cfg(any(feature = "channel", anthill_loom))]
pub(crate) use leases::Leased;
use leases::Leases;

pub(crate) struct State<T> {
    heap: DelayHeap<T>,
    /// The latest time that was read from the clock. Entries due by then need no new reading.
    now: u64,
    open: bool,
    /// Maximum number of entries, including leased ones.
    bound: usize,
    leases: Leases<T>,
    pub(crate) pushers: WaitQueue<T>,
    pub(crate) waiters: Waiters,
    pub(crate) idle: IdleWaiters,
    pub(crate) counts: Counts,
    /// Capacity that the user has requested: an empty queue keeps it.
    requested: usize,
    /// Number of entries that had left when the heap was last shrunk.
    left_at_trim: u64,
}

/// An empty queue keeps memory for this many entries.
const KEPT: usize = 1024;

/// Totals since the queue was created.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) pushed: u64,
    pub(crate) taken: u64,
    pub(crate) cancelled: u64,
}

/// The deferred effects of a section. Usually empty, and then only a null pointer.
#[derive(Debug, Default)]
#[must_use = "waiters sleep until the effects are run"]
pub(crate) struct Effects(Option<Box<EffectList>>);

#[derive(Debug, Default)]
struct EffectList {
    wakes: WakeList,
    alarm: Option<AlarmRequest>,
}

impl Effects {
    #[inline]
    fn list(&mut self) -> &mut EffectList {
        self.0.get_or_insert_default()
    }
}

impl wait::Effects for Effects {
    #[inline]
    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn wakes(&mut self) -> &mut WakeList {
        &mut self.list().wakes
    }

    fn take_alarm_request(&mut self) -> Option<AlarmRequest> {
        self.0.as_mut()?.alarm.take()
    }

    fn append(&mut self, later: Self) {
        if let Some(later) = later.0 {
            self.wakes().append(later.wakes);
        }
    }
}

/// The queue as seen by its waiters.
struct View<'a, T> {
    heap: &'a mut DelayHeap<T>,
    now: u64,
}

impl<T> ReadySource for View<'_, T> {
    fn now(&self) -> u64 {
        self.now
    }

    fn ready(&mut self, limit: usize) -> usize {
        self.heap.gather(self.now, limit).min(limit)
    }

    fn next_due(&mut self) -> u64 {
        // Called only if fewer than the requested number are ready: then all ready entries are
        // gathered.
        let next = self.heap.next_ungathered();
        debug_assert!(next > self.now);
        next
    }
}

impl<T> State<T> {
    pub(crate) fn new(bound: usize, capacity: usize) -> Self {
        Self {
            heap: DelayHeap::with_capacity(capacity.min(MOST)),
            now: 0,
            open: true,
            // So the heap never rejects a push.
            bound: bound.min(MOST),
            leases: Leases::new(),
            pushers: WaitQueue::new(),
            waiters: Waiters::new(),
            idle: IdleWaiters::default(),
            counts: Counts::default(),
            requested: capacity,
            left_at_trim: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.heap.capacity()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.heap.len() + self.leases.len() < self.bound
    }

    /// Returns whether the queue is empty and no entry is leased, which might come back.
    pub(crate) fn is_idle(&self) -> bool {
        self.heap.is_empty() && self.leases.len() == 0
    }

    /// Returns the earliest time in the queue, or [`NEVER`].
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        self.heap.peek_due().unwrap_or(NEVER)
    }

    pub(crate) fn peek_due(&self) -> Option<u64> {
        self.heap.peek_due()
    }

    pub(crate) fn peek(&self) -> Option<(EntryId, u64)> {
        let next = self.heap.peek()?;
        Some((next.id, next.due))
    }

    pub(crate) fn due(&self, id: EntryId) -> Option<u64> {
        self.heap.due(id)
    }

    /// Records a reading of the clock.
    #[inline]
    pub(crate) fn learn(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// Adds a value. There must be room.
    #[inline]
    pub(crate) fn push(&mut self, value: T, due: u64, effects: &mut Effects) -> EntryId {
        self.counts.pushed += 1;
        let id = self.heap.push(value, due);
        self.changed(due, effects);
        id
    }

    /// [`push`](Self::push) for pushers that have waited. Keeps the inlined copy out of the slow
    /// path.
    #[inline(never)]
    pub(crate) fn push_at_last(&mut self, value: T, due: u64, effects: &mut Effects) -> EntryId {
        self.push(value, due, effects)
    }

    /// Called after an entry was given the due time `due`.
    #[inline]
    fn changed(&mut self, due: u64, effects: &mut Effects) {
        if self.waiters.concerns(due, self.now) {
            self.settle(effects);
        }
    }

    /// Reads the clock if the earliest entry was not due at the last reading.
    #[inline]
    pub(crate) fn advance(&mut self, clock: impl FnOnce() -> u64) {
        if let Some(due) = self.heap.peek_due()
            && due > self.now
            && due != NEVER
        {
            self.learn(clock());
        }
    }

    /// Takes the earliest entry if it was due at the last reading of the clock.
    #[inline]
    pub(crate) fn take(&mut self, effects: &mut Effects) -> Result<Entry<T>, Unavailable> {
        let Some(entry) = self.heap.pop_ready(self.now) else {
            return Err(self.unavailable());
        };
        self.counts.taken += 1;
        self.freed(effects);
        Ok(entry)
    }

    /// [`take`](Self::take) for consumers that wait. Keeps the inlined copy out of the slow path.
    #[inline(never)]
    pub(crate) fn take_at_last(&mut self, effects: &mut Effects) -> Result<Entry<T>, Unavailable> {
        self.take(effects)
    }

    fn unavailable(&self) -> Unavailable {
        match self.heap.peek_due() {
            None | Some(NEVER) if !self.open && self.leases.len() == 0 => Unavailable::Closed,
            Some(_) => Unavailable::NotDue,
            None => Unavailable::Empty,
        }
    }

    /// Takes up to `most` entries that were due at the last reading of the clock, in order. Decides
    /// once which waiters and pushers to notify.
    pub(crate) fn take_many(
        &mut self,
        most: usize,
        into: impl FnMut(Entry<T>),
        effects: &mut Effects,
    ) -> Result<usize, Unavailable> {
        let before = self.heap.len();
        self.heap.drain_ready(self.now, most).for_each(into);
        let taken = before - self.heap.len();
        if taken == 0 {
            return Err(self.unavailable());
        }
        self.counts.taken += taken as u64;
        self.freed(effects);
        Ok(taken)
    }

    pub(crate) fn cancel(&mut self, id: EntryId, effects: &mut Effects) -> Option<T> {
        let entry = self.heap.remove(id)?;
        self.counts.cancelled += 1;
        self.freed(effects);
        Some(entry.value)
    }

    pub(crate) fn reset(&mut self, id: EntryId, due: u64, effects: &mut Effects) -> bool {
        let Some(old) = self.heap.reset(id, due) else {
            return false;
        };
        if old <= self.now {
            self.settle(effects); // "An entry that was ready is put off": its notification must not count for the next entry.
        } else {
            self.changed(due, effects);
        }
        self.end(effects);
        true
    }

    /// Removes all entries, to be dropped or inspected after the lock is released.
    pub(crate) fn take_all(&mut self, effects: &mut Effects) -> DelayHeap<T> {
        // The new heap does not recognize any old id.
        let heap = mem::take(&mut self.heap);
        self.freed(effects);
        heap
    }

    /// Closes the queue; waiting pushers get their values back.
    pub(crate) fn close(&mut self, effects: &mut Effects) {
        self.open = false;
        self.pushers.refuse_all(effects.wakes());
        self.end(effects);
    }

    /// Closes the queue and removes all entries. If an entry is leased, it is recalled instead, and
    /// `parker` is woken when it is back. Without a parker (in a forked child) the leased entry is
    /// left alone.
    ///
    /// Returns the entries, and the leased entries of heaps that have since been cleared.
    pub(crate) fn close_now(
        &mut self,
        parker: Option<&Parker>,
        effects: &mut Effects,
    ) -> (Option<DelayHeap<T>>, Vec<CheckedOut<T>>) {
        self.close(effects);
        let cleared = self.take_back_uncollected(effects);
        if let Some(parker) = parker
            && self.leases.len() > 0
        {
            self.leases.recall(effects.wakes());
            self.leases.wait(parker.clone());
            return (None, cleared);
        }
        (Some(self.take_all(effects)), cleared)
    }

    pub(crate) fn try_reserve(&mut self, additional: usize) -> Result<(), ReserveError> {
        let room = self
            .bound
            .saturating_sub(self.heap.len() + self.leases.len());
        self.requested = self
            .requested
            .max(self.heap.len().saturating_add(additional));
        self.heap.try_reserve(additional.min(room))
    }

    pub(crate) fn shrink_to(&mut self, capacity: usize) {
        self.requested = capacity;
        self.heap.shrink_to(capacity);
    }

    /// Frees the memory of a burst that is over. Only an empty heap is shrunk, which needs no look at its entries. The cost
    /// is amortized over the entries that have left since the last time, so a queue that is filled and emptied in
    /// turn pays little for it.
    #[cold]
    fn trim(&mut self) {
        let left = self.counts.taken + self.counts.cancelled;
        let room = self.heap.capacity();
        if self.leases.len() == 0 && left - self.left_at_trim >= room as u64 / 4 {
            self.left_at_trim = left;
            self.heap.shrink_to(self.requested.max(KEPT));
        }
    }

    /// Called after entries have left: the first pushers get their places, and the waiters are
    /// settled.
    #[inline]
    fn freed(&mut self, effects: &mut Effects) {
        if self.heap.is_empty() && self.heap.capacity() > self.requested.max(KEPT) {
            self.trim();
        }
        // Usually no thread or future waits.
        if self.pushers.len() > 0 || self.waiters.waiting() > 0 || !self.idle.is_empty() {
            self.freed_slow(effects);
        }
    }

    #[cold]
    fn freed_slow(&mut self, effects: &mut Effects) {
        while self.open && self.has_room() {
            let Some((waiter, pusher)) = self.pushers.pop() else {
                break;
            };
            let id = self.push_at_last(pusher.value, pusher.due, effects);
            self.pushers.serve(waiter, id);
            effects.wakes().push(pusher.waiter);
        }
        if self.is_idle() && !self.idle.is_empty() {
            self.idle.notify_all(effects.wakes());
        }
        self.end(effects);
        self.settle(effects);
    }

    /// "The last entry is cancelled after closing": if no entry can fall due any more, all waiters
    /// are notified.
    fn end(&mut self, effects: &mut Effects) {
        if !self.open && self.earliest() == NEVER && self.leases.len() == 0 {
            self.waiters.notify_all(effects.wakes());
        }
    }

    #[inline]
    pub(crate) fn settle(&mut self, effects: &mut Effects) {
        if self.waiters.waiting() > 0 {
            self.settle_waiters(effects);
        }
    }

    fn settle_waiters(&mut self, effects: &mut Effects) {
        let mut view = View {
            heap: &mut self.heap,
            now: self.now,
        };
        let mut wakes = WakeList::new();
        // An earlier settling of this section may have requested an alarm.
        let mut alarm = effects.take_alarm_request();
        self.waiters.settle(&mut view, &mut wakes, &mut alarm);
        if alarm.is_some() || !wakes.is_empty() {
            let list = effects.list();
            list.wakes.append(wakes);
            list.alarm = alarm;
        }
    }
}
