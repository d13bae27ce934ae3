//! Entries and their ids.

use core::fmt;

/// Identifies one entry of one heap, for the lifetime of the process.
///
/// Once the entry has left its heap, its id is stale: every method that takes it returns `None`. It
/// never identifies another entry.
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
    /// The generation in the upper half, the slot in the lower half: a struct of two words is
    /// passed in registers, one of three fields is not.
    generation_and_slot: u64,
}

impl EntryId {
    pub(super) fn new(heap: u64, slot: u32, generation: u32) -> Self {
        Self {
            heap,
            generation_and_slot: u64::from(generation) << 32 | u64::from(slot),
        }
    }

    /// Sort key for maps.
    #[cfg(feature = "std")]
    pub(crate) fn key(self) -> (u64, u64) {
        (self.heap, self.generation_and_slot)
    }

    pub(super) fn heap(self) -> u64 {
        self.heap
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half is the generation"
    )]
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

/// An entry that has left the heap, or (with a reference for its value) an entry of the heap.
///
/// ```
/// use delay_queue::{DelayHeap, Entry};
///
/// let mut heap = DelayHeap::new();
/// let id = heap.push("tea", 300);
/// let Entry { value, due, .. } = heap.remove(id).expect("the entry is in the heap");
/// assert_eq!((value, due), ("tea", 300));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// The entry's id, which is stale once the entry has left.
    pub id: EntryId,
    /// The due time, in nanoseconds since the owner's epoch; [`NEVER`](crate::NEVER) means never.
    pub due: u64,
    /// The pushed value.
    pub value: T,
}

/// An entry that was removed on probation: it can be put back with its old id, due time and order.
///
/// Returned by [`DelayHeap::check_out`](crate::DelayHeap::check_out). Pass it to
/// [`check_in`](crate::DelayHeap::check_in) or [`settle`](crate::DelayHeap::settle): if it is
/// dropped instead, its slot in the heap stays taken until the heap is dropped.
#[must_use = "its slot stays taken until the entry is checked in or settled"]
#[derive(Debug)]
pub struct CheckedOut<T>(pub(super) Entry<T>);

impl<T> CheckedOut<T> {
    /// Returns the entry's id, which finds nothing until the entry is checked in again.
    pub fn id(&self) -> EntryId {
        self.0.id
    }

    /// Returns the due time.
    pub fn due(&self) -> u64 {
        self.0.due
    }

    /// Returns the pushed value.
    pub fn value(&self) -> &T {
        &self.0.value
    }

    /// Returns a mutable reference to the pushed value.
    pub fn value_mut(&mut self) -> &mut T {
        &mut self.0.value
    }

    /// Separates the value from the entry, to offer it where it may be rejected.
    pub fn split(self) -> (T, CheckedOut<()>) {
        let Entry { id, due, value } = self.0;
        (value, CheckedOut(Entry { id, due, value: () }))
    }

    /// Returns the same entry with another value. Drops the old value.
    pub fn with<U>(self, value: U) -> CheckedOut<U> {
        let Entry { id, due, .. } = self.0;
        CheckedOut(Entry { id, due, value })
    }
}
