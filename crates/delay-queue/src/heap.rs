//! A heap of values that fall due.
//!
//! Not for: waiting (there is no clock and no thread in it), and sharing between threads as it is.
//!
//! # What always holds
//! 1. Entries leave in the order of their due times, and those due at the same time in the order
//!    in which they were pushed or last reset.
//! 2. A stale or foreign id finds nothing, now and ever.
//! 3. Every value is handed out or dropped exactly once, also if a drop panics.
//!
//! # How
//! A value stays in its slot; keys move towards the front of a line as their time comes near, and
//! are put in order only then. `line.rs` begins with the whole of it.

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

/// The due time of what never falls due. It sorts behind all others, and can still be cancelled.
pub const NEVER: u64 = u64::MAX;

/// The most entries a heap holds.
#[cfg(feature = "std")]
pub(crate) const MOST: usize = slots::LIMIT;

/// A heap of values that fall due, from which each can also be removed, or moved to another time.
///
/// Times are nanoseconds since an epoch that the owner picks; the heap has no clock. Among entries
/// due at the same time, the one that was pushed first leaves first.
///
/// It holds up to 2<sup>28</sup> entries, and needs up to 32 bytes for each beside its value, whose
/// size is rounded up to a multiple of eight.
///
/// Not for: priorities (times that come in order, and those far away, are what it is quick with),
/// and sharing between threads, for which there is `DelayQueue`.
///
/// # Cost
/// Costs are amortized. With n entries, [`push`](Self::push), [`pop`](Self::pop) and what is made
/// of them are O(log n), [`remove`](Self::remove) mostly O(1), [`peek_due`](Self::peek_due) always.
///
/// A single call can be longer: one to whose entries the time has come, or that finds too many of
/// them at one time, moves some thousands, whatever n is. Two are O(n): a push that finds the memory
/// full, which then grows as a `Vec` does; and a call that takes the first entry when most of the
/// entries behind it were cancelled. Keys of cancelled and reset entries are removed a few at a time.
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
    /// Keys of entries that are checked out.
    out: Vec<Key>,
    len: usize,
    next_order: u64,
    number: u64,
}

impl<T> DelayHeap<T> {
    /// An empty heap. Allocates nothing.
    pub fn new() -> Self {
        Self::beginning_with(0, 0)
    }

    /// An empty heap whose order numbers and generations begin with these: so that tests see how
    /// they end.
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

    /// The same heap, which must be empty, with lists that are as short as can be: so that tests
    /// see how they are cut.
    #[doc(hidden)]
    #[must_use]
    pub fn with_short_lists(mut self) -> Self {
        self.line = Line::new(Sizes::LEAST);
        self
    }

