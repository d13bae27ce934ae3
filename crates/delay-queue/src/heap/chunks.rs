//! Lists of slots, in chunks of one memory.
//!
//! A list grows at its end and is used up from its front. What is in its middle is not taken out:
//! when its slot no more says that its key lies there, it is stale, and skipped.
//!
//! # Invariants
//! 1. A chunk is on the free list, or on exactly one list.
//! 2. A list that is not empty has a key right before its `end`.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::{array, mem};

use super::place::Place;
use super::slots::Slots;
use super::steps;

/// Slots in a chunk.
pub(super) const CHUNK: usize = 16;
/// No chunk.
const NONE: u32 = u32::MAX;
/// Up to so many slots the memory doubles, then it grows by an eighth.
const SMALL: usize = 1 << 12;

#[derive(Debug)]
pub(super) struct Chunks {
    slots: Vec<u32>,
    /// For each chunk the one after it; for the last one of a list, how many were linked to it. (If
    /// chunks before it have left meanwhile, they are counted still: only the lane has such; a sweep
    /// of a far list counts them off.)
    next: Vec<u32>,
    free: u32,
    free_count: usize,
    /// How many of those on lists are stale.
    stale: usize,
}

/// A list of slots in a [`Chunks`], or what stands for it once it was cut: the number of a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    /// Behind the last one. At the end of a chunk if the next one needs another chunk.
    end: u32,
}

/// The `end` of what is no list, but the number of a child. No list of slots ends there, nor is there
/// room for another slot.
const CHILD: u32 = u32::MAX - 15;

/// What was in a chunk that is on no list any more.
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

    /// Without slots, and without a child.
    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }

    /// Whether it has slots, and the next one needs another chunk.
    #[inline]
    pub(super) fn is_full(self) -> bool {
        (self.end as usize).is_multiple_of(CHUNK) && !self.is_empty()
    }

    /// Empties it, unless it stands for a child.
    pub(super) fn forget(&mut self) {
        if self.child().is_none() {
            *self = Self::EMPTY;
        }
    }

    /// Where its last one is.
    pub(super) fn back(self) -> Option<usize> {
        (!self.is_empty()).then(|| self.end as usize - 1)
    }

    /// Where its first one is. It must have one.
    pub(super) fn front(self) -> usize {
        self.first as usize * CHUNK
    }

    /// The index after this one, if it is in the same chunk.
    #[inline]
    pub(super) fn beside(self, index: usize) -> Option<usize> {
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

    /// How many are in this chunk of it.
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
    /// The slots, and where each was.
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

    /// Whether so many listed slots are stale that some should be removed: more than 7 of 8, or more
    /// than a third when less than 1/32 of the memory is free.
    #[inline]
    pub(super) fn should_be_swept(&self) -> bool {
        let (listed, capacity) = (self.slots.len() - CHUNK * self.free_count, self.capacity());
        let is_scarce = 32 * (capacity - listed) < capacity;
        8 * self.stale > 7 * listed || 3 * self.stale > listed && is_scarce
    }

    /// Removes the stale slots of a list's first chunk, and moves its other slots to the list's end.
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
        // Looked up first, all at once: cache misses overlap then.
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

    /// As [`reserve`](Self::reserve).
    pub(super) fn try_reserve(&mut self, slots: usize) -> Result<(), TryReserveError> {
        let chunks = self.missing(slots);
        self.slots.try_reserve_exact(chunks * CHUNK)?;
        self.next.try_reserve_exact(chunks)
    }

    /// How many new chunks so many more slots need.
    fn missing(&self, slots: usize) -> usize {
        slots.div_ceil(CHUNK).saturating_sub(self.free_count)
    }

    /// Forgets all lists, and keeps the memory.
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

    /// One that is on a list is stale from now on.
    #[inline]
    pub(super) fn outdate_one(&mut self) {
        self.stale += 1;
    }

    /// A stale one is on no list any more.
    #[inline]
    pub(super) fn forget_one(&mut self) {
        self.stale -= 1;
    }

    /// Whether a full list has at least so many slots, if as many of them are stale as of all.
    #[inline]
    pub(super) fn is_long(&self, list: List, limit: usize) -> bool {
        let linked = self.linked(list);
        linked >= limit && self.likely_live(linked) >= limit
    }

    /// For how many slots chunks were linked to a list. None, if it stands for a child.
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

    /// As [`push`](Self::push), unless the list stands for a child, or needs another chunk and
    /// [is long](Self::is_long).
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

    /// Adds one at the end. The result is where it lies.
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

    /// Where the next after the one at `index` is, if there is one. The chunks before it are freed.
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

    /// Takes the first chunk off the list.
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

    /// How many are on the list, stale ones included.
    pub(super) fn len(&self, list: List) -> usize {
        self.slices(list).map(|(_, slots)| slots.len()).sum()
    }

    /// The slots on the list in its order, and where they are.
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

    /// Links another chunk to the end of the list.
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

/// An index of a slot in a chunk, or of a chunk: they are fewer than places.
#[expect(clippy::cast_possible_truncation, reason = "it is below the limit")]
pub(super) fn small(index: usize) -> u32 {
    debug_assert!(index < super::place::LIMIT);
    index as u32
}
