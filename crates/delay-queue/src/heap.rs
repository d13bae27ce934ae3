//! A heap of values that fall due.
//!
//! Not for: waiting (there is no clock and no thread in it), and sharing between threads as it is.
//!
//! # What always holds
//! 1. Entries leave in the order of their due times, and those due at the same time in the order
//!    in which they were pushed or last reset.
//! 2. A stale or foreign id finds nothing, now and ever.
//! 3. Every value is handed out or dropped exactly once, also if a drop panics.

mod entry;
mod iter;
mod key;
mod line;
mod slots;
mod unique;

use alloc::vec::Vec;
use core::fmt;

pub use entry::{CheckedOut, Entry, EntryId};
pub use iter::{DrainReady, IntoIter, Iter};
use key::Key;
use line::Line;
use slots::{LIMIT, Slots, small};

/// The due time of what never falls due. It sorts behind all others, and can still be cancelled.
pub const NEVER: u64 = u64::MAX;

/// A heap of values that fall due, from which each can also be removed, or moved to another time.
///
/// Times are nanoseconds since an epoch that the owner picks; the heap has no clock. Among entries
/// due at the same time, the one that was pushed first leaves first.
///
/// It holds up to 2<sup>30</sup> entries.
///
/// ```
/// use delay_queue::DelayHeap;
///
/// let mut heap = DelayHeap::new();
/// let tea = heap.push("tea", 300);
/// let egg = heap.push("egg", 400);
/// heap.push("bread", 500);
///
/// assert_eq!(heap.pop_ready(299), None);
/// assert_eq!(heap.remove(egg).unwrap().value, "egg");
/// assert_eq!(heap.reset(tea, 600), Some(300));
/// let ready = heap.drain_ready(1_000, usize::MAX);
/// assert!(ready.map(|entry| entry.value).eq(["bread", "tea"]));
/// ```
pub struct DelayHeap<T> {
    line: Line,
    slots: Slots<T>,
    /// Keys of entries that are checked out.
    out: Vec<Key>,
    next_order: u32,
    number: u64,
}

impl<T> DelayHeap<T> {
    /// An empty heap. Allocates nothing.
    pub fn new() -> Self {
        Self {
            line: Line::new(),
            slots: Slots::new(),
            out: Vec::new(),
            next_order: 0,
            number: unique::number(),
        }
    }

