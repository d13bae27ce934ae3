//! Lists of slots, in chunks of one shared vector.
//!
//! A list grows at its end and is consumed from its front. Slots in the middle are not removed: a
//! slot whose recorded place is elsewhere is stale, and skipped.
//!
//! # Invariants
//! 1. A chunk is on the free list, or on exactly one list.
//! 2. A non-empty list has a slot immediately before its `end`.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::{array, mem};

use super::place::Place;
use super::slots::Slots;
use super::steps;

pub(super) const CHUNK: usize = 16;
/// The index that stands for no chunk.
const NONE: u32 = u32::MAX;
/// Below this number of slots the memory doubles, above it grows by an eighth.
const SMALL: usize = 1 << 12;

#[derive(Debug)]
pub(super) struct Chunks {
    slots: Vec<u32>,
    /// For each chunk, the next one. For the last chunk of a list, the number of chunks that were
    /// linked to the list. (It includes chunks that have since left the front. Only the lane has
    /// such chunks; a sweep of a far list subtracts them.)
    next: Vec<u32>,
    free: u32,
    free_count: usize,
    stale: usize,
}

/// A list of slots in a [`Chunks`], or, after it was cut, the number of the child that replaces it.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    /// One past the last slot. At the end of a chunk if the next slot needs another chunk.
    end: u32,
}

/// The `end` that marks a child. No list of slots ends there or has room for another slot there.
const CHILD: u32 = u32::MAX - 15;

/// Contents of a chunk that was removed from its list.
pub(super) struct Chunk {
    front: usize,
    slots: [u32; CHUNK],
    count: usize,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        end: 0,
    };

    pub(super) fn of_child(child: u32) -> Self {
        let (first, end) = (child, CHILD);
        Self { first, end }
    }

    #[inline]
    pub(super) fn child(self) -> Option<u32> {
        (self.end == CHILD).then_some(self.first)
    }

    /// Returns whether there are no slots and no child.
    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }

    /// Returns whether there are slots and the next one needs another chunk.
    #[inline]
    pub(super) fn is_full(self) -> bool {
        (self.end as usize).is_multiple_of(CHUNK) && !self.is_empty()
    }

    /// Empties the list, unless it stands for a child.
    pub(super) fn forget(&mut self) {
        if self.child().is_none() {
            *self = Self::EMPTY;
        }
    }

    pub(super) fn back(self) -> Option<usize> {
        (!self.is_empty()).then(|| self.end as usize - 1)
    }

    /// Returns the index of the first slot. The list must not be empty.
    pub(super) fn front(self) -> usize {
        self.first as usize * CHUNK
    }

    /// Returns the next index, if it is in the same chunk.
    #[inline]
    pub(super) fn next_in_chunk(self, index: usize) -> Option<usize> {
        let next = index + 1;
        (next != self.end as usize && !next.is_multiple_of(CHUNK)).then_some(next)
    }

    pub(super) fn is_one_chunk(self) -> bool {
        !self.is_empty() && self.is_last(self.first)
    }

    #[inline]
    fn is_last(self, chunk: u32) -> bool {
        (self.end as usize - 1) / CHUNK == chunk as usize
    }

    #[inline]
    fn count(self, chunk: u32) -> usize {
        if self.is_last(chunk) {
            self.end as usize - chunk as usize * CHUNK
        } else {
            CHUNK
        }
    }
}

impl Chunk {
    /// Iterates over the slots and their former places.
    #[inline]
    pub(super) fn slots(&self) -> impl Iterator<Item = (u32, Place)> {
        let places = (self.front..).map(Place::chunks);
        self.slots[..self.count].iter().copied().zip(places)
    }
}

