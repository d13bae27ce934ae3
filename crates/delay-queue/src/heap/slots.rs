//! Slots, in which values stay while their keys move, and in which ids find their entries.
//!
//! # Invariants
//! 1. An id is live if its slot is taken and has the id's generation. A slot's generation increases
//!    each time an entry leaves it for good, so no two entries of a slot share one.
//! 2. A vacant slot is on the free list, or not below `untouched`, or its entry is checked out, or
//!    it is retired: its generations are exhausted.
//! 3. `floor` is not less than the next generation of any slot whose memory was freed.
//!
//! They hold for one number of the heap. With a new number the generations start again.

use alloc::vec::Vec;
use core::mem;

use super::key::Key;
use super::place::Place;
use super::reserve::ReserveError;

/// The end of the free list.
const NONE: u32 = u32::MAX;
/// Maximum number of slots. There are more places: some are stale, some are unused.
pub(super) const LIMIT: usize = super::place::LIMIT / 4;
/// A free slot whose next generation is higher is not freed: new slots would start at so high a
/// generation that they retire soon, and a retired slot keeps its memory.
const HIGHEST_FLOOR: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Slots<T> {
    all: Vec<Slot<T>>,
    /// The first free slot. Free slots are linked to a list.
    free: u32,
    /// The slots from this index on are free too, and are not on the list.
    untouched: u32,
    retired: usize,
    /// The first generation of new slots.
    floor: u32,
}

#[derive(Debug)]
enum Slot<T> {
    Taken {
        due: u64,
        order: u64,
        /// Never zero, which distinguishes the two variants without a tag.
        place: Place,
        generation: u32,
        value: T,
    },
    Vacant {
        /// The next free slot, or the index of the key of a checked-out entry.
        link: u32,
        generation: u32,
    },
}

impl<T> Slots<T> {
    pub(super) const fn new(floor: u32) -> Self {
        Self {
            all: Vec::new(),
            free: NONE,
            untouched: 0,
            retired: 0,
            floor,
        }
    }

    /// Returns the number of slots that can be used without an allocation, including taken ones.
    pub(super) fn capacity(&self) -> usize {
        self.all.capacity() - self.retired
    }

    /// Allocates memory for `capacity` slots, including taken ones.
    pub(super) fn reserve(&mut self, capacity: usize) {
        assert!(capacity <= LIMIT, "capacity overflow");
        self.all.reserve(self.missing(capacity));
    }

    pub(super) fn try_reserve(&mut self, capacity: usize) -> Result<(), ReserveError> {
        if capacity > LIMIT {
            return Err(ReserveError::TooMany);
        }
        Ok(self.all.try_reserve(self.missing(capacity))?)
    }

    /// Returns the number of slots needed in addition to those that were ever used.
    fn missing(&self, capacity: usize) -> usize {
        let slots = capacity.saturating_add(self.retired);
        slots.saturating_sub(self.all.len())
    }

    /// Returns the slot that the next value will get, if there can be one more.
    #[inline]
    pub(super) fn next(&self) -> Option<u32> {
        if self.free != NONE {
            return Some(self.free);
        }
        ((self.untouched as usize) < LIMIT).then_some(self.untouched)
    }

    /// Puts the value into the slot that [`next`](Self::next) returned. Returns the slot's
    /// generation.
    #[inline]
    pub(super) fn insert(&mut self, key: Key, place: Place, value: T) -> u32 {
        let mut generation = self.floor;
        let vacant = self.all.get_mut(key.slot() as usize);
        if let Some(slot) = &vacant
            && let Slot::Vacant {
                generation: next,
                link,
            } = **slot
        {
            generation = next;
            if key.slot() == self.free {
                self.free = link;
            }
        }
        if key.slot() == self.untouched {
            self.untouched += 1;
        }
        let taken = Slot::Taken {
            due: key.due,
            order: key.order(),
            place,
            generation,
            value,
        };
        match vacant {
            Some(slot) => *slot = taken,
            None => self.all.push(taken),
        }
        generation
    }

    /// Returns the due time of an entry and the place of its key, if the entry is in the heap.
    #[inline]
    pub(super) fn find(&self, index: u32, generation: u32) -> Option<(u64, Place)> {
        match self.all.get(index as usize)? {
            Slot::Taken {
                due,
                place,
                generation: current,
                ..
            } if *current == generation => Some((*due, *place)),
            _ => None,
        }
    }

