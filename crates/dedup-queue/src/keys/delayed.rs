//! The delayed keys, as slots in a heap. Not generic, so compiled once for all keys.

use delay_queue::{DelayHeap, EntryId, NEVER};

use crate::records::Slot;

/// A heap with memory for fewer entries is not shrunk.
const SMALL: usize = 1024;

pub(super) struct Delayed(DelayHeap<Slot>);

impl Delayed {
    pub(super) fn new() -> Self {
        Self(DelayHeap::new())
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn peek_due(&self) -> Option<u64> {
        self.0.peek_due()
    }

    #[inline(never)]
    pub(super) fn push(&mut self, slot: Slot, due: u64) -> EntryId {
        self.0.push(slot, due)
    }

    /// Removes the next entry if it is due, and returns its slot and time.
    #[inline(never)]
    pub(super) fn pop_ready(&mut self, now: u64) -> Option<(Slot, u64)> {
        let entry = self.0.pop_ready(now)?;
        Some((entry.value, entry.due))
    }

    #[inline(never)]
    pub(super) fn pop(&mut self) -> Option<(Slot, u64)> {
        let entry = self.0.pop()?;
        Some((entry.value, entry.due))
    }

    #[inline(never)]
    pub(super) fn remove(&mut self, entry: EntryId) -> u64 {
        self.0.remove(entry).map_or(NEVER, |entry| entry.due)
    }

    #[inline(never)]
    pub(super) fn reset(&mut self, entry: EntryId, due: u64) {
        self.0.reset(entry, due);
    }

    #[inline(never)]
    pub(super) fn due(&self, entry: EntryId) -> Option<u64> {
        self.0.due(entry)
    }

    /// Returns whether most of the memory is unused.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        self.0.capacity() >= (8 * self.0.len()).max(SMALL)
    }

    /// Frees unused memory. Entries keep their places in a heap, so this creates a new heap, in
    /// which the entries have new ids. O(n log n).
    #[cold]
    #[inline(never)]
    pub(super) fn renew(&mut self) -> Vec<(Slot, EntryId)> {
        let mut old = std::mem::take(&mut self.0);
        self.0.reserve(old.len());
        let move_over = |entry: delay_queue::Entry<Slot>| {
            let id = self.0.push(entry.value, entry.due);
            (entry.value, id)
        };
        std::iter::from_fn(|| old.pop()).map(move_over).collect()
    }
}
