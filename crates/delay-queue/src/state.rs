//! What the queue's lock protects, and every change to it as one section.
//!
//! A method here runs under the lock, calls nobody, drops nothing foreign, and leaves what is owed
//! to others in an [`Owed`].
//!
//! # Invariants, whenever the lock is free
//! 1. Those of [`Takers`].
//! 2. Pushers stand in the line only while the queue is open and holds as much as its bound
//!    allows.
//! 3. If the queue is closed and nothing in it can fall due, no taker waits uncalled.

mod loans;
#[cfg(all(test, not(anthill_loom)))]
mod tests;

use std::mem;

use sync_shim::Parker;

use crate::calls::Calls;
use crate::heap::MOST;
use crate::line::Line;
use crate::takers::{Arming, Stock, Takers};
use crate::{CheckedOut, DelayHeap, Entry, EntryId, NEVER};
#[cfg(any(feature = "channel", anthill_loom))]
pub(crate) use loans::Lent;
use loans::Loans;

pub(crate) struct State<T> {
    heap: DelayHeap<T>,
    /// The latest time anybody has read: what is due by it needs no other look at the clock.
    now: u64,
    open: bool,
    /// The most entries there may be, those on probation counted.
    bound: usize,
    loans: Loans<T>,
    pub(crate) line: Line<T>,
    pub(crate) takers: Takers,
    pub(crate) counts: Counts,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) pushed: u64,
    pub(crate) taken: u64,
    pub(crate) cancelled: u64,
}

/// What a section leaves to be done when the lock is free. Mostly nothing, and then it is no more
/// than an empty pointer.
#[derive(Debug, Default)]
#[must_use = "somebody waits for it"]
pub(crate) struct Owed(Option<Box<Debts>>);

#[derive(Debug, Default)]
pub(crate) struct Debts {
    pub(crate) calls: Calls,
    pub(crate) arming: Option<Arming>,
}

impl Owed {
    pub(crate) fn debts(&mut self) -> &mut Debts {
        self.0.get_or_insert_default()
    }

    pub(crate) fn take(self) -> Option<Box<Debts>> {
        self.0
    }

    #[cfg(any(feature = "channel", anthill_loom))]
    pub(crate) fn is_nothing(&self) -> bool {
        self.0.is_none()
    }
}

/// What there is for a taker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Nothing is left that can fall due, and nothing will be pushed.
    Closed,
    Empty,
    /// Or never due.
    NotDue,
}

/// The queue as its takers see it.
struct View<'a, T> {
    heap: &'a mut DelayHeap<T>,
    now: u64,
}

