//! The memory of the records: a row of entries, which is cut when most of it is free.
//!
//! Not for: the contents of a record, or finding one by its key; see `records.rs`.
//!
//! An entry keeps its number while it is in use, because guards and the heap refer to it. So an
//! entry in use behind a cut moves to a map. It is then an *exile*: it has the same number, and
//! each access costs a search. It returns when the row has grown up to its number.
//!
//! # Invariants, between two calls
//! 1. An entry in use is in the row at its number, or is an exile, whose number is not below the
//!    row's length.
//! 2. A free entry is in the row, and on the list `free`.

use std::collections::BTreeMap;
use std::iter;
use std::ops::{Index, IndexMut};

pub(crate) type Slot = u32;
/// The index that stands for no slot.
pub(crate) const NONE: Slot = Slot::MAX;
/// A row of at most this length is not cut.
const SMALL: usize = 1024;
/// A row is cut when fewer than one in this many entries are in use.
const SPARSE: usize = 16;

pub(crate) trait Entry {
    fn free() -> Self;
    /// Returns the field in which the slab stores the next free slot. Not read while the slot is in
    /// use.
    fn link(&mut self) -> &mut Slot;
}

pub(crate) struct Slab<T> {
    row: Vec<T>,
    exiles: Vec<(Slot, T)>,
    places: Places,
    /// Free slots, linked.
    free: Slot,
    /// The row is cut when fewer entries are in use.
    least: usize,
}

/// Positions of the exiles in their list. Not generic, so compiled once for all entries.
#[derive(Default)]
struct Places(BTreeMap<Slot, usize>);

impl Places {
    #[inline(never)]
    fn get(&self, slot: Slot) -> Option<usize> {
        self.0.get(&slot).copied()
    }

    #[inline(never)]
    fn set(&mut self, slot: Slot, place: usize) {
        self.0.insert(slot, place);
    }

    #[inline(never)]
    fn remove(&mut self, slot: Slot) -> Option<usize> {
        self.0.remove(&slot)
    }

    /// Returns the first exile from this slot on, in the order of slots.
    #[inline(never)]
    fn next(&self, first: Slot) -> Option<(Slot, usize)> {
        let (&slot, &place) = self.0.range(first..).next()?;
        Some((slot, place))
    }
}

impl<T: Entry> Slab<T> {
    pub(crate) fn new() -> Self {
        Self {
            row: Vec::new(),
            exiles: Vec::new(),
            places: Places::default(),
            free: NONE,
            least: 0,
        }
    }

    /// Takes a free slot, whose entry is like a new one, and fills it by `fill`.
    #[inline]
    pub(crate) fn take(&mut self, fill: impl FnOnce(&mut T)) -> Slot {
        if self.free == NONE {
            self.grow();
        }
        let slot = self.free;
        let entry = &mut self.row[slot as usize];
        fill(entry);
        self.free = *entry.link();
        slot
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        while let Some(exile) = self.remove_exile(self.len()) {
            self.row.push(exile);
        }
        let slot = self.len();
        assert_ne!(slot, NONE, "there are fewer than 2^32 - 1 keys");
        self.row.push(T::free());
        self.give_back(slot, |_| ());
        self.set_least();
    }

    fn len(&self) -> Slot {
        Slot::try_from(self.row.len()).unwrap_or(NONE)
    }

    fn set_least(&mut self) {
        self.least = if self.row.len() > SMALL {
            self.row.len() / SPARSE
        } else {
            0
        };
    }

    /// Frees a slot. `clear` must make its entry like a new one.
    #[inline]
    pub(crate) fn give_back<R>(&mut self, slot: Slot, clear: impl FnOnce(&mut T) -> R) -> R {
        let free = self.free;
        let Some(entry) = self.row.get_mut(slot as usize) else {
            let mut exile = self.remove_exile(slot).expect("a slot in use has an entry");
            return clear(&mut exile);
        };
        self.free = slot;
        *entry.link() = free;
        clear(entry)
    }

    #[cold]
    #[inline(never)]
    fn remove_exile(&mut self, slot: Slot) -> Option<T> {
        let place = self.places.remove(slot)?;
        let (_, exile) = self.exiles.swap_remove(place);
        match self.exiles.get(place) {
            Some(&(moved, _)) => self.places.set(moved, place),
            None if self.exiles.is_empty() => self.exiles = Vec::new(),
            None => {}
        }
        Some(exile)
    }

    /// Returns whether the row is too long for `used` entries in use.
    #[inline]
    pub(crate) fn is_sparse(&self, used: usize) -> bool {
        used < self.least
    }