    /// An empty heap with memory for so many entries.
    ///
    /// # Panics
    /// If they are more than 2<sup>28</sup>.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut heap = Self::new();
        heap.reserve(capacity);
        heap
    }

    /// Adds a value that falls due then.
    ///
    /// # Panics
    /// If the heap holds 2<sup>28</sup> entries. [`try_push`](Self::try_push) does not.
    #[expect(clippy::inline_always, reason = "measured: see `line.rs`")]
    #[inline(always)]
    pub fn push(&mut self, value: T, due: u64) -> EntryId {
        let pushed = self.try_push(value, due).ok();
        pushed.expect("a heap holds no more than 2^28 entries")
    }

    /// As [`push`](Self::push).
    ///
    /// # Errors
    /// The value comes back if the heap holds 2<sup>28</sup> entries.
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

    /// Takes an entry out, due or not. Nothing of it stays behind but what
    /// [`shrink_to`](Self::shrink_to) gives back.
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

    /// Gives an entry another due time, and returns the old one.
    ///
    /// It counts as a fresh push, also to an equal time: others that are due then come first.
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

    /// The value of an entry.
    pub fn get(&self, id: EntryId) -> Option<&T> {
        self.find(id)?;
        Some(self.slots.get(id.slot())?.2)
    }

    /// The value of an entry, to be changed.
    pub fn get_mut(&mut self, id: EntryId) -> Option<&mut T> {
        self.find(id)?;
        self.slots.value_mut(id.slot())
    }

    /// When an entry falls due.
    pub fn due(&self, id: EntryId) -> Option<u64> {
        Some(self.find(id)?.0)
    }

    /// Whether an entry is still there.
    pub fn contains(&self, id: EntryId) -> bool {
        self.find(id).is_some()
    }

    /// The entry that leaves next, due or not. O(1).
    pub fn peek(&self) -> Option<Entry<&T>> {
        self.look_at(self.first()?.slot())
    }

    /// When the next entry falls due. O(1).
    #[inline]
    pub fn peek_due(&self) -> Option<u64> {
        (self.len > 0).then(|| self.line.first_due())
    }

    /// Takes the next entry, due or not.
    pub fn pop(&mut self) -> Option<Entry<T>> {
        if self.is_empty() {
            return None;
        }
        let key = self.line.pop(&mut self.slots);
        self.leave(key)
    }

    /// Takes the next entry if it is due by `now`. One that is due [`NEVER`] never is.
    #[expect(clippy::inline_always, reason = "measured: see `line.rs`")]
    #[inline(always)]
    pub fn pop_ready(&mut self, now: u64) -> Option<Entry<T>> {
        if !self.is_ready(now) {
            return None;
        }
        let key = self.line.pop(&mut self.slots);
        self.leave(key)
    }

    /// Takes up to `max` entries that are due by `now`, in order.
    ///
    /// Each leaves when the iterator yields it. What is not asked for stays.
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

    /// How many entries are due by `now`, counted no further than `limit`.
    ///
    /// As many entries are put in order as are counted, and looked at once more if it is asked
    /// again.
    pub fn count_ready(&mut self, now: u64, limit: usize) -> usize {
        self.line.count_ready(by(now), limit, &mut self.slots)
    }

    /// The next due time after `now`, which can be [`NEVER`].
    ///
    /// What is due by `now` is put in order, and looked at.
    pub fn next_after(&mut self, now: u64) -> Option<u64> {
        self.line.next_after(by(now), &mut self.slots)
    }

    /// As [`count_ready`](Self::count_ready), for who asks again and again while the count changes
    /// by little: each entry is looked at once until it is pushed or reset anew. It may count more
    /// than `limit`.
    #[cfg(feature = "std")]
    pub(crate) fn gather(&mut self, now: u64, limit: usize) -> usize {
        self.line.gather(by(now), limit, &mut self.slots)
    }

    /// The next due time of what was not gathered, which can be [`NEVER`]. If that is also when
    /// nothing is left.
    #[cfg(feature = "std")]
    pub(crate) fn next_ungathered(&mut self) -> u64 {
        self.line.next_ungathered(&mut self.slots)
    }

    /// Takes the next entry on probation, if it is due by `now`: it may come back.
    ///
    /// Until then it is not in the heap: it is not counted, and its id finds nothing.
    ///
    /// ```
    /// use delay_queue::DelayHeap;
    ///
    /// let mut heap = DelayHeap::new();
    /// heap.push("job", 1);
    /// let out = heap.check_out(1).expect("it is due");
    /// assert!(heap.is_empty());
    /// let id = heap.check_in(out).expect("it is from this heap"); // Nobody wanted it.
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

    /// Puts back an entry that was checked out, under its old id, due time and order.
    ///
    /// # Errors
    /// It comes back if it was not checked out of this heap.
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
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries there can be before their memory grows.
    ///
    /// An eighth of it lists them, by when they are due. That part can grow a little sooner, if
    /// they are very unevenly spread.
    pub fn capacity(&self) -> usize {
        self.slots.capacity() - self.out.len()
    }

    /// Allocates memory for so many entries beside those that are there.
    ///
    /// # Panics
    /// If they would be more than 2<sup>28</sup> in all.
    pub fn reserve(&mut self, additional: usize) {
        // The slots first: they refuse what is too much before any memory is asked for.
        let present = self.len + self.out.len();
        self.slots.reserve(present.saturating_add(additional));
        self.line.reserve(additional);
    }

    /// As [`reserve`](Self::reserve), for who can do without: a batch is refused before it is
    /// begun.
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
    /// [`ReserveError::TooMany`] if they would be more than 2<sup>28</sup> in all,
    /// [`ReserveError::NoMemory`] if the allocator refuses. The entries are as they were.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), ReserveError> {
        // In the order of `reserve`.
        let present = self.len + self.out.len();
        self.slots.try_reserve(present.saturating_add(additional))?;
        Ok(self.line.try_reserve(additional)?)
    }

    /// Gives back memory, but for so many entries, or as many as there are.
    ///
    /// An entry never changes its place, so memory before one that stays cannot be given back. Once
    /// a place was used 2<sup>31</sup> times, that is so for every place, until a shrink finds the
    /// heap empty. O(n log n). Ids stay good.
    pub fn shrink_to(&mut self, min_capacity: usize) {
        if self.is_empty() && self.out.is_empty() {
            // No entry is there or can come back. Under a new number no id that was given out
            // finds anything, so generations can begin again.
            self.number = unique::number();
            self.slots.begin_anew();
        }
        self.slots
            .shrink_to(min_capacity.max(self.len) + self.out.len());
        self.line
            .shrink_to(min_capacity.max(self.len), &mut self.slots);
        self.out.shrink_to_fit();
    }

    /// Gives back as much memory as it can. See [`shrink_to`](Self::shrink_to).
    pub fn shrink_to_fit(&mut self) {
        self.shrink_to(0);
    }

    /// Drops all entries and keeps the memory. Those that are checked out may still come back.
    ///
    /// If a drop panics, the others are dropped all the same.
    pub fn clear(&mut self) {
        self.line.clear();
        self.len = 0;
        let mut rest = Rest {
            slots: &mut self.slots,
            next: 0,
        };
        rest.drop_all();
    }

    /// All entries, in any order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::new(self)
    }

    /// All entries, in order. O(n log n).
    pub fn into_sorted_vec(self) -> Vec<Entry<T>> {
        self.into_iter().collect()
    }

    #[inline]
    fn id(&self, slot: u32, generation: u32) -> EntryId {
        EntryId::new(self.number, slot, generation)
    }

    /// When this entry is due, and where its key is, if it is in this heap.
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
        // Without an entry, the first key is the last one of all, and never due.
        self.line.first_due() <= by(now)
    }

    /// The entry of a key that has left the line.
    #[expect(clippy::inline_always, reason = "measured: see `line.rs`")]
    #[inline(always)]
    fn leave(&mut self, key: Key) -> Option<Entry<T>> {
        let (generation, value) = self.slots.free(key.slot())?;
        self.left();
        let id = self.id(key.slot(), generation);
        let due = key.due;
        Some(Entry { id, due, value })
    }

    /// An entry has left its slot.
    #[inline]
    fn left(&mut self) {
        self.len -= 1;
        if self.len == 0 && self.out.is_empty() {
            self.slots.all_are_free();
        }
    }

    /// The entry in this slot.
    fn look_at(&self, slot: u32) -> Option<Entry<&T>> {
        let (generation, due, value) = self.slots.get(slot)?;
        let id = self.id(slot, generation);
        Some(Entry { id, due, value })
    }

    /// Takes the key of an entry that is checked out of this heap off the list of those.
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

    /// The next order number. They do not run out: 2^64 of them last for centuries.
    #[inline]
    fn order(&mut self) -> u64 {
        let order = self.next_order;
        self.next_order += 1;
        order
    }
}

/// Values to be dropped, also after one whose drop has panicked.
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