impl Chunks {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            next: Vec::new(),
            free: NONE,
            free_count: 0,
            stale: 0,
        }
    }

    pub(super) fn with_capacity(slots: usize) -> Self {
        let mut chunks = Self::new();
        chunks.reserve(slots);
        chunks
    }

    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Returns whether stale slots should be removed: they are more than 7 of 8,
    /// or more than a third when less than 1/32 of the memory is free.
    #[inline]
    pub(super) fn should_be_swept(&self) -> bool {
        let (listed, capacity) = (self.slots.len() - CHUNK * self.free_count, self.capacity());
        let is_scarce = 32 * (capacity - listed) < capacity;
        8 * self.stale > 7 * listed || 3 * self.stale > listed && is_scarce
    }

    /// Removes the stale slots of a list's first chunk, and moves its other slots to the list's
    /// end.
    pub(super) fn sweep_first<T>(&mut self, list: &mut List, slots: &mut Slots<T>) {
        let Some(chunk) = self.pop(list) else {
            return;
        };
        if let Some(back) = list.back() {
            self.next[back / CHUNK] -= 1;
        }
        self.move_live(&chunk, 0, list, slots);
    }

    /// Moves the live slots of a popped chunk, without the first few, to the end of a list.
    pub(super) fn move_live<T>(
        &mut self,
        chunk: &Chunk,
        skipped: usize,
        list: &mut List,
        slots: &mut Slots<T>,
    ) {
        // All lookups come first, so that their cache misses overlap.
        let is_live: [bool; CHUNK] = array::from_fn(|index| {
            slots.is_at(chunk.slots[index], Place::chunks(chunk.front + index))
        });
        let listed = is_live.into_iter().zip(chunk.slots).take(chunk.count);
        for (is_live, slot) in listed.skip(skipped) {
            steps::count_one();
            if is_live {
                slots.moved(slot, self.push(list, slot));
            } else {
                self.forget_one();
            }
        }
    }

    pub(super) fn reserve(&mut self, slots: usize) {
        let chunks = self.missing(slots);
        self.slots.reserve_exact(chunks * CHUNK);
        self.next.reserve_exact(chunks);
    }

    pub(super) fn try_reserve(&mut self, slots: usize) -> Result<(), TryReserveError> {
        let chunks = self.missing(slots);
        self.slots.try_reserve_exact(chunks * CHUNK)?;
        self.next.try_reserve_exact(chunks)
    }

    /// Returns the number of new chunks that `slots` more slots need.
    fn missing(&self, slots: usize) -> usize {
        slots.div_ceil(CHUNK).saturating_sub(self.free_count)
    }

    /// Removes all lists, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.next.clear();
        self.free = NONE;
        self.free_count = 0;
        self.stale = 0;
    }

    #[inline]
    pub(super) fn at(&self, index: usize) -> u32 {
        self.slots[index]
    }

    /// Records that a listed slot has become stale.
    #[inline]
    pub(super) fn outdate_one(&mut self) {
        self.stale += 1;
    }

    /// Records that a stale slot was removed from its list.
    #[inline]
    pub(super) fn forget_one(&mut self) {
        self.stale -= 1;
    }

    /// Returns whether a full list has at least `limit` live slots, assuming the average share of
    /// stale ones.
    #[inline]
    pub(super) fn is_long(&self, list: List, limit: usize) -> bool {
        let linked = self.linked(list);
        linked >= limit && self.likely_live(linked) >= limit
    }

    /// Returns the number of slots in the chunks linked to a list; zero for a child.
    #[inline]
    pub(super) fn linked(&self, list: List) -> usize {
        if list.is_empty() || list.child().is_some() {
            return 0;
        }
        CHUNK * self.next[(list.end as usize - 1) / CHUNK] as usize
    }

    #[cold]
    fn likely_live(&self, linked: usize) -> usize {
        let (all, stale) = (self.slots.len().max(1) as u64, self.stale as u64);
        let likely = linked as u64 * all.saturating_sub(stale) / all;
        usize::try_from(likely).unwrap_or(linked)
    }

    /// Like [`push`](Self::push), but does nothing if the list stands for a child, or needs another
    /// chunk and [is long](Self::is_long).
    #[inline]
    pub(super) fn push_to_short(
        &mut self,
        list: &mut List,
        slot: u32,
        limit: usize,
    ) -> Option<Place> {
        if (list.end as usize).is_multiple_of(CHUNK) {
            if list.child().is_some() || list.is_full() && self.is_long(*list, limit) {
                return None;
            }
            self.extend(list);
        }
        let index = list.end as usize;
        self.slots[index] = slot;
        list.end += 1;
        Some(Place::chunks(index))
    }

    #[inline]
    pub(super) fn push(&mut self, list: &mut List, slot: u32) -> Place {
        if (list.end as usize).is_multiple_of(CHUNK) {
            self.extend(list);
        }
        let index = list.end as usize;
        self.slots[index] = slot;
        list.end += 1;
        Place::chunks(index)
    }

    /// Returns the index of the slot after `index`, if there is one. Frees the chunks before it.
    #[inline]
    pub(super) fn advance(&mut self, list: &mut List, index: usize) -> Option<usize> {
        if index + 1 == list.end as usize {
            self.free_chunk(list.first);
            *list = List::EMPTY;
            return None;
        }
        if !(index + 1).is_multiple_of(CHUNK) {
            return Some(index + 1);
        }
        let left = list.first;
        list.first = self.next[left as usize];
        self.free_chunk(left);
        Some(list.front())
    }

    #[inline]
    pub(super) fn pop(&mut self, list: &mut List) -> Option<Chunk> {
        if list.is_empty() {
            return None;
        }
        let chunk = list.first;
        let (front, count) = (list.front(), list.count(chunk));
        let mut slots = [u32::MAX; CHUNK];
        slots.copy_from_slice(&self.slots[front..front + CHUNK]);
        if list.is_last(chunk) {
            *list = List::EMPTY;
        } else {
            list.first = self.next[chunk as usize];
        }
        self.free_chunk(chunk);
        Some(Chunk {
            front,
            slots,
            count,
        })
    }

    /// Returns the number of slots on the list, including stale ones.
    pub(super) fn len(&self, list: List) -> usize {
        self.slices(list).map(|(_, slots)| slots.len()).sum()
    }

    pub(super) fn iter(&self, list: List) -> impl Iterator<Item = (u32, Place)> {
        self.slices(list)
            .flat_map(|(front, slots)| slots.iter().copied().zip((front..).map(Place::chunks)))
    }

    fn slices(&self, list: List) -> impl Iterator<Item = (usize, &[u32])> {
        let mut next = (!list.is_empty()).then_some(list.first);
        core::iter::from_fn(move || {
            let chunk = next?;
            next = (!list.is_last(chunk)).then(|| self.next[chunk as usize]);
            let front = chunk as usize * CHUNK;
            Some((front, &self.slots[front..front + list.count(chunk)]))
        })
    }

    fn extend(&mut self, list: &mut List) {
        let chunk = self.take_chunk();
        let mut count = 1;
        if list.is_empty() {
            list.first = chunk;
        } else {
            let before = &mut self.next[(list.end as usize - 1) / CHUNK];
            count += mem::replace(before, chunk);
        }
        self.next[chunk as usize] = count;
        list.end = small(chunk as usize * CHUNK);
    }

    #[inline]
    fn take_chunk(&mut self) -> u32 {
        match self.next.get(self.free as usize) {
            Some(&next) => {
                self.free_count -= 1;
                mem::replace(&mut self.free, next)
            }
            None => self.new_chunk(),
        }
    }

    fn new_chunk(&mut self) -> u32 {
        let chunk = small(self.next.len());
        if self.slots.len() + CHUNK > self.slots.capacity() {
            let len = self.slots.len();
            let more = if len < SMALL { len } else { len / 8 };
            self.reserve(more.max(4 * CHUNK));
        }
        self.next.push(NONE);
        self.slots.resize(self.slots.len() + CHUNK, u32::MAX);
        chunk
    }

    #[inline]
    fn free_chunk(&mut self, chunk: u32) {
        self.next[chunk as usize] = mem::replace(&mut self.free, chunk);
        self.free_count += 1;
    }
}

/// Converts an index of a chunk or of a slot in chunks: places are more numerous than both.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the index is below the limit"
)]
pub(super) fn small(index: usize) -> u32 {
    debug_assert!(index < super::place::LIMIT);
    index as u32
}