    /// Cuts the row to twice the number of the slots in use, which are `used`. Afterwards the row
    /// is not sparse.
    pub(crate) fn cut(&mut self, used: &[Slot]) {
        let length = self.row.len().min(2 * used.len());
        let mut is_free = vec![true; length];
        for &slot in used {
            if let Some(is_free) = is_free.get_mut(slot as usize) {
                *is_free = false;
            } else if let Some(entry) = self.row.get_mut(slot as usize) {
                let exile = std::mem::replace(entry, T::free());
                self.places.set(slot, self.exiles.len());
                self.exiles.push((slot, exile));
            }
        }
        self.row.truncate(length);
        self.row.shrink_to_fit();
        self.exiles.shrink_to_fit();
        self.free = NONE;
        for slot in (0..self.len()).rev() {
            if is_free[slot as usize] {
                self.give_back(slot, |_| ());
            }
        }
        self.set_least();
    }

    /// Returns the entry, in use or free, if there is one.
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        let entry = self.row.get(slot as usize);
        entry.or_else(|| Some(&self.exiles[self.places.get(slot)?].1))
    }

    /// Returns the entry, unless it is an exile.
    #[inline]
    pub(crate) fn get_near(&mut self, slot: Slot) -> Option<&mut T> {
        self.row.get_mut(slot as usize)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.row.capacity() + self.exiles.capacity()
    }

    /// Iterates over the entries from this slot on, in use or free.
    pub(crate) fn iter_from(&self, first: Slot) -> impl Iterator<Item = (Slot, &T)> {
        let row = self.row.get(first as usize..).unwrap_or_default();
        let after = |&(slot, _): &(Slot, usize)| self.places.next(slot + 1);
        let exiles = iter::successors(self.places.next(first), after);
        iter::zip(first.., row).chain(exiles.map(|(slot, place)| (slot, &self.exiles[place].1)))
    }

    #[cold]
    #[inline(never)]
    fn exile(&self, slot: Slot) -> &T {
        let place = self.places.get(slot).expect("a slot in use has an entry");
        &self.exiles[place].1
    }

    #[cold]
    #[inline(never)]
    fn exile_mut(&mut self, slot: Slot) -> &mut T {
        let place = self.places.get(slot).expect("a slot in use has an entry");
        &mut self.exiles[place].1
    }
}

impl<T: Entry> Index<Slot> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, slot: Slot) -> &T {
        match self.row.get(slot as usize) {
            Some(entry) => entry,
            None => self.exile(slot),
        }
    }
}

impl<T: Entry> IndexMut<Slot> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        if (slot as usize) < self.row.len() {
            &mut self.row[slot as usize]
        } else {
            self.exile_mut(slot)
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use testkit::Rng;

    use super::*;

    #[derive(Debug)]
    struct Value(Option<u64>, Slot);

    impl Entry for Value {
        fn free() -> Self {
            Self(None, NONE)
        }
        fn link(&mut self) -> &mut Slot {
            &mut self.1
        }
    }

    /// Compares the slab with a plain list, while entries come and go and the row is cut, at
    /// random.
    #[test]
    fn entries_keep_their_numbers_and_values_across_cuts() {
        let mut random = Rng::new(1);
        let mut slab = Slab::<Value>::new();
        let mut used: Vec<(Slot, u64)> = Vec::new();
        let mut exiles = 0;
        for step in 0..20_000 {
            // Waves: the slab fills up, then nearly all entries are removed.
            let fills = step / 500 % 2 == 0;
            if used.is_empty() || random.chance(8) != fills {
                let slot = slab.take(|value| assert_eq!(value.0.replace(step), None));
                assert!(
                    used.iter().all(|&(other, _)| other != slot),
                    "{slot} is in use"
                );
                used.push((slot, step));
            } else {
                let (slot, value) = used.swap_remove(random.below(used.len()));
                assert_eq!(slab.give_back(slot, |entry| entry.0.take()), Some(value));
                assert!(slab.get(slot).is_none_or(|entry| entry.0.is_none()));
            }
            if random.chance(100) {
                let slots: Vec<_> = used.iter().map(|&(slot, _)| slot).collect();
                slab.cut(&slots);
                assert!(slab.capacity() <= 3 * used.len(), "a cut frees the rest");
                exiles = slab.exiles.len().max(exiles);
            }
            for &(slot, value) in &used {
                assert_eq!(slab[slot].0, Some(value));
            }
            let mut present: Vec<_> = slab.iter_from(0).collect();
            assert!(present.is_sorted_by_key(|&(slot, _)| slot));
            present.retain(|(_, entry)| entry.0.is_some());
            assert_eq!(present.len(), used.len());
        }
        assert!(
            exiles > 5,
            "{exiles} exiles at most are too few to show anything"
        );
    }
}
