//! Iterators over entries.

use core::iter::FusedIterator;

use super::{DelayHeap, Entry};

/// Maximum number of entries for which memory is reserved because of an iterator's size hint.
const MOST_AHEAD: usize = 1 << 20;

/// Iterator over due entries, in order. See [`DelayHeap::drain_ready`].
#[must_use = "entries leave the heap when the iterator yields them"]
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

/// Iterator over all entries, in arbitrary order. See [`DelayHeap::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    heap: &'a DelayHeap<T>,
    next: u32,
    left: usize,
}

impl<'a, T> Iter<'a, T> {
    pub(super) fn new(heap: &'a DelayHeap<T>) -> Self {
        let left = heap.len();
        Self {
            heap,
            next: 0,
            left,
        }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = Entry<&'a T>;

    fn next(&mut self) -> Option<Entry<&'a T>> {
        self.left = self.left.checked_sub(1)?;
        loop {
            self.next += 1;
            let entry = self.heap.look_at(self.next - 1);
            if entry.is_some() {
                return entry;
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}
impl<T> FusedIterator for Iter<'_, T> {}

/// Iterator over all entries, in order, that owns the heap.
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

/// Reserves memory for the lower bound of the iterator's size hint, but for at most 2<sup>20</sup>
/// entries, because the hint may be wrong. Beyond that, memory grows with the entries.
impl<T> Extend<(T, u64)> for DelayHeap<T> {
    fn extend<I: IntoIterator<Item = (T, u64)>>(&mut self, pairs: I) {
        let pairs = pairs.into_iter();
        self.reserve(pairs.size_hint().0.min(MOST_AHEAD));
        for (value, due) in pairs {
            self.push(value, due);
        }
    }
}

impl<T> FromIterator<(T, u64)> for DelayHeap<T> {
    fn from_iter<I: IntoIterator<Item = (T, u64)>>(pairs: I) -> Self {
        let mut heap = Self::new();
        heap.extend(pairs);
        heap
    }
}

impl<T> IntoIterator for DelayHeap<T> {
    type Item = Entry<T>;
    type IntoIter = IntoIter<T>;

    /// Iterates over the entries in order.
    fn into_iter(self) -> IntoIter<T> {
        IntoIter::new(self)
    }
}

impl<'a, T> IntoIterator for &'a DelayHeap<T> {
    type Item = Entry<&'a T>;
    type IntoIter = Iter<'a, T>;

    /// Iterates over the entries in arbitrary order.
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