    /// An empty heap with memory for so many entries.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut heap = Self::new();
        heap.reserve(capacity);
        heap
    }

    /// Adds a value that falls due then. O(log n).
    ///
    /// # Panics
    /// If the heap holds 2<sup>30</sup> entries. [`try_push`](Self::try_push) does not.
    pub fn push(&mut self, value: T, due: u64) -> EntryId {
        match self.try_push(value, due) {
            Ok(id) => id,
            Err(_) => panic!("a heap holds no more than {LIMIT} entries"),
        }
    }

    /// As [`push`](Self::push).
    ///
    /// # Errors
    /// The value comes back if the heap holds 2<sup>30</sup> entries.
    pub fn try_push(&mut self, value: T, due: u64) -> Result<EntryId, T> {
        let (slot, generation) = self.slots.insert(value)?;
        let key = Key::new(due, self.order(), slot);
        self.line.push(key, &mut self.slots);
        Ok(self.id(slot, generation))
    }

    /// Takes an entry out, due or not. O(log n).
    pub fn remove(&mut self, id: EntryId) -> Option<Entry<T>> {
        let position = self.find(id)?;
        let key = self.line.remove(position, &mut self.slots);
        self.leave(key)
    }

    /// Gives an entry another due time, and returns the old one. O(log n).
    ///
    /// It counts as a fresh push, also to an equal time: others that are due then come first.
    pub fn reset(&mut self, id: EntryId, due: u64) -> Option<u64> {
        self.find(id)?;
        let order = self.order();
        let position = self.find(id)?;
        let old = self.line.at(position).due;
        let key = Key::new(due, order, id.slot);
        self.line.replace(position, key, &mut self.slots);
        Some(old)
    }

    /// The value of an entry.
    pub fn get(&self, id: EntryId) -> Option<&T> {
        self.find(id)?;
        self.slots.value(id.slot)
    }

    /// The value of an entry, to be changed.
    pub fn get_mut(&mut self, id: EntryId) -> Option<&mut T> {
        self.find(id)?;
        self.slots.value_mut(id.slot)
    }

    /// When an entry falls due.
    pub fn due(&self, id: EntryId) -> Option<u64> {
        Some(self.line.at(self.find(id)?).due)
    }

    /// Whether an entry is still there.
    pub fn contains(&self, id: EntryId) -> bool {
        self.find(id).is_some()
    }

    /// The entry that leaves next, due or not. O(1).
    pub fn peek(&self) -> Option<Entry<&T>> {
        self.look_at(self.line.first()?)
    }

    /// When the next entry falls due. O(1).
    pub fn peek_due(&self) -> Option<u64> {
        Some(self.line.first()?.due)
    }

    /// Takes the next entry, due or not. O(log n).
    pub fn pop(&mut self) -> Option<Entry<T>> {
        let key = self.line.pop(&mut self.slots)?;
        self.leave(key)
    }

    /// Takes the next entry if it is due by `now`. One that is due [`NEVER`] never is. O(log n).
    pub fn pop_ready(&mut self, now: u64) -> Option<Entry<T>> {
        self.is_ready(now).then(|| self.pop())?
    }

    /// Takes up to `max` entries that are due by `now`, in order.
    ///
    /// Each leaves when the iterator yields it. What is not asked for stays.
    pub fn drain_ready(&mut self, now: u64, max: usize) -> DrainReady<'_, T> {
        DrainReady::new(self, now, max)
    }

    /// How many entries are due by `now`, counted no further than `limit`.
    pub fn count_ready(&mut self, now: u64, limit: usize) -> usize {
        self.line.count_ready(by(now), limit)
    }

    /// The next due time after `now`, which can be [`NEVER`].
    pub fn next_after(&mut self, now: u64) -> Option<u64> {
        self.line.next_after(by(now))
    }

    /// Takes the next entry on probation, if it is due by `now`: it may come back.
    ///
    /// Until then it is not in the heap: it is not counted, and its id finds nothing.
    pub fn check_out(&mut self, now: u64) -> Option<CheckedOut<T>> {
        if !self.is_ready(now) {
            return None;
        }
        let key = self.line.pop(&mut self.slots)?;
        let value = self.slots.take(key.slot())?;
        self.slots.set_position(key.slot(), small(self.out.len()));
        self.out.push(key);
        let id = self.id(key.slot(), self.slots.generation(key.slot()));
        let due = key.due;
        Some(CheckedOut(Entry { id, due, value }))
    }

    /// Puts back an entry that was checked out, under its old id, due time and order.
    ///
    /// # Errors
    /// It comes back if it was not checked out of this heap.
    pub fn check_in(&mut self, out: CheckedOut<T>) -> Result<EntryId, CheckedOut<T>> {
        let Some(key) = self.end_probation(out.id()) else {
            return Err(out);
        };
        let Entry { id, value, .. } = out.0;
        self.slots.put(key.slot(), value);
        self.line.push(key, &mut self.slots);
        Ok(id)
    }

    /// Lets an entry that was checked out go for good. Its id is stale from now on.
    ///
    /// # Errors
    /// It comes back if it was not checked out of this heap.
    pub fn settle<U>(&mut self, out: CheckedOut<U>) -> Result<Entry<U>, CheckedOut<U>> {
        let Some(key) = self.end_probation(out.id()) else {
            return Err(out);
        };
        self.slots.free(key.slot());
        Ok(out.0)
    }

    /// How many entries there are. Those that are checked out do not count.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries there can be before memory is allocated.
    pub fn capacity(&self) -> usize {
        (self.len() + self.slots.room()).min(self.line.capacity())
    }

    /// Allocates memory for so many entries beside those that are there.
    pub fn reserve(&mut self, additional: usize) {
        self.line.reserve(additional);
        self.slots.reserve(additional);
    }

    /// Gives back memory, but for so many entries, or as many as there are.
    ///
    /// An entry never changes its place, so memory before one that stays cannot be given back.
    /// O(n log n).
    pub fn shrink_to(&mut self, min_capacity: usize) {
        if self.is_empty() && self.out.is_empty() {
            // Nobody holds an id that is good: begin anew under another number.
            self.slots = Slots::new();
            self.number = unique::number();
            self.slots.reserve(min_capacity.min(self.line.capacity()));
        }
        self.line.shrink_to(min_capacity);
        self.slots
            .shrink_to(min_capacity.max(self.len()) + self.out.len());
        self.out.shrink_to_fit();
    }

    /// Gives back as much memory as it can. See [`shrink_to`](Self::shrink_to).
    pub fn shrink_to_fit(&mut self) {
        self.shrink_to(0);
    }

    /// Drops all entries and keeps the memory. Those that are checked out may still come back.
    ///
    /// If a drop panics, the entries after it are still there.
    pub fn clear(&mut self) {
        while let Some(key) = self.line.pop_any() {
            drop(self.slots.free(key.slot()));
        }
    }

    /// All entries, in any order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::new(self)
    }

    /// All entries, in order. O(n log n).
    pub fn into_sorted_vec(self) -> Vec<Entry<T>> {
        self.into_iter().collect()
    }

    fn id(&self, slot: u32, generation: u32) -> EntryId {
        let heap = self.number;
        EntryId {
            slot,
            generation,
            heap,
        }
    }

    /// Where the key of this entry is, if it is in this heap.
    fn find(&self, id: EntryId) -> Option<u32> {
        if id.heap != self.number {
            return None;
        }
        self.slots.find(id.slot, id.generation)
    }

    fn is_ready(&self, now: u64) -> bool {
        self.peek_due().is_some_and(|due| due <= by(now))
    }

    /// The entry of a key that has left the line.
    fn leave(&mut self, key: Key) -> Option<Entry<T>> {
        let id = self.id(key.slot(), self.slots.generation(key.slot()));
        let value = self.slots.free(key.slot())?;
        let due = key.due;
        Some(Entry { id, due, value })
    }

    fn look_at(&self, key: Key) -> Option<Entry<&T>> {
        let id = self.id(key.slot(), self.slots.generation(key.slot()));
        let value = self.slots.value(key.slot())?;
        let due = key.due;
        Some(Entry { id, due, value })
    }

    /// Takes the key of an entry that is checked out of this heap off the list of those.
    fn end_probation(&mut self, id: EntryId) -> Option<Key> {
        if id.heap != self.number {
            return None;
        }
        let position = self.slots.position(id.slot);
        let key = self.out.swap_remove(position as usize);
        if let Some(moved) = self.out.get(position as usize) {
            self.slots.set_position(moved.slot(), position);
        }
        Some(key)
    }

    /// The next order number.
    fn order(&mut self) -> u32 {
        if self.next_order == u32::MAX {
            self.renumber();
        }
        let order = self.next_order;
        self.next_order += 1;
        order
    }

    /// Numbers all keys from zero on, in the order they have.
    fn renumber(&mut self) {
        let keys = self.line.keys().iter().chain(&self.out);
        let mut orders: Vec<u32> = keys.map(|key| key.order()).collect();
        orders.sort_unstable();
        let rank = |key: Key| key.with_order(small(orders.partition_point(|&o| o < key.order())));
        self.line.renumber(rank);
        self.out.iter_mut().for_each(|key| *key = rank(*key));
        self.next_order = small(orders.len());
    }
}

/// The last time that is due by `now`: [`NEVER`] is not.
fn by(now: u64) -> u64 {
    now.min(NEVER - 1)
}

impl<T> Default for DelayHeap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for DelayHeap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<T> Extend<(T, u64)> for DelayHeap<T> {
    fn extend<I: IntoIterator<Item = (T, u64)>>(&mut self, pairs: I) {
        let pairs = pairs.into_iter();
        self.reserve(pairs.size_hint().0);
        for (value, due) in pairs {
            self.push(value, due);
        }
    }
}

impl<T> FromIterator<(T, u64)> for DelayHeap<T> {
    fn from_iter<I: IntoIterator<Item = (T, u64)>>(pairs: I) -> Self {
        let mut heap = Self::new();
        heap.extend(pairs);
        heap
    }
}

impl<T> IntoIterator for DelayHeap<T> {
    type Item = Entry<T>;
    type IntoIter = IntoIter<T>;

    /// The entries in order.
    fn into_iter(self) -> IntoIter<T> {
        IntoIter::new(self)
    }
}

impl<'a, T> IntoIterator for &'a DelayHeap<T> {
    type Item = Entry<&'a T>;
    type IntoIter = Iter<'a, T>;

    /// The entries in any order.
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
