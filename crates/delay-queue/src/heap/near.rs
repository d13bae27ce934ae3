//! A heap of keys in which every node has four children. A line has two of them: the near keys, and
//! the gathered keys.
//!
//! # Invariants
//! 1. No key is less than its parent. The parent of the key at `i` is at `(i - 1) / ARITY`.
//! 2. The slot of each key records the key's place.

use alloc::vec::Vec;

use super::key::Key;
use super::place::Place;
use super::slots::Slots;
use super::steps;

const ARITY: usize = 4;

#[derive(Debug)]
pub(super) struct Near<const GATHERED: bool> {
    keys: Vec<Key>,
}

impl<const GATHERED: bool> Near<GATHERED> {
    pub(super) const fn new() -> Self {
        Self { keys: Vec::new() }
    }

    #[inline]
    fn place(position: usize) -> Place {
        if GATHERED {
            Place::gathered(position)
        } else {
            Place::heap(position)
        }
    }

    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    pub(super) fn keys_mut(&mut self) -> &mut Vec<Key> {
        &mut self.keys
    }

    /// Adds a key, and returns its place. Updates the slots of all other keys.
    pub(super) fn push<T>(&mut self, key: Key, slots: &mut Slots<T>) -> Place {
        steps::count_one();
        self.keys.push(key);
        let position = self.rise(self.keys.len() - 1, key, slots);
        Self::place(position)
    }

    pub(super) fn remove<T>(&mut self, position: usize, slots: &mut Slots<T>) {
        if let Some(last) = self.keys.pop()
            && position < self.keys.len()
        {
            let parent = position.checked_sub(1).map(|before| before / ARITY);
            let position = if parent.is_some_and(|parent| last < self.keys[parent]) {
                self.rise(position, last, slots)
            } else {
                self.sink(position, last, slots)
            };
            slots.moved(last.slot(), Self::place(position));
        }
    }

    pub(super) fn count_ready(&self, now: u64, limit: usize) -> usize {
        let mut count = 0;
        self.visit(|key| {
            let counts = key.due <= now && count < limit;
            count += usize::from(counts);
            counts
        });
        count
    }

    pub(super) fn next_after(&self, now: u64) -> Option<u64> {
        let mut next: Option<u64> = None;
        self.visit(|key| {
            if key.due > now {
                next = Some(next.map_or(key.due, |next| next.min(key.due)));
            }
            key.due <= now
        });
        next
    }

    /// Visits the first key, and the children of each visited key for which `go_on` returns true.
    fn visit(&self, mut go_on: impl FnMut(Key) -> bool) {
        let mut position = 0;
        loop {
            let child = ARITY * position + 1;
            steps::count_one();
            if self.keys.get(position).is_some_and(|&key| go_on(key)) && child < self.keys.len() {
                position = child;
                continue;
            }
            // To the next sibling or, after the last one, to that of an ancestor.
            while position.is_multiple_of(ARITY) {
                if position == 0 {
                    return;
                }
                position = (position - 1) / ARITY;
            }
            position += 1;
        }
    }

    /// Fills the hole at `position` with the key or its ancestors, and returns the key's position.
    fn rise<T>(&mut self, mut position: usize, key: Key, slots: &mut Slots<T>) -> usize {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            let above = self.keys[parent];
            if above < key {
                break;
            }
            self.keys[position] = above;
            slots.moved(above.slot(), Self::place(position));
            position = parent;
        }
        self.keys[position] = key;
        position
    }

    /// Fills the hole at `position` with the key or its descendants, and returns the key's
    /// position.
    fn sink<T>(&mut self, mut position: usize, key: Key, slots: &mut Slots<T>) -> usize {
        loop {
            let first = ARITY * position + 1;
            let children = first..(first + ARITY).min(self.keys.len());
            let Some(least) = children.min_by_key(|&child| self.keys[child]) else {
                break;
            };
            let below = self.keys[least];
            if key < below {
                break;
            }
            self.keys[position] = below;
            slots.moved(below.slot(), Self::place(position));
            position = least;
        }
        self.keys[position] = key;
        position
    }
}