    /// Returns the generation, due time and value of the entry in this slot.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<(u32, u64, &T)> {
        match self.all.get(index as usize)? {
            Slot::Taken {
                due,
                generation,
                value,
                ..
            } => Some((*generation, *due, value)),
            Slot::Vacant { .. } => None,
        }
    }

    pub(super) fn value_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.all.get_mut(index as usize)? {
            Slot::Taken { value, .. } => Some(value),
            Slot::Vacant { .. } => None,
        }
    }

    /// Returns the number of slots, including free ones.
    pub(super) fn count(&self) -> u32 {
        small(self.all.len())
    }

    /// Records that the key of the entry in this slot has moved.
    #[inline]
    pub(super) fn moved(&mut self, index: u32, to: Place) {
        if let Some(Slot::Taken { place, .. }) = self.all.get_mut(index as usize) {
            *place = to;
        }
    }

    /// Returns whether the key of the entry in this slot is at this place.
    #[inline]
    pub(super) fn is_at(&self, index: u32, there: Place) -> bool {
        matches!(self.all.get(index as usize), Some(Slot::Taken { place, .. }) if *place == there)
    }

    /// Returns the key of the entry in this slot, if it is at this place. If it is not, the list's
    /// item is left over from an entry that has gone or a time that has changed.
    #[inline]
    pub(super) fn key_at(&self, index: u32, there: Place) -> Option<Key> {
        match self.all.get(index as usize)? {
            Slot::Taken {
                due, order, place, ..
            } if *place == there => Some(Key::new(*due, *order, index)),
            _ => None,
        }
    }

    /// Like [`key_at`](Self::key_at), with a mutable reference to the place.
    #[inline]
    pub(super) fn lift(&mut self, index: u32, there: Place) -> Option<(Key, &mut Place)> {
        match self.all.get_mut(index as usize)? {
            Slot::Taken {
                due, order, place, ..
            } if *place == there => Some((Key::new(*due, *order, index), place)),
            _ => None,
        }
    }

    /// Iterates over the keys of all entries, with mutable references to their places.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut Place)> {
        let taken = (0..).zip(&mut self.all);
        taken.filter_map(|(index, slot)| match slot {
            Slot::Taken {
                due, order, place, ..
            } => Some((Key::new(*due, *order, index), place)),
            Slot::Vacant { .. } => None,
        })
    }

    #[inline]
    pub(super) fn reset(&mut self, key: Key, there: Place) {
        if let Some(Slot::Taken {
            due, order, place, ..
        }) = self.all.get_mut(key.slot() as usize)
        {
            *due = key.due;
            *order = key.order();
            *place = there;
        }
    }

    /// Frees the slot, and returns its generation and value.
    #[inline]
    pub(super) fn free(&mut self, index: u32) -> Option<(u32, T)> {
        let slot = self.all.get_mut(index as usize)?;
        let generation = slot.generation();
        let vacant = if let Some(generation) = generation.checked_add(1) {
            let link = mem::replace(&mut self.free, index);
            Slot::Vacant { generation, link }
        } else {
            self.retired += 1;
            let link = NONE;
            Slot::Vacant { generation, link }
        };
        match mem::replace(slot, vacant) {
            Slot::Taken { value, .. } => Some((generation, value)),
            Slot::Vacant { .. } => None,
        }
    }

    /// Called when no entry is left, not even a checked-out one. From now on slots are used in the
    /// order of memory, instead of the order in which entries have left.
    #[inline]
    pub(super) fn all_are_free(&mut self) {
        if self.retired == 0 {
            self.free = NONE;
            self.untouched = 0;
        }
    }

    /// Removes the value and keeps the slot for its entry.
    pub(super) fn check_out(&mut self, index: u32, link: u32) -> Option<(u32, T)> {
        let slot = self.all.get_mut(index as usize)?;
        let generation = slot.generation();
        match mem::replace(slot, Slot::Vacant { generation, link }) {
            Slot::Taken { value, .. } => Some((generation, value)),
            Slot::Vacant { .. } => None,
        }
    }

    pub(super) fn check_in(&mut self, key: Key, place: Place, value: T) {
        if let Some(slot) = self.all.get_mut(key.slot() as usize) {
            let generation = slot.generation();
            *slot = Slot::Taken {
                due: key.due,
                order: key.order(),
                place,
                generation,
                value,
            };
        }
    }

    /// Returns the link that [`check_out`](Self::check_out) was given for this entry.
    pub(super) fn link(&self, index: u32, generation: u32) -> Option<u32> {
        match *self.all.get(index as usize)? {
            Slot::Vacant {
                generation: current,
                link,
            } if current == generation => Some(link),
            _ => None,
        }
    }

    pub(super) fn set_link(&mut self, index: u32, to: u32) {
        if let Some(Slot::Vacant { link, .. }) = self.all.get_mut(index as usize) {
            *link = to;
        }
    }

    /// Removes all slots and their generations. No entry may be left, not even a checked-out one,
    /// and earlier ids must not be looked up any more.
    pub(super) fn begin_anew(&mut self) {
        self.all.clear();
        self.free = NONE;
        self.untouched = 0;
        self.retired = 0;
        self.floor = 0;
    }

    /// Frees the memory of free slots at the end, except for `room` entries in total.
    pub(super) fn shrink_to(&mut self, room: usize) {
        let mut free = Vec::new();
        let mut next = self.free;
        while let Some(Slot::Vacant { link, .. }) = self.all.get(next as usize) {
            free.push(next);
            next = *link;
        }
        free.extend(self.untouched..self.count());
        free.sort_unstable();
        while let (Some(&index), Some(last)) = (free.last(), self.all.last())
            && index as usize + 1 == self.all.len()
            && last.generation() <= self.floor.max(HIGHEST_FLOOR)
        {
            self.floor = self.floor.max(last.generation());
            self.all.pop();
            free.pop();
        }
        self.untouched = self.count();
        self.all.shrink_to(room.saturating_add(self.retired));
        // Low slots are used first, so that the end may become free again.
        self.free = NONE;
        for index in free.into_iter().rev() {
            self.set_link(index, self.free);
            self.free = index;
        }
    }
}

impl<T> Slot<T> {
    #[inline]
    fn generation(&self) -> u32 {
        match self {
            Self::Taken { generation, .. } | Self::Vacant { generation, .. } => *generation,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the index is below the limit"
)]
pub(super) fn small(index: usize) -> u32 {
    debug_assert!(index <= LIMIT);
    index as u32
}
