//! A heap of values by due time.
//!
//! Not for: waiting (it has no clock and no thread), and sharing between threads without a lock.
//!
//! # Guarantees
//! 1. Entries leave in the order of their due times. Entries due at the same time leave in the
//!    order in which they were pushed or last reset.
//! 2. A stale or foreign id never finds an entry.
//! 3. Every value is returned or dropped exactly once, even if a drop panics.
//!
//! # Implementation
//! A value stays in its slot. Keys move towards the front of a line as their time approaches, and
//! are sorted only then. The documentation of `line.rs` is the overview.

#[cfg(all(test, feature = "std", not(anthill_loom)))]
mod bounded;
mod chunks;
mod entry;
mod far;
mod iter;
mod key;
mod lane;
mod line;
mod near;
mod place;
mod reserve;
mod slots;
pub(crate) mod steps;
mod unique;

use alloc::vec::Vec;
use core::fmt;

pub use entry::{CheckedOut, Entry, EntryId};
use far::Sizes;
pub use iter::{DrainReady, IntoIter, Iter};
use key::Key;
use line::Line;
use place::Place;
pub use reserve::ReserveError;
use slots::{Slots, small};

/// The due time of entries that never fall due. They sort after all others, and can still be
/// cancelled.
pub const NEVER: u64 = u64::MAX;

#[cfg(feature = "std")]
pub(crate) const MOST: usize = slots::LIMIT;

/// A heap of values by due time, from which each value can also be removed or moved to another
/// time.
///
/// Times are nanoseconds since an epoch that the owner chooses; the heap has no clock. Entries due
/// at the same time leave in the order in which they were pushed.
///
/// A heap holds up to 2<sup>28</sup> entries. Each needs up to 32 bytes in addition to its value,
/// whose size is rounded up to a multiple of eight.
///
/// Not for priorities: the heap is optimized for times that increase, and for distant times. To
/// share entries between threads, use `DelayQueue`.
///
/// # Cost
/// Costs are amortized. With n entries, [`push`](Self::push), [`pop`](Self::pop) and the methods
/// based on them are O(log n), [`remove`](Self::remove) is usually O(1), and
/// [`peek_due`](Self::peek_due) always.
///
/// A single call can take longer: when the time of a list of entries comes, or too many entries
/// have the same time, the call moves some thousands of them, independent of n. Two calls are O(n):
/// a push that finds the memory full, which then grows as a `Vec` does; and the removal of the
/// first entry when most of the entries behind it were cancelled. Keys of cancelled and reset
/// entries are removed a few at a time.
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
#[doc(alias = "PriorityQueue")]
#[doc(alias = "timer")]
#[doc(alias = "timeout")]
#[doc(alias = "ttl")]
pub struct DelayHeap<T> {
    line: Line,
    slots: Slots<T>,
    /// Keys of checked-out entries.
    out: Vec<Key>,
    len: usize,
    next_order: u64,
    number: u64,
}

impl<T> DelayHeap<T> {
    /// Creates an empty heap. Allocates nothing.
    pub fn new() -> Self {
        Self::beginning_with(0, 0)
    }

    /// Creates an empty heap with these first values of order numbers and generations, so that
    /// tests can reach their ends.
    #[doc(hidden)]
    pub fn beginning_with(next_order: u64, generation: u32) -> Self {
        Self {
            line: Line::new(Sizes::USUAL),
            slots: Slots::new(generation),
            out: Vec::new(),
            len: 0,
            next_order,
            number: unique::number(),
        }
    }

    /// Makes the lists of an empty heap as short as possible, so that tests can see how lists are
    /// cut.
    #[doc(hidden)]
    #[must_use]
    pub fn with_short_lists(mut self) -> Self {
        self.line = Line::new(Sizes::LEAST);
        self
    }

