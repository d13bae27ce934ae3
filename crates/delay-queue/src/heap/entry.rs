//! What the heap hands out: names of entries, and entries that have left it.

use core::fmt;

/// Names one entry of one heap, for as long as the process runs.
///
/// Once the entry has left its heap, its name means nothing, there or elsewhere: every method that
/// takes it answers `None`. It never comes to mean another entry.
///
/// ```
/// use delay_queue::DelayHeap;
///
/// let mut heap = DelayHeap::new();
/// let first = heap.push("first", 1);
/// heap.pop();
/// heap.push("second", 1);
/// assert_eq!(heap.get(first), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryId {
    heap: u64,
    /// The generation in the upper half, the slot in the lower one: two words travel in registers,
    /// which three fields do not.
    generation_and_slot: u64,
}

impl EntryId {
    pub(super) fn new(heap: u64, slot: u32, generation: u32) -> Self {
        Self {
            heap,
            generation_and_slot: u64::from(generation) << 32 | u64::from(slot),
        }
    }

    /// What maps are sorted by.
    #[cfg(feature = "std")]
    pub(crate) fn key(self) -> (u64, u64) {
        (self.heap, self.generation_and_slot)
    }

    pub(super) fn heap(self) -> u64 {
        self.heap
    }

    #[expect(clippy::cast_possible_truncation, reason = "the other half is cut off")]
    pub(super) fn slot(self) -> u32 {
        self.generation_and_slot as u32
    }

    pub(super) fn generation(self) -> u32 {
        (self.generation_and_slot >> 32) as u32
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryId")
            .field("heap", &self.heap())
            .field("slot", &self.slot())
            .field("generation", &self.generation())
            .finish()
    }
}

/// An entry that has left the heap, or (with a reference for its value) one that is looked at.
///
/// ```
/// use delay_queue::{DelayHeap, Entry};
///
/// let mut heap = DelayHeap::new();
/// let id = heap.push("tea", 300);
/// let Entry { value, due, .. } = heap.remove(id).expect("it is there");
/// assert_eq!((value, due), ("tea", 300));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// Its name, which is stale once the entry has left.
    pub id: EntryId,
    /// When it falls due, in nanoseconds since the owner's epoch; [`NEVER`](crate::NEVER) is never.
    pub due: u64,
    /// What was pushed.
    pub value: T,
}

/// An entry taken out on probation: it can come back under its old id, due time and order.
///
/// [`DelayHeap::check_out`](crate::DelayHeap::check_out) gives it. Hand it to
/// [`check_in`](crate::DelayHeap::check_in) or [`settle`](crate::DelayHeap::settle): if it is
/// dropped instead, its place in the heap stays taken until the heap is dropped.
#[must_use = "its place stays taken until it is checked in or settled"]
#[derive(Debug)]
pub struct CheckedOut<T>(pub(super) Entry<T>);

impl<T> CheckedOut<T> {
    /// Its name, which means nothing to the heap meanwhile, and is good again after `check_in`.
    pub fn id(&self) -> EntryId {
        self.0.id
    }

    /// When it fell due.
    pub fn due(&self) -> u64 {
        self.0.due
    }

    /// What was pushed.
    pub fn value(&self) -> &T {
        &self.0.value
    }

    /// What was pushed, to be changed.
    pub fn value_mut(&mut self) -> &mut T {
        &mut self.0.value
    }

    /// Takes the value out of the entry, so that it can be offered where it may be refused.
    pub fn split(self) -> (T, CheckedOut<()>) {
        let Entry { id, due, value } = self.0;
        (value, CheckedOut(Entry { id, due, value: () }))
    }

    /// The same entry with another value, which the old one is dropped for.
    pub fn with<U>(self, value: U) -> CheckedOut<U> {
        let Entry { id, due, .. } = self.0;
        CheckedOut(Entry { id, due, value })
    }
}
