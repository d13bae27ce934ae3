//! Where the values stay put while their keys move about, and how an id finds its own.
//!
//! # Invariants
//! 1. An id is live if its slot has the id's generation and holds a value. A slot's generation
//!    rises each time an entry leaves it for good, so no two entries of a slot share one.
//! 2. A slot whose generations are used up is retired: it is on no free list and holds no value.
//! 3. `floor` is above every generation that was ever used in a slot that is no more.

use alloc::vec::Vec;

/// The end of the free list.
const NONE: u32 = u32::MAX;
/// A heap holds fewer entries than this.
pub(super) const LIMIT: usize = 1 << 30;

#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// The first of the free slots, which are a list through their positions.
    free: u32,
    free_count: usize,
    retired: usize,
    /// The generation new slots begin with.
    floor: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    /// Where the key is. In a free slot: the next free one.
    position: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            free_count: 0,
            retired: 0,
            floor: 0,
        }
    }

    /// Slots that can be filled without allocation, beside those that are.
    pub(super) fn room(&self) -> usize {
        self.slots.capacity() - self.slots.len() + self.free_count
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        self.slots
            .reserve(additional.saturating_sub(self.free_count));
    }

    /// A slot for the value, and its generation; or the value, if there are as many as can be.
    pub(super) fn insert(&mut self, value: T) -> Result<(u32, u32), T> {
        let index = self.free;
        if let Some(slot) = self.slots.get_mut(index as usize) {
            self.free = slot.position;
            self.free_count -= 1;
            slot.value = Some(value);
            return Ok((index, slot.generation));
        }
        let index = self.slots.len();
        if index >= LIMIT {
            return Err(value);
        }
        let generation = self.floor;
        self.slots.push(Slot {
            generation,
            position: NONE,
            value: Some(value),
        });
        Ok((small(index), generation))
    }

    /// The position of the key of this entry, if it is still there.
    pub(super) fn find(&self, index: u32, generation: u32) -> Option<u32> {
        let slot = self.slots.get(index as usize)?;
        (slot.generation == generation && slot.value.is_some()).then_some(slot.position)
    }

    pub(super) fn generation(&self, index: u32) -> u32 {
        self.slots[index as usize].generation
    }

    pub(super) fn position(&self, index: u32) -> u32 {
        self.slots[index as usize].position
    }

    #[inline]
    pub(super) fn set_position(&mut self, index: u32, position: u32) {
        self.slots[index as usize].position = position;
    }

    pub(super) fn value(&self, index: u32) -> Option<&T> {
        self.slots[index as usize].value.as_ref()
    }

    pub(super) fn value_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots[index as usize].value.as_mut()
    }

    /// Takes the value and leaves the slot to its entry.
    pub(super) fn take(&mut self, index: u32) -> Option<T> {
        self.slots[index as usize].value.take()
    }

    /// Puts back a value that was taken.
    pub(super) fn put(&mut self, index: u32, value: T) {
        self.slots[index as usize].value = Some(value);
    }

    /// Takes what value there is, and makes the slot free for another entry.
    pub(super) fn free(&mut self, index: u32) -> Option<T> {
        let slot = &mut self.slots[index as usize];
        let value = slot.value.take();
        match slot.generation.checked_add(1) {
            Some(generation) => {
                slot.generation = generation;
                slot.position = self.free;
                self.free = index;
                self.free_count += 1;
            }
            None => self.retired += 1,
        }
        value
    }

    /// Gives back the memory of free slots at the end, but for `room` entries in all.
    pub(super) fn shrink_to(&mut self, room: usize) {
        let mut free = Vec::with_capacity(self.free_count);
        let mut next = self.free;
        while let Some(slot) = self.slots.get(next as usize) {
            free.push(next);
            next = slot.position;
        }
        free.sort_unstable();
        while let (Some(&index), Some(last)) = (free.last(), self.slots.last())
            && index as usize + 1 == self.slots.len()
        {
            self.floor = self.floor.max(last.generation);
            self.slots.pop();
            free.pop();
        }
        self.slots.shrink_to(room.saturating_add(self.retired));
        // The first ones are filled first, so that the end may become free again.
        self.free = NONE;
        self.free_count = free.len();
        for index in free.into_iter().rev() {
            self.slots[index as usize].position = self.free;
            self.free = index;
        }
    }
}

/// An index below [`LIMIT`].
#[expect(clippy::cast_possible_truncation, reason = "it is below the limit")]
pub(super) fn small(index: usize) -> u32 {
    debug_assert!(index < LIMIT);
    index as u32
}
