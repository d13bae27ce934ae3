//! Entries one after another.

use core::iter::FusedIterator;

use super::key::Key;
use super::{DelayHeap, Entry};

/// Entries that are due, in order. See [`DelayHeap::drain_ready`].
#[must_use = "an entry leaves when the iterator yields it"]
#[derive(Debug)]
pub struct DrainReady<'a, T> {
    heap: &'a mut DelayHeap<T>,
    now: u64,
    left: usize,
}

impl<'a, T> DrainReady<'a, T> {
    pub(super) fn new(heap: &'a mut DelayHeap<T>, now: u64, left: usize) -> Self {
        Self { heap, now, left }
    }
}

impl<T> Iterator for DrainReady<'_, T> {
    type Item = Entry<T>;

    fn next(&mut self) -> Option<Entry<T>> {
        self.left = self.left.checked_sub(1)?;
        self.heap.pop_ready(self.now)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left.min(self.heap.len())))
    }
}

impl<T> FusedIterator for DrainReady<'_, T> {}

/// All entries, in any order. See [`DelayHeap::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    heap: &'a DelayHeap<T>,
    keys: core::slice::Iter<'a, Key>,
}

impl<'a, T> Iter<'a, T> {
    pub(super) fn new(heap: &'a DelayHeap<T>) -> Self {
        let keys = heap.line.keys().iter();
        Self { heap, keys }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = Entry<&'a T>;

    fn next(&mut self) -> Option<Entry<&'a T>> {
        self.heap.look_at(*self.keys.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.keys.size_hint()
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}
impl<T> FusedIterator for Iter<'_, T> {}

/// All entries, in order, the heap being gone.
#[derive(Debug)]
pub struct IntoIter<T>(DelayHeap<T>);

impl<T> IntoIter<T> {
    pub(super) fn new(heap: DelayHeap<T>) -> Self {
        Self(heap)
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = Entry<T>;

    fn next(&mut self) -> Option<Entry<T>> {
        self.0.pop()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

impl<T> ExactSizeIterator for IntoIter<T> {}
impl<T> FusedIterator for IntoIter<T> {}
