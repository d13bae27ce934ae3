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

use crate::calls::Calls;
use crate::line::Line;
use crate::takers::{Arming, Stock, Takers};
use crate::{CheckedOut, DelayHeap, Entry, EntryId, NEVER};

pub(crate) struct State<T> {
    heap: DelayHeap<T>,
    /// The latest time anybody has read: what is due by it needs no other look at the clock.
    now: u64,
    open: bool,
    /// The most entries there may be, those on probation counted.
    bound: usize,
    /// Taken on probation.
    lent: usize,
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

/// What a section leaves to be done when the lock is free.
#[derive(Debug, Default)]
#[must_use = "somebody waits for it"]
pub(crate) struct Owed {
    pub(crate) calls: Calls,
    pub(crate) arming: Option<Arming>,
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
        self.heap.count_ready(self.now, limit)
    }

    fn next_due(&mut self) -> u64 {
        self.heap.next_after(self.now).unwrap_or(NEVER)
    }
}

impl<T> State<T> {
    pub(crate) fn new(bound: usize, capacity: usize) -> Self {
        Self {
            heap: DelayHeap::with_capacity(capacity),
            now: 0,
            open: true,
            bound,
            lent: 0,
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
        self.heap.len() + self.lent < self.bound
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
            _ if !self.open && self.lent == 0 => Err(Lack::Closed),
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

    /// As [`take`](State::take), on probation.
    pub(crate) fn check_out(
        &mut self,
        clock: impl FnOnce() -> u64,
        owed: &mut Owed,
    ) -> Result<CheckedOut<T>, Lack> {
        let now = self.find(clock)?;
        let out = self.heap.check_out(now).ok_or(Lack::NotDue)?;
        self.lent += 1;
        self.settle(owed);
        Ok(out)
    }

    /// What was taken on probation has found its taker. Its value is elsewhere.
    pub(crate) fn gone(&mut self, out: CheckedOut<T>, owed: &mut Owed) -> Option<Entry<T>> {
        self.lent -= 1;
        let entry = self.heap.settle(out).ok();
        self.counts.taken += 1;
        self.freed(owed);
        entry
    }

    /// What was taken on probation comes back, to where it was.
    pub(crate) fn check_in(&mut self, out: CheckedOut<T>, owed: &mut Owed) {
        self.lent -= 1;
        // It is from this heap, which takes it back.
        let _ = self.heap.check_in(out);
        self.settle(owed);
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

    /// Takes everything back, in order.
    pub(crate) fn take_all(&mut self, owed: &mut Owed) -> Vec<Entry<T>> {
        let entries: Vec<_> = std::iter::from_fn(|| self.heap.pop()).collect();
        self.freed(owed);
        entries
    }

    /// Refuses pushes from now on; pushers in the line get their values back.
    pub(crate) fn close(&mut self, owed: &mut Owed) {
        self.open = false;
        self.line.refuse_all(&mut owed.calls);
        self.end(owed);
    }

    pub(crate) fn shrink_to(&mut self, capacity: usize) {
        self.heap.shrink_to(capacity);
    }

    /// Entries have left: room goes to the line's heads, and takers learn what they must.
    #[inline]
    fn freed(&mut self, owed: &mut Owed) {
        while self.open && self.has_room() {
            let Some((ticket, pusher)) = self.line.pop() else {
                break;
            };
            self.counts.pushed += 1;
            let id = self.heap.push(pusher.value, pusher.due);
            self.line.serve(ticket, id);
            owed.calls.add(pusher.bell);
        }
        self.end(owed);
        self.settle(owed);
    }

    /// If nothing can fall due any more, ever, all takers learn it.
    fn end(&mut self, owed: &mut Owed) {
        if !self.open && self.earliest() == NEVER && self.lent == 0 {
            self.takers.call_all(&mut owed.calls);
        }
    }

    /// Restores the takers' invariants.
    #[inline]
    pub(crate) fn settle(&mut self, owed: &mut Owed) {
        if self.takers.waiting() == 0 {
            return;
        }
        let mut view = View {
            heap: &mut self.heap,
            now: self.now,
        };
        let arming = self.takers.settle(&mut view, &mut owed.calls);
        owed.arming = arming.or(owed.arming.take());
    }
}
