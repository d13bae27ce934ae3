//! Lists of slots, in chunks of one memory.
//!
//! A list grows at its end and is used up from its front. What is in its middle is not taken out:
//! when its slot no more says that its key lies there, it is stale, and skipped. A list counts its
//! live ones: without any it is freed at once, and with too few it is made anew by who owns it.
//!
//! # Invariants
//! 1. A chunk is on the free list, or on exactly one list, whose number it knows.
//! 2. A list that is not empty has a key right before its `end`. All its chunks but the last are
//!    full.
//! 3. A list with a live key is not empty, and a list without one is.

use alloc::vec::Vec;
use core::mem;

use super::blocks::Blocks;
use super::key::Key;
use super::place::Place;
use super::slots::Slots;
use super::steps;

/// Slots in a chunk.
const CHUNK: usize = 16;
/// Up to so many chunks the memory doubles, then it grows by a sixteenth.
const DOUBLED: usize = 1 << 8;
/// No chunk.
const NONE: u32 = u32::MAX;
/// No chunk either: what the list consists of is found elsewhere.
const ELSEWHERE: u32 = u32::MAX - 1;
/// Added to the number of a list that is the lane's.
const LANE: u32 = 1 << 31;
/// As many lists are allocated at a time.
pub(super) const LISTS: usize = 256;
/// So many stale ones more than half of the live ones are left alone.
const SLACK: u32 = 4;

#[derive(Debug)]
pub(super) struct Chunks {
    slots: Blocks<[u32; CHUNK], DOUBLED>,
    /// For each chunk the one after it.
    next: Vec<u32>,
    /// For each chunk the list it is on, and whether that is the lane's.
    owner: Vec<u32>,
    free: u32,
    free_count: usize,
    /// Whether memory has grown since a list was made anew.
    has_grown: bool,
    lists: Vec<List>,
    /// Where blocks of `LISTS` unused ones begin.
    free_lists: Vec<u32>,
    /// For each block of them whether they are the lane's.
    is_lane: Vec<bool>,
}

/// A list of slots in a [`Chunks`].
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    /// Behind the last one. At the end of a chunk if the next one needs another chunk.
    end: u32,
    /// How many lie in its chunks, and how many of those are live.
    len: u32,
    live: u32,
}

/// What was in a chunk that is on no list any more.
pub(super) struct Chunk {
    front: usize,
    slots: [u32; CHUNK],
    count: usize,
}

/// What has become of a list of which one is not live any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Enough,
    /// It should be made anew: see [`Chunks::rewrite`].
    Few,
}

impl List {
    const EMPTY: Self = Self {
        first: NONE,
        end: 0,
        len: 0,
        live: 0,
    };

