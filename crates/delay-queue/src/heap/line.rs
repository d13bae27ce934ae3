//! The keys in their order: a heap in which every node has four children.
//!
//! # Invariants
//! 1. No key is before its parent's. The parent of the key at `i` is at `(i - 1) / ARITY`.
//! 2. The slot of each key has the key's position.

use alloc::vec::Vec;

use super::key::Key;
use super::slots::{Slots, small};

const ARITY: usize = 4;

#[derive(Debug)]
pub(super) struct Line {
    keys: Vec<Key>,
}

impl Line {
    pub(super) const fn new() -> Self {
        Self { keys: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.keys.capacity()
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        self.keys.reserve(additional);
    }

    pub(super) fn shrink_to(&mut self, capacity: usize) {
        self.keys.shrink_to(capacity);
    }

    pub(super) fn first(&self) -> Option<Key> {
        self.keys.first().copied()
    }

    pub(super) fn at(&self, position: u32) -> Key {
        self.keys[position as usize]
    }

    /// In any order.
    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    pub(super) fn push<T>(&mut self, key: Key, slots: &mut Slots<T>) {
        self.keys.push(key);
        self.rise(self.keys.len() - 1, key, slots);
    }

    pub(super) fn pop<T>(&mut self, slots: &mut Slots<T>) -> Option<Key> {
        let first = self.first()?;
        let last = self.keys.pop()?;
        if !self.keys.is_empty() {
            self.sink(0, last, slots);
        }
        Some(first)
    }

    /// Takes out a key without regard to its order: the cheapest one.
    pub(super) fn pop_any(&mut self) -> Option<Key> {
        self.keys.pop()
    }

    pub(super) fn remove<T>(&mut self, position: u32, slots: &mut Slots<T>) -> Key {
        let position = position as usize;
        let removed = self.keys[position];
        let last = self.keys.pop().unwrap_or(removed);
        if position < self.keys.len() {
            self.settle(position, last, slots);
        }
        removed
    }

    /// Gives the key at this position another one's place in the order.
    pub(super) fn replace<T>(&mut self, position: u32, key: Key, slots: &mut Slots<T>) {
        self.settle(position as usize, key, slots);
    }

    /// Changes order numbers. They keep their order, so the keys keep theirs.
    pub(super) fn renumber(&mut self, order: impl Fn(Key) -> Key) {
        self.keys.iter_mut().for_each(|key| *key = order(*key));
    }

    /// How many keys are due by `now`, up to `limit`.
    pub(super) fn count_ready(&self, now: u64, limit: usize) -> usize {
        let mut count = 0;
        self.visit(|key| {
            if key.due > now || count >= limit {
                return false;
            }
            count += 1;
            true
        });
        count
    }

    /// The least due time after `now`.
    pub(super) fn next_after(&self, now: u64) -> Option<u64> {
        let mut next = None;
        self.visit(|key| {
            if key.due <= now {
                return true;
            }
            next = Some(next.map_or(key.due, |next: u64| next.min(key.due)));
            false
        });
        next
    }

    /// Visits keys from the first on, and the children of those for which `go_on` says so.
    fn visit(&self, mut go_on: impl FnMut(Key) -> bool) {
        // The subtrees wait in their place in the heap: the next one is computed from the last.
        let mut position = 0;
        'next: loop {
            let descend = match self.keys.get(position) {
                Some(key) => go_on(*key),
                None => false,
            };
            if descend && ARITY * position + 1 < self.keys.len() {
                position = ARITY * position + 1;
                continue;
            }
            loop {
                if position == 0 {
                    return;
                }
                if !position.is_multiple_of(ARITY) && position + 1 < self.keys.len() {
                    position += 1;
                    continue 'next;
                }
                position = (position - 1) / ARITY;
            }
        }
    }

    fn settle<T>(&mut self, position: usize, key: Key, slots: &mut Slots<T>) {
        let parent = position.checked_sub(1).map(|before| before / ARITY);
        if parent.is_some_and(|parent| key < self.keys[parent]) {
            self.rise(position, key, slots);
        } else {
            self.sink(position, key, slots);
        }
    }

    /// Puts the key into the hole at `position`, or above it.
    fn rise<T>(&mut self, mut position: usize, key: Key, slots: &mut Slots<T>) {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if self.keys[parent] < key {
                break;
            }
            self.place(position, self.keys[parent], slots);
            position = parent;
        }
        self.place(position, key, slots);
    }

    /// Puts the key into the hole at `position`, or below it.
    fn sink<T>(&mut self, mut position: usize, key: Key, slots: &mut Slots<T>) {
        loop {
            let first = ARITY * position + 1;
            let children = first..(first + ARITY).min(self.keys.len());
            let Some(least) = children.min_by_key(|&child| self.keys[child]) else {
                break;
            };
            if key < self.keys[least] {
                break;
            }
            self.place(position, self.keys[least], slots);
            position = least;
        }
        self.place(position, key, slots);
    }

    #[inline]
    fn place<T>(&mut self, position: usize, key: Key, slots: &mut Slots<T>) {
        self.keys[position] = key;
        slots.set_position(key.slot(), small(position));
    }
}
