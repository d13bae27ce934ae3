//! Keys that were pushed in order: each is greater than the previous one.
//!
//! Time-outs of equal length arrive this way, and cost next to nothing here. A single much longer
//! time-out would end that, so it is removed again when the next key comes.

use alloc::vec::Vec;
use core::mem;

use super::chunks::{Chunks, List};
use super::key::Key;
use super::place::Place;
use super::slots::Slots;

#[derive(Debug)]
pub(super) struct Lane {
    list: List,
    /// During a sweep: the keys after those in `list`. Its chunks are moved to the end of `list`
    /// one by one.
    behind: List,
    /// Index of the first key.
    front: usize,
    /// The first key, or the greatest of all.
    first: Key,
    last: Key,
    /// The key that was pushed before it.
    second_last: Key,
}

impl Lane {
    pub(super) const fn new() -> Self {
        Self {
            list: List::EMPTY,
            behind: List::EMPTY,
            front: 0,
            first: Key::LAST,
            last: Key::FIRST,
            second_last: Key::FIRST,
        }
    }

    #[inline]
    pub(super) fn first(&self) -> &Key {
        &self.first
    }

    /// Returns whether the key may be pushed, possibly after the last one has been removed.
    #[inline]
    pub(super) fn takes(&self, key: Key) -> bool {
        self.second_last < key && key.due != u64::MAX
    }

    /// Returns whether the last key is less than `key` and may stay.
    #[inline]
    pub(super) fn is_before(&self, key: Key) -> bool {
        self.last < key
    }

    /// Removes the last key, if it is still there.
    #[cold]
    pub(super) fn leave_last<T>(&mut self, chunks: &mut Chunks, slots: &Slots<T>) -> Option<Key> {
        let last = mem::replace(&mut self.last, self.second_last);
        let place = self.behind.back().or(self.list.back())?;
        if !slots.is_at(last.slot(), Place::chunks(place)) {
            return None;
        }
        if place == self.front {
            self.pop(chunks, slots);
        } else {
            chunks.outdate_one();
        }
        Some(last)
    }

    #[inline]
    pub(super) fn push(&mut self, key: Key, chunks: &mut Chunks) -> Place {
        let was_empty = self.list.is_empty();
        let list = if self.behind.is_empty() {
            &mut self.list
        } else {
            &mut self.behind
        };
        let place = chunks.push(list, key.slot());
        if was_empty {
            self.front = self.list.front();
            self.first = key;
        }
        self.second_last = mem::replace(&mut self.last, key);
        place
    }

    /// Removes the first key, and the stale keys after it.
    #[inline]
    pub(super) fn pop<T>(&mut self, chunks: &mut Chunks, slots: &Slots<T>) {
        if let Some(index) = self.list.next_in_chunk(self.front)
            && let Some(key) = slots.key_at(chunks.at(index), Place::chunks(index))
        {
            self.front = index;
            self.first = key;
        } else {
            self.skip(chunks, slots);
        }
    }

    #[cold]
    fn skip<T>(&mut self, chunks: &mut Chunks, slots: &Slots<T>) {
        while let Some(index) = self.advance(chunks) {
            self.front = index;
            if let Some(key) = slots.key_at(chunks.at(index), Place::chunks(index)) {
                self.first = key;
                return;
            }
            chunks.forget_one();
        }
        *self = Self::new();
    }

    fn advance(&mut self, chunks: &mut Chunks) -> Option<usize> {
        let next = chunks.advance(&mut self.list, self.front);
        if next.is_some() || self.behind.is_empty() {
            return next;
        }
        self.list = mem::replace(&mut self.behind, List::EMPTY);
        Some(self.list.front())
    }

    pub(super) fn begin_sweep<T>(&mut self, chunks: &mut Chunks, slots: &mut Slots<T>) {
        if self.list.is_empty() || self.list.is_one_chunk() {
            return;
        }
        let passed = self.passed();
        self.behind = mem::replace(&mut self.list, List::EMPTY);
        if let Some(chunk) = chunks.pop(&mut self.behind) {
            chunks.move_live(&chunk, passed, &mut self.list, slots);
        }
        // The first key is not stale, so the list is not empty.
        self.front = self.list.front();
    }

    /// Removes the stale keys of one more chunk. Returns false if no sweep was started or it has
    /// finished.
    pub(super) fn sweep_some<T>(&mut self, chunks: &mut Chunks, slots: &mut Slots<T>) -> bool {
        let chunk = chunks.pop(&mut self.behind);
        if let Some(chunk) = &chunk {
            chunks.move_live(chunk, 0, &mut self.list, slots);
        }
        chunk.is_some()
    }

    /// Iterates over the slots from the first key on, including stale ones.
    fn listed(&self, chunks: &Chunks) -> impl Iterator<Item = (u32, Place)> {
        let first = chunks.iter(self.list).skip(self.passed());
        first.chain(chunks.iter(self.behind))
    }

    /// Returns whether the first key is at `index`.
    #[inline]
    pub(super) fn is_front(&self, index: usize) -> bool {
        self.front == index && !self.list.is_empty()
    }

    pub(super) fn iter<T>(&self, chunks: &Chunks, slots: &Slots<T>) -> impl Iterator<Item = Key> {
        let all = self.listed(chunks);
        all.filter_map(|(slot, place)| slots.key_at(slot, place))
    }

    /// Marks the keys' slots as having no place, and returns the slots in order.
    pub(super) fn leave<T>(&mut self, chunks: &Chunks, slots: &mut Slots<T>) -> Vec<u32> {
        let mut left = Vec::new();
        for (slot, place) in self.listed(chunks) {
            if let Some((_, place)) = slots.lift(slot, place) {
                *place = Place::NOWHERE;
                left.push(slot);
            }
        }
        self.list = List::EMPTY;
        self.behind = List::EMPTY;
        left
    }

    /// Puts back the slots that [`leave`](Self::leave) has returned.
    pub(super) fn enter<T>(&mut self, left: &[u32], chunks: &mut Chunks, slots: &mut Slots<T>) {
        for &slot in left {
            slots.moved(slot, chunks.push(&mut self.list, slot));
        }
        if !self.list.is_empty() {
            self.front = self.list.front();
        }
    }

    /// Returns the number of slots of the first chunk that have been consumed.
    fn passed(&self) -> usize {
        if self.list.is_empty() {
            return 0;
        }
        self.front - self.list.front()
    }
}