    fn is_empty(self) -> bool {
        self.first == NONE
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
            slots: Blocks::new(),
            next: Vec::new(),
            owner: Vec::new(),
            free: NONE,
            free_count: 0,
            has_grown: false,
            lists: Vec::new(),
            free_lists: Vec::new(),
            is_lane: Vec::new(),
        }
    }

    /// Sees to it that so many more can be pushed, if it is to few lists.
    pub(super) fn reserve(&mut self, slots: usize) {
        let chunks = slots.div_ceil(CHUNK).saturating_sub(self.free_count);
        let chunks = self.next.len().saturating_add(chunks);
        self.slots.reserve(chunks);
        self.next.reserve_exact(chunks - self.next.len());
        self.owner.reserve_exact(chunks - self.owner.len());
    }

    /// Forgets all lists, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.next.clear();
        self.owner.clear();
        self.free = NONE;
        self.free_count = 0;
        self.lists.clear();
        self.free_lists.clear();
        self.is_lane.clear();
    }

    /// The first number of as many empty lists as `LISTS` says.
    #[cold]
    pub(super) fn add_lists(&mut self, for_lane: bool) -> u32 {
        let first = self.free_lists.pop().unwrap_or_else(|| {
            let first = small(self.lists.len());
            self.lists.resize(self.lists.len() + LISTS, List::EMPTY);
            self.is_lane.push(false);
            first
        });
        self.is_lane[first as usize / LISTS] = for_lane;
        first
    }

    /// They are empty, and used no more.
    #[cold]
    pub(super) fn drop_lists(&mut self, first: u32) {
        debug_assert!(
            self.lists[first as usize..][..LISTS]
                .iter()
                .all(|list| list.is_empty())
        );
        self.free_lists.push(first);
    }

    #[inline]
    fn list(&self, list: u32) -> List {
        self.lists[list as usize]
    }

    #[inline]
    pub(super) fn is_empty(&self, list: u32) -> bool {
        self.list(list).is_empty()
    }

    /// The first of `count` lists from `list` on that is not empty.
    pub(super) fn first_used(&self, list: u32, count: usize) -> Option<usize> {
        let lists = &self.lists[list as usize..][..count];
        lists.iter().position(|list| !list.is_empty())
    }

    /// How many are on the list, stale ones included.
    #[inline]
    pub(super) fn len(&self, list: u32) -> usize {
        self.list(list).len as usize
    }

    pub(super) fn live(&self, list: u32) -> usize {
        self.list(list).live as usize
    }

    /// What is on this list is found elsewhere, by this number.
    pub(super) fn put_elsewhere(&mut self, list: u32, number: u32) {
        debug_assert!(self.is_empty(list));
        self.lists[list as usize] = List {
            first: ELSEWHERE,
            live: number,
            ..List::EMPTY
        };
    }

    #[inline]
    pub(super) fn elsewhere(&self, list: u32) -> Option<u32> {
        let list = self.list(list);
        (list.first == ELSEWHERE).then_some(list.live)
    }

    /// Nothing is found elsewhere any more.
    pub(super) fn forget(&mut self, list: u32) {
        debug_assert!(self.elsewhere(list).is_some());
        self.lists[list as usize] = List::EMPTY;
    }

    /// Whether the next one needs another chunk.
    #[inline]
    pub(super) fn is_chunk_full(&self, list: u32) -> bool {
        (self.list(list).end as usize).is_multiple_of(CHUNK)
    }

    /// Which list this one is on, and whether it is of those that were added for the lane.
    #[inline]
    pub(super) fn owner(&self, index: usize) -> (u32, bool) {
        let owner = self.owner[index / CHUNK];
        (owner & !LANE, owner & LANE > 0)
    }

    /// The slot that is listed there.
    #[inline]
    pub(super) fn at(&self, index: usize) -> u32 {
        let chunk = self.slots.get(index / CHUNK);
        chunk.map_or(u32::MAX, |chunk| chunk[index % CHUNK])
    }

    /// Where its last one is.
    pub(super) fn back(&self, list: u32) -> Option<usize> {
        let list = self.list(list);
        (list.len > 0).then(|| list.end as usize - 1)
    }

    /// Where its first one is. It must have one.
    pub(super) fn front(&self, list: u32) -> usize {
        self.list(list).first as usize * CHUNK
    }

    /// Adds one at the end and tells where it lies.
    #[inline]
    pub(super) fn push(&mut self, list: u32, slot: u32) -> Place {
        if self.is_chunk_full(list) {
            self.extend(list);
        }
        let of = &mut self.lists[list as usize];
        let index = of.end as usize;
        of.end += 1;
        of.len += 1;
        of.live += 1;
        if let Some(chunk) = self.slots.get_mut(index / CHUNK) {
            chunk[index % CHUNK] = slot;
        }
        Place::chunks(index)
    }

    /// As [`push`](Self::push), if its last chunk is not full, as it is of what is found elsewhere.
    #[expect(clippy::inline_always, reason = "measured: see `line.rs`")]
    #[inline(always)]
    pub(super) fn push_beside(&mut self, list: u32, slot: u32) -> Option<Place> {
        let of = &mut self.lists[list as usize];
        let index = of.end as usize;
        if index.is_multiple_of(CHUNK) {
            return None;
        }
        of.end += 1;
        of.len += 1;
        of.live += 1;
        if let Some(chunk) = self.slots.get_mut(index / CHUNK) {
            chunk[index % CHUNK] = slot;
        }
        Some(Place::chunks(index))
    }

    /// One on the list is not live any more.
    #[expect(clippy::inline_always, reason = "measured: see `line.rs`")]
    #[inline(always)]
    pub(super) fn outdate(&mut self, list: u32) -> Left {
        let of = &mut self.lists[list as usize];
        of.live -= 1;
        if of.live == 0 {
            self.free_list(list);
        } else if self.has_grown && of.len > of.live + of.live / 2 + SLACK {
            return Left::Few;
        }
        Left::Enough
    }

    /// Behind the last one of its chunk.
    pub(super) fn chunk_end(&self, list: u32, index: usize) -> usize {
        let end = (index / CHUNK + 1) * CHUNK;
        end.min(match self.list(list) {
            of if of.is_last(small(index / CHUNK)) => of.end as usize,
            _ => end,
        })
    }

    /// Where the next after the one at `index` is, if there is one. Chunks before it are freed.
    #[inline]
    pub(super) fn advance(&mut self, list: u32, index: usize) -> Option<usize> {
        let of = &mut self.lists[list as usize];
        if index + 1 == of.end as usize {
            return None;
        }
        if !(index + 1).is_multiple_of(CHUNK) {
            return Some(index + 1);
        }
        let left = of.first;
        of.first = self.next[left as usize];
        of.len -= small(CHUNK);
        let front = of.first as usize * CHUNK;
        self.free_chunk(left);
        Some(front)
    }

    /// Takes the first chunk off the list. Those in it that are live have to be counted off by
    /// [`forget_live`](Self::forget_live).
    #[inline]
    pub(super) fn pop(&mut self, list: u32) -> Option<Chunk> {
        let mut of = self.list(list);
        let chunk = self.pop_of(&mut of);
        self.lists[list as usize] = of;
        chunk
    }

    #[inline]
    fn pop_of(&mut self, of: &mut List) -> Option<Chunk> {
        if of.len == 0 {
            return None;
        }
        let chunk = of.first;
        let (front, count) = (chunk as usize * CHUNK, of.count(chunk));
        if of.is_last(chunk) {
            of.first = NONE;
            of.end = 0;
            of.len = 0;
        } else {
            of.first = self.next[chunk as usize];
            of.len -= small(CHUNK);
        }
        let slots = self.slots.get(chunk as usize).copied();
        self.free_chunk(chunk);
        Some(Chunk {
            front,
            slots: slots.unwrap_or([u32::MAX; CHUNK]),
            count,
        })
    }

    /// Takes all off the list, and moves the live ones: so many.
    #[inline]
    pub(super) fn take_all<T>(
        &mut self,
        list: u32,
        into: &mut Vec<Key>,
        slots: &Slots<T>,
    ) -> usize {
        let of = mem::replace(&mut self.lists[list as usize], List::EMPTY);
        if of.len == 0 {
            return 0;
        }
        let mut chunk = of.first;
        while let Some(listed) = self.slots.get(chunk as usize) {
            let places = (chunk as usize * CHUNK..).map(Place::chunks);
            for (&slot, place) in listed[..of.count(chunk)].iter().zip(places) {
                if let Some(key) = slots.key_at(slot, place) {
                    into.push(key);
                }
            }
            if of.is_last(chunk) {
                break;
            }
            chunk = self.next[chunk as usize];
        }
        self.next[chunk as usize] = mem::replace(&mut self.free, of.first);
        self.free_count += (of.len as usize).div_ceil(CHUNK);
        of.live as usize
    }

    /// So many live ones were taken off with their chunks. If none is left, the rest is freed.
    pub(super) fn forget_live(&mut self, list: u32, count: usize) {
        let of = &mut self.lists[list as usize];
        of.live -= small(count);
        if of.live == 0 && of.len > 0 {
            self.free_list(list);
        }
    }

    /// All slots on the list in its order, and where they are.
    pub(super) fn iter(&self, list: u32) -> impl Iterator<Item = (u32, Place)> {
        let list = self.list(list);
        let mut next = (list.len > 0).then_some(list.first);
        let chunks = core::iter::from_fn(move || {
            let chunk = next?;
            next = (!list.is_last(chunk)).then(|| self.next[chunk as usize]);
            let slots = self.slots.get(chunk as usize)?;
            Some((chunk as usize * CHUNK, &slots[..list.count(chunk)]))
        });
        chunks.flat_map(|(front, slots)| slots.iter().copied().zip((front..).map(Place::chunks)))
    }

    /// Makes the list anew of what is live on it, in its order.
    #[cold]
    pub(super) fn rewrite<T>(&mut self, list: u32, slots: &mut Slots<T>) {
        self.has_grown = false;
        let mut old = mem::replace(&mut self.lists[list as usize], List::EMPTY);
        while let Some(chunk) = self.pop_of(&mut old) {
            for (slot, place) in chunk.slots() {
                steps::count_one();
                if let Some((_, place)) = slots.lift(slot, place) {
                    *place = self.push(list, slot);
                }
            }
        }
    }

    /// The whole list becomes another one, which is empty.
    pub(super) fn rename(&mut self, list: u32, to: u32) {
        let of = mem::replace(&mut self.lists[list as usize], List::EMPTY);
        debug_assert!(self.is_empty(to));
        self.lists[to as usize] = of;
        let mut chunk = of.first;
        if of.len == 0 {
            return;
        }
        loop {
            self.owner[chunk as usize] = to;
            if of.is_last(chunk) {
                break;
            }
            chunk = self.next[chunk as usize];
        }
    }

    /// The live keys of all lists.
    pub(super) fn keys<T>(&self, slots: &Slots<T>) -> Vec<Key> {
        let lists = 0..small(self.lists.len());
        let all = lists.flat_map(|list| self.iter(list));
        all.filter_map(|(slot, place)| slots.key_at(slot, place))
            .collect()
    }

    /// How many slots its memory is for.
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity() * CHUNK
    }

    /// Frees all chunks of the list, whatever is in them.
    #[cold]
    fn free_list(&mut self, list: u32) {
        let of = mem::replace(&mut self.lists[list as usize], List::EMPTY);
        if of.len == 0 {
            return;
        }
        let end = (of.end as usize - 1) / CHUNK;
        self.next[end] = mem::replace(&mut self.free, of.first);
        self.free_count += (of.len as usize).div_ceil(CHUNK);
    }

    /// Links another chunk to the end of the list.
    #[cold]
    fn extend(&mut self, list: u32) {
        let chunk = match self.next.get(self.free as usize) {
            Some(&next) => {
                self.free_count -= 1;
                mem::replace(&mut self.free, next)
            }
            None => self.new_chunk(),
        };
        let is_lane = self.is_lane[list as usize / LISTS];
        self.owner[chunk as usize] = if is_lane { list | LANE } else { list };
        let of = &mut self.lists[list as usize];
        if of.is_empty() {
            of.first = chunk;
        } else {
            self.next[(of.end as usize - 1) / CHUNK] = chunk;
        }
        of.end = small(chunk as usize * CHUNK);
    }

    fn new_chunk(&mut self) -> u32 {
        self.has_grown = true;
        let chunk = small(self.next.len());
        if self.next.len() == self.next.capacity() {
            // As the slots do.
            let more = match self.next.len() {
                len @ ..DOUBLED => len.max(4),
                len => len / 16,
            };
            self.next.reserve_exact(more);
            self.owner.reserve_exact(more);
        }
        self.next.push(NONE);
        self.owner.push(NONE);
        self.slots.push([u32::MAX; CHUNK]);
        chunk
    }

    #[inline]
    fn free_chunk(&mut self, chunk: u32) {
        self.next[chunk as usize] = mem::replace(&mut self.free, chunk);
        self.free_count += 1;
    }
}

/// An index of a slot in a chunk, of a chunk, or of a list: they are fewer than places.
#[expect(clippy::cast_possible_truncation, reason = "it is below the limit")]
pub(super) fn small(index: usize) -> u32 {
    debug_assert!(index < super::place::LIMIT);
    index as u32
}