impl<T> Stock for View<'_, T> {
    fn now(&self) -> u64 {
        self.now
    }

    fn ready(&mut self, limit: usize) -> usize {
        self.heap.gather(self.now, limit).min(limit)
    }

    fn next_due(&mut self) -> u64 {
        // Asked only if fewer are ready than was asked for: all of them are gathered.
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
            // So no push is ever refused by the heap.
            bound: bound.min(MOST),
            loans: Loans::new(),
            line: Line::new(),
            takers: Takers::new(),
            counts: Counts::default(),
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
        self.heap.len() + self.loans.len() < self.bound
    }

    /// The earliest time in the queue; [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        self.heap.peek_due().unwrap_or(NEVER)
    }

    pub(crate) fn peek_due(&self) -> Option<u64> {
        self.heap.peek_due()
    }

    /// Time has been read.
    #[inline]
    pub(crate) fn learn(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// Enters a value for which there is room.
    #[inline]
    pub(crate) fn push(&mut self, value: T, due: u64, owed: &mut Owed) -> EntryId {
        self.counts.pushed += 1;
        let id = self.heap.push(value, due);
        self.changed(due, owed);
        id
    }

    /// An entry falls due then that did not before.
    #[inline]
    fn changed(&mut self, due: u64, owed: &mut Owed) {
        if self.takers.concerns(due, self.now) {
            self.settle(owed);
        }
    }

    /// Whether anything is due. Reads the clock only if nothing was by the time known so far.
    #[inline]
    fn find(&mut self, clock: impl FnOnce() -> u64) -> Result<u64, Lack> {
        match self.heap.peek_due() {
            Some(due) if due <= self.now && due != NEVER => Ok(self.now),
            Some(due) if due != NEVER => {
                self.learn(clock());
                if due <= self.now {
                    Ok(self.now)
                } else {
                    Err(Lack::NotDue)
                }
            }
            _ if !self.open && self.loans.len() == 0 => Err(Lack::Closed),
            Some(_) => Err(Lack::NotDue),
            None => Err(Lack::Empty),
        }
    }

    /// Takes the earliest entry, if it is due.
    #[inline]
    pub(crate) fn take(
        &mut self,
        clock: impl FnOnce() -> u64,
        owed: &mut Owed,
    ) -> Result<Entry<T>, Lack> {
        let now = self.find(clock)?;
        let entry = self.heap.pop_ready(now).ok_or(Lack::NotDue)?;
        self.counts.taken += 1;
        self.freed(owed);
        Ok(entry)
    }

    /// Takes up to `max` due entries, in order.
    pub(crate) fn drain_ready(
        &mut self,
        max: usize,
        clock: impl FnOnce() -> u64,
        owed: &mut Owed,
    ) -> Vec<Entry<T>> {
        self.learn(clock());
        let entries: Vec<_> = self.heap.drain_ready(self.now, max).collect();
        self.counts.taken += entries.len() as u64;
        self.freed(owed);
        entries
    }

    /// Takes an entry back.
    pub(crate) fn cancel(&mut self, id: EntryId, owed: &mut Owed) -> Option<T> {
        let entry = self.heap.remove(id)?;
        self.counts.cancelled += 1;
        self.freed(owed);
        Some(entry.value)
    }

    /// Gives an entry another time.
    pub(crate) fn reset(&mut self, id: EntryId, due: u64, owed: &mut Owed) -> bool {
        if self.heap.reset(id, due).is_none() {
            return false;
        }
        self.changed(due, owed);
        self.end(owed);
        true
    }

    /// Takes everything back, to be dropped or looked at when the lock is free.
    pub(crate) fn take_all(&mut self, owed: &mut Owed) -> DelayHeap<T> {
        // Another heap knows none of the old ids.
        let heap = mem::take(&mut self.heap);
        self.freed(owed);
        heap
    }

    /// Refuses pushes from now on; pushers in the line get their values back.
    pub(crate) fn close(&mut self, owed: &mut Owed) {
        self.open = false;
        self.line.refuse_all(&mut owed.debts().calls);
        self.end(owed);
    }

    /// Closes, and takes everything back, unless something is on probation: then that is called
    /// in, and `parker` told when it is back.
    ///
    /// What comes with it was cleared while it was on probation, and is in no heap any more.
    pub(crate) fn close_now(
        &mut self,
        parker: &Parker,
        owed: &mut Owed,
    ) -> (Option<DelayHeap<T>>, Vec<CheckedOut<T>>) {
        self.close(owed);
        let cleared = self.take_back_uncollected(owed);
        if self.loans.len() > 0 {
            self.loans.call_in(&mut owed.debts().calls);
            self.loans.wait(parker.clone());
            return (None, cleared);
        }
        (Some(self.take_all(owed)), cleared)
    }

    pub(crate) fn shrink_to(&mut self, capacity: usize) {
        self.heap.shrink_to(capacity);
    }

    /// Entries have left: room goes to the line's heads, and takers learn what they must.
    #[inline]
    fn freed(&mut self, owed: &mut Owed) {
        // Mostly nobody waits.
        if self.line.len() > 0 || self.takers.waiting() > 0 {
            self.freed_for_those_who_wait(owed);
        }
    }

    #[cold]
    fn freed_for_those_who_wait(&mut self, owed: &mut Owed) {
        while self.open && self.has_room() {
            let Some((ticket, pusher)) = self.line.pop() else {
                break;
            };
            self.counts.pushed += 1;
            let id = self.heap.push(pusher.value, pusher.due);
            self.line.serve(ticket, id);
            owed.debts().calls.add(pusher.bell);
        }
        self.end(owed);
        self.settle(owed);
    }

    /// If nothing can fall due any more, ever, all takers learn it.
    fn end(&mut self, owed: &mut Owed) {
        if !self.open && self.earliest() == NEVER && self.loans.len() == 0 {
            self.takers.call_all(&mut owed.debts().calls);
        }
    }

    /// Restores the takers' invariants.
    #[inline]
    pub(crate) fn settle(&mut self, owed: &mut Owed) {
        if self.takers.waiting() > 0 {
            self.settle_takers(owed);
        }
    }

    fn settle_takers(&mut self, owed: &mut Owed) {
        let mut view = View {
            heap: &mut self.heap,
            now: self.now,
        };
        let mut calls = Calls::none();
        let arming = self.takers.settle(&mut view, &mut calls);
        if arming.is_some() || !calls.is_empty() {
            let debts = owed.debts();
            debts.calls.append(calls);
            debts.arming = arming.or(debts.arming.take());
        }
    }
}
