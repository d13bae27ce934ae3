//! Keys that came in order: each is behind the one before it.
//!
//! Time-outs that are all equally long come so, and cost next to nothing here. One that is much
//! longer than the others would end that: it is taken out again when the next one comes.

use core::mem;

use super::chunks::Chunks;
use super::fifo::Fifo;
use super::key::Key;
use super::place::Place;
use super::slots::Slots;

#[derive(Debug)]
pub(super) struct Lane {
    fifo: Fifo,
    /// How long its lists should get.
    length: usize,
    /// The list the first key is on, and where.
    front_list: u32,
    front: usize,
    /// Up to here, keys follow the first one in the same chunk, and perhaps further.
    limit: usize,
    /// How many of the first list have left and are not yet counted off.
    passed: usize,
    /// The list the last key was put on.
    back_list: u32,
    /// That key, or the last one of all.
    first: Key,
    /// When the last key that came is due.
    last_due: u64,
    /// And the one before it.
    second_last_due: u64,
}

impl Lane {
    pub(super) const fn new(length: usize) -> Self {
        Self {
            fifo: Fifo::new(),
            length,
            front_list: 0,
            limit: 0,
            passed: 0,
            back_list: 0,
            front: usize::MAX,
            first: Key::LAST,
            last_due: 0,
            second_last_due: 0,
        }
    }

    #[inline]
    pub(super) fn first(&self) -> &Key {
        &self.first
    }

    /// Whether the key may be pushed, if need be after the last one has left. No key that came
    /// before may have a higher order number.
    #[inline]
    pub(super) fn takes(&self, key: Key) -> bool {
        self.second_last_due <= key.due && key.due != u64::MAX
    }

    /// Whether the last key is before this one and may stay.
    #[inline]
    pub(super) fn is_before(&self, key: Key) -> bool {
        self.last_due <= key.due
    }

    /// Takes the last key out, if it is still there.
    #[cold]
    pub(super) fn leave_last<T>(
        &mut self,
        chunks: &mut Chunks,
        slots: &mut Slots<T>,
    ) -> Option<Key> {
        self.last_due = self.second_last_due;
        let list = self.fifo.last()?;
        let place = chunks.back(list)?;
        let key = slots.key_at(chunks.at(place), Place::chunks(place))?;
        if place == self.front {
            self.pop(chunks, slots);
        } else {
            // If few are left, that is seen when the next one goes.
            chunks.outdate(list);
        }
        Some(key)
    }

    /// Adds a key and tells where it lies.
    #[inline]
    pub(super) fn push(&mut self, key: Key, chunks: &mut Chunks) -> Place {
        self.second_last_due = mem::replace(&mut self.last_due, key.due);
        if self.first.due < u64::MAX
            && let Some(place) = chunks.push_beside(self.back_list, key.slot())
        {
            return place;
        }
        self.push_to_next(key, chunks)
    }

    #[cold]
    fn push_to_next(&mut self, key: Key, chunks: &mut Chunks) -> Place {
        let list = self.fifo.back(self.length, true, chunks);
        self.back_list = list;
        let place = chunks.push(list, key.slot());
        if self.first == Key::LAST {
            self.front_list = list;
            self.front = chunks.front(list);
            self.limit = self.front + 1;
            self.first = key;
        }
        place
    }

    /// Takes the first key off, and what is stale after it.
    #[inline]
    pub(super) fn pop<T>(&mut self, chunks: &mut Chunks, slots: &Slots<T>) {
        self.passed += 1;
        let index = self.front + 1;
        if index < self.limit
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
        chunks.forget_live(self.front_list, mem::take(&mut self.passed));
        if !chunks.is_empty(self.front_list) {
            while let Some(index) = chunks.advance(self.front_list, self.front) {
                self.front = index;
                if let Some(key) = slots.key_at(chunks.at(index), Place::chunks(index)) {
                    self.first = key;
                    self.limit = chunks.chunk_end(self.front_list, index);
                    return;
                }
            }
        }
        self.next_list(chunks, slots);
    }

    #[cold]
    fn next_list<T>(&mut self, chunks: &mut Chunks, slots: &Slots<T>) {
        let Some(list) = self.fifo.front(chunks) else {
            let fifo = mem::replace(&mut self.fifo, Fifo::new());
            *self = Self {
                fifo,
                ..Self::new(self.length)
            };
            return;
        };
        self.front_list = list;
        self.front = chunks.front(list);
        self.limit = self.front + 1;
        match slots.key_at(chunks.at(self.front), Place::chunks(self.front)) {
            Some(key) => self.first = key,
            // The list has a live key.
            None => self.skip(chunks, slots),
        }
    }

    /// Whether the first key is there.
    #[inline]
    pub(super) fn is_front(&self, index: usize) -> bool {
        self.front == index
    }

    /// The list has been made anew: its first one is live.
    pub(super) fn rewritten(&mut self, list: u32, chunks: &Chunks) {
        if self.first != Key::LAST && list == self.front_list {
            self.front = chunks.front(list);
            self.limit = self.front + 1;
            self.passed = 0;
        }
    }

    /// The keys from the first on.
    pub(super) fn iter<T>(&self, chunks: &Chunks, slots: &Slots<T>) -> impl Iterator<Item = Key> {
        let all = self.fifo.lists().flat_map(|list| chunks.iter(list));
        all.filter_map(|(slot, place)| slots.key_at(slot, place))
    }
}
