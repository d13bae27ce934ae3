//! The delayed keys, as slots in a heap. Compiled once, whatever the keys are.

use delay_queue::{DelayHeap, EntryId, NEVER};

use crate::records::Slot;

/// A heap that has memory for fewer entries is kept as it is.
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

    /// The next one and its time, if that has come.
    #[inline(never)]
    pub(super) fn pop_ready(&mut self, now: u64) -> Option<(Slot, u64)> {
        let entry = self.0.pop_ready(now)?;
        Some((entry.value, entry.due))
    }

    /// The next one and its time.
    #[inline(never)]
    pub(super) fn pop(&mut self) -> Option<(Slot, u64)> {
        let entry = self.0.pop()?;
        Some((entry.value, entry.due))
    }

    /// Takes an entry out, and says when it was due.
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

    /// Whether most of its memory is not in use.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        self.0.capacity() >= (8 * self.0.len()).max(SMALL)
    }

    /// Frees memory that is not in use. The entries have new ids: entries keep their places in a heap,
    /// so it takes another one. O(n log n).
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