    /// Creates an empty heap with memory for `capacity` entries.
    ///
    /// # Panics
    /// If `capacity` is more than 2<sup>28</sup>.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut heap = Self::new();
        heap.reserve(capacity);
        heap
    }

    /// Adds a value that is due at `due`.
    ///
    /// # Panics
    /// If the heap holds 2<sup>28</sup> entries. [`try_push`](Self::try_push) returns an error
    /// instead.
    #[expect(clippy::inline_always, reason = "measured: see `line.rs`")]
    #[inline(always)]
    pub fn push(&mut self, value: T, due: u64) -> EntryId {
        let pushed = self.try_push(value, due).ok();
        pushed.expect("a heap holds no more than 2^28 entries")
    }

    /// Like [`push`](Self::push), but returns an error if the heap is full.
    ///
    /// # Errors
    /// The value, if the heap holds 2<sup>28</sup> entries.
    #[expect(clippy::inline_always, reason = "measured: see `line.rs`")]
    #[inline(always)]
    pub fn try_push(&mut self, value: T, due: u64) -> Result<EntryId, T> {
        let Some(slot) = self.slots.next() else {
            return Err(value);
        };
        let key = Key::new(due, self.order(), slot);
        let place = self.line.push(key, &mut self.slots);
        let generation = self.slots.insert(key, place, value);
        self.line.pushed(due, &mut self.slots);
        self.len += 1;
        Ok(self.id(slot, generation))
    }

    /// Removes an entry, due or not. [`shrink_to`](Self::shrink_to) frees all of its memory.
    #[inline]
    pub fn remove(&mut self, id: EntryId) -> Option<Entry<T>> {
        let (due, place) = self.find(id)?;
        let was_first = self.line.take_out(place, &mut self.slots);
        let (_, value) = self.slots.free(id.slot())?;
        self.left();
        if was_first {
            self.line.refill(&mut self.slots);
        }
        Some(Entry { id, due, value })
    }

    /// Changes the due time of an entry, and returns the old one.
    ///
    /// A reset counts as a new push, even to an equal time: other entries with that time come
    /// first.
    #[inline]
    pub fn reset(&mut self, id: EntryId, due: u64) -> Option<u64> {
        let (old, place) = self.find(id)?;
        let key = Key::new(due, self.order(), id.slot());
        let was_first = self.line.take_out(place, &mut self.slots);
        self.slots.moved(id.slot(), Place::NOWHERE);
        let place = self.line.push(key, &mut self.slots);
        self.slots.reset(key, place);
        if was_first {
            self.line.tidy(&mut self.slots);
        } else {
            self.line.pushed(due, &mut self.slots);
        }
        Some(old)
    }

    /// Returns the value of an entry.
    pub fn get(&self, id: EntryId) -> Option<&T> {
        self.find(id)?;
        Some(self.slots.get(id.slot())?.2)
    }

    /// Returns a mutable reference to the value of an entry.
    pub fn get_mut(&mut self, id: EntryId) -> Option<&mut T> {
        self.find(id)?;
        self.slots.value_mut(id.slot())
    }

    /// Returns the due time of an entry.
    pub fn due(&self, id: EntryId) -> Option<u64> {
        Some(self.find(id)?.0)
    }

    /// Returns whether the heap contains an entry.
    pub fn contains(&self, id: EntryId) -> bool {
        self.find(id).is_some()
    }

    /// Returns the next entry, due or not. O(1).
    pub fn peek(&self) -> Option<Entry<&T>> {
        self.look_at(self.first()?.slot())
    }

    /// Returns the due time of the next entry. O(1).
    #[inline]
    pub fn peek_due(&self) -> Option<u64> {
        (self.len > 0).then(|| self.line.first_due())
    }

    /// Removes the next entry, due or not.
    pub fn pop(&mut self) -> Option<Entry<T>> {
        if self.is_empty() {
            return None;
        }
        let key = self.line.pop(&mut self.slots);
        self.leave(key)
    }

    /// Removes the next entry if it is due by `now`. An entry with the due time [`NEVER`] is never
    /// due.
    #[expect(clippy::inline_always, reason = "measured: see `line.rs`")]
    #[inline(always)]
    pub fn pop_ready(&mut self, now: u64) -> Option<Entry<T>> {
        if !self.is_ready(now) {
            return None;
        }
        let key = self.line.pop(&mut self.slots);
        self.leave(key)
    }

    /// Removes up to `max` entries that are due by `now`, in order.
    ///
    /// An entry leaves the heap when the iterator yields it. Entries that are not yielded stay.
    ///
    /// ```
    /// use delay_queue::DelayHeap;
    ///
    /// let mut heap: DelayHeap<_> = [("a", 1), ("b", 2), ("c", 9)].into_iter().collect();
    /// let ready: Vec<_> = heap.drain_ready(5, usize::MAX).map(|entry| entry.value).collect();
    /// assert_eq!(ready, ["a", "b"]);
    /// assert_eq!(heap.len(), 1);
    /// ```
    pub fn drain_ready(&mut self, now: u64, max: usize) -> DrainReady<'_, T> {
        DrainReady::new(self, now, max)
    }

    /// Returns the number of entries that are due by `now`, counted only up to `limit`.
    ///
    /// The counted entries are sorted, and visited again by each further call.
    pub fn count_ready(&mut self, now: u64, limit: usize) -> usize {
        self.line.count_ready(by(now), limit, &mut self.slots)
    }

    /// Returns the first due time after `now`, which can be [`NEVER`].
    ///
    /// Entries that are due by `now` are sorted and visited.
    pub fn next_after(&mut self, now: u64) -> Option<u64> {
        self.line.next_after(by(now), &mut self.slots)
    }

    /// Like [`count_ready`](Self::count_ready), for repeated calls between which the count changes
    /// little: each entry is visited once until it is pushed or reset again. May count more than
    /// `limit`.
    #[cfg(feature = "std")]
    pub(crate) fn gather(&mut self, now: u64, limit: usize) -> usize {
        self.line.gather(by(now), limit, &mut self.slots)
    }

    /// Returns the first due time of the entries that were not gathered. Returns [`NEVER`] if it is
    /// that, or if there are none.
    #[cfg(feature = "std")]
    pub(crate) fn next_ungathered(&mut self) -> u64 {
        self.line.next_ungathered(&mut self.slots)
    }

    /// Removes the next entry on probation, if it is due by `now`: it can be put back.
    ///
    /// A checked-out entry is not in the heap: it is not counted, and calls with its id return `None`.
    ///
    /// ```
    /// use delay_queue::DelayHeap;
    ///
    /// let mut heap = DelayHeap::new();
    /// heap.push("job", 1);
    /// let out = heap.check_out(1).expect("the job is due");
    /// assert!(heap.is_empty());
    /// let id = heap.check_in(out).expect("the job is from this heap"); // No worker took it.
    /// assert!(heap.contains(id));
    /// ```
    pub fn check_out(&mut self, now: u64) -> Option<CheckedOut<T>> {
        if !self.is_ready(now) {
            return None;
        }
        let key = self.line.pop(&mut self.slots);
        let link = small(self.out.len());
        let (generation, value) = self.slots.check_out(key.slot(), link)?;
        self.out.push(key);
        self.len -= 1;
        let id = self.id(key.slot(), generation);
        let due = key.due;
        Some(CheckedOut(Entry { id, due, value }))
    }

    /// Puts back a checked-out entry, with its old id, due time and order.
    ///
    /// # Errors
    /// The entry, if it was not checked out of this heap.
    pub fn check_in(&mut self, out: CheckedOut<T>) -> Result<EntryId, CheckedOut<T>> {
        let Some(key) = self.end_probation(out.id()) else {
            return Err(out);
        };
        let Entry { id, value, .. } = out.0;
        let place = self.line.push(key, &mut self.slots);
        self.slots.check_in(key, place, value);
        self.line.tidy(&mut self.slots);
        self.len += 1;
        Ok(id)
    }

    /// Removes a checked-out entry for good. Its id becomes stale.
    ///
    /// # Errors
    /// The entry, if it was not checked out of this heap.
    pub fn settle<U>(&mut self, out: CheckedOut<U>) -> Result<Entry<U>, CheckedOut<U>> {
        let Some(key) = self.end_probation(out.id()) else {
            return Err(out);
        };
        self.slots.free(key.slot());
        Ok(out.0)
    }

    /// Returns the number of entries, not counting checked-out ones.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the heap is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries that the heap can hold before its memory grows.
    ///
    /// An eighth of the memory contains lists of the entries by due time. That part can grow a
    /// little earlier if the due times are very unevenly distributed.
    pub fn capacity(&self) -> usize {
        self.slots.capacity() - self.out.len()
    }

    /// Allocates memory for `additional` more entries.
    ///
    /// # Panics
    /// If the total would exceed 2<sup>28</sup> entries.
    pub fn reserve(&mut self, additional: usize) {
        // The slots first: they reject a request that is too large before memory is allocated.
        let present = self.len + self.out.len();
        self.slots.reserve(present.saturating_add(additional));
        self.line.reserve(additional);
    }

    /// Like [`reserve`](Self::reserve), but returns an error, so that a batch can be rejected
    /// before it begins.
    ///
    /// ```
    /// use delay_queue::{DelayHeap, ReserveError};
    ///
    /// fn load(heap: &mut DelayHeap<String>, lines: &[(&str, u64)]) -> Result<(), ReserveError> {
    ///     heap.try_reserve(lines.len())?;
    ///     heap.extend(lines.iter().map(|&(line, due)| (line.to_owned(), due)));
    ///     Ok(())
    /// }
    ///
    /// let mut heap = DelayHeap::new();
    /// load(&mut heap, &[("one", 1), ("two", 2)])?;
    /// assert_eq!(heap.len(), 2);
    /// assert_eq!(heap.try_reserve(usize::MAX), Err(ReserveError::TooMany));
    /// # Ok::<(), ReserveError>(())
    /// ```
    ///
    /// # Errors
    /// [`ReserveError::TooMany`] if the total would exceed 2<sup>28</sup> entries,
    /// [`ReserveError::NoMemory`] if the allocation fails. The entries are unchanged.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), ReserveError> {
        // In the same order as `reserve`.
        let present = self.len + self.out.len();
        self.slots.try_reserve(present.saturating_add(additional))?;
        Ok(self.line.try_reserve(additional)?)
    }

    /// Frees memory beyond that for `min_capacity` entries, or for the current entries if they are
    /// more. O(n log n). Ids stay valid.
    ///
    /// An entry never changes its slot, so memory in front of a remaining entry cannot be freed. A
    /// slot that has been used 2<sup>31</sup> times is freed only by a call on an empty heap.
    pub fn shrink_to(&mut self, min_capacity: usize) {
        if self.is_empty() && self.out.is_empty() {
            // No entry exists or can come back. With a new heap number all old ids are stale, so
            // generations can start again.
            self.number = unique::number();
            self.slots.begin_anew();
        }
        self.slots
            .shrink_to(min_capacity.max(self.len) + self.out.len());
        self.line
            .shrink_to(min_capacity.max(self.len), &mut self.slots);
        self.out.shrink_to_fit();
    }

    /// Frees as much memory as possible. See [`shrink_to`](Self::shrink_to).
    pub fn shrink_to_fit(&mut self) {
        self.shrink_to(0);
    }

    /// Drops all entries and keeps the memory. Checked-out entries can still be put back.
    ///
    /// If a drop panics, the remaining entries are dropped nevertheless.
    pub fn clear(&mut self) {
        self.line.clear();
        self.len = 0;
        let mut rest = Rest {
            slots: &mut self.slots,
            next: 0,
        };
        rest.drop_all();
    }

    /// Iterates over all entries, in arbitrary order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::new(self)
    }

    /// Returns all entries, in order. O(n log n).
    pub fn into_sorted_vec(self) -> Vec<Entry<T>> {
        self.into_iter().collect()
    }

    #[inline]
    fn id(&self, slot: u32, generation: u32) -> EntryId {
        EntryId::new(self.number, slot, generation)
    }

    /// Returns the entry's due time and the place of its key, if the entry is in this heap.
    #[inline]
    fn find(&self, id: EntryId) -> Option<(u64, Place)> {
        if id.heap() != self.number {
            return None;
        }
        self.slots.find(id.slot(), id.generation())
    }

    #[inline]
    fn first(&self) -> Option<Key> {
        (self.len > 0).then(|| self.line.first())
    }

    #[inline]
    fn is_ready(&self, now: u64) -> bool {
        // Without entries, the first due time is the greatest of all, which is never due.
        self.line.first_due() <= by(now)
    }

    /// Removes the entry of a key that has left the line.
    #[expect(clippy::inline_always, reason = "measured: see `line.rs`")]
    #[inline(always)]
    fn leave(&mut self, key: Key) -> Option<Entry<T>> {
        let (generation, value) = self.slots.free(key.slot())?;
        self.left();
        let id = self.id(key.slot(), generation);
        let due = key.due;
        Some(Entry { id, due, value })
    }

    /// Called after an entry has left its slot.
    #[inline]
    fn left(&mut self) {
        self.len -= 1;
        if self.len == 0 && self.out.is_empty() {
            self.slots.all_are_free();
        }
    }

    fn look_at(&self, slot: u32) -> Option<Entry<&T>> {
        let (generation, due, value) = self.slots.get(slot)?;
        let id = self.id(slot, generation);
        Some(Entry { id, due, value })
    }

    /// Removes an entry from the list of checked-out entries, and returns its key.
    fn end_probation(&mut self, id: EntryId) -> Option<Key> {
        if id.heap() != self.number {
            return None;
        }
        let link = self.slots.link(id.slot(), id.generation())?;
        let key = *self.out.get(link as usize)?;
        if key.slot() != id.slot() {
            return None;
        }
        self.out.swap_remove(link as usize);
        if let Some(moved) = self.out.get(link as usize) {
            self.slots.set_link(moved.slot(), link);
        }
        Some(key)
    }

    /// Returns the next order number. 2^64 of them last for centuries.
    #[inline]
    fn order(&mut self) -> u64 {
        let order = self.next_order;
        self.next_order += 1;
        order
    }
}

/// Drops the remaining values, even if the drop of one panics.
struct Rest<'a, T> {
    slots: &'a mut Slots<T>,
    next: u32,
}

impl<T> Rest<'_, T> {
    fn drop_all(&mut self) {
        while self.next < self.slots.count() {
            self.next += 1;
            if self.slots.get(self.next - 1).is_some() {
                drop(self.slots.free(self.next - 1));
            }
        }
    }
}

impl<T> Drop for Rest<'_, T> {
    fn drop(&mut self) {
        self.drop_all();
    }
}

/// Returns the greatest time that is due by `now`: [`NEVER`] is not.
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
