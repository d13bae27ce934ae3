//! The records of the keys: a slab, a table that finds them, and lists that link them.
//!
//! Not for: the meaning of a key's state; see `keys/`.
//!
//! # Invariants
//! 1. A slot in use is in the table exactly once, under its hash; a free slot is not.
//! 2. A slot keeps its number while it is in use (`slab.rs`), so a guard, a heap entry or a list
//!    that has the number needs no look-up.
//! 3. The table receives hashes and never computes one, and it compares keys only in
//!    [`Records::find`], which changes nothing. So a panic in a key's code cannot leave it
//!    inconsistent.

use std::ops::{Index, IndexMut};

use delay_queue::EntryId;
use hashbrown::HashTable;

pub(crate) use crate::slab::Slot;
use crate::slab::{Entry, NONE, Slab};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Nothing,
    /// Pending now. If the key is held, it is dirty.
    Now,
    /// Pending until its entry in the heap falls due.
    Later(EntryId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An add, or a request of the worker; or no delivery is pending.
    Asked,
    /// Only a failure: the delivery is a retry.
    Failure,
    /// An add that yields to the key's back-off. The key is held, and dirty or delayed: whether
    /// there is a back-off is known when the key is released.
    Yielding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Normal,
    /// All requests for the delivery had low priority.
    Low,
}

/// The reason and lane of the pending delivery, and the lane of the delivery that a worker holds.
/// One byte: a busy queue resets and checks it as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked(u8);

impl Asked {
    /// Value of a record without deliveries, and of a record with one plain add.
    pub(crate) const NOT: Self = Self(0);
    const LOW: u8 = 1;
    const HELD_LOW: u8 = 1 << 1;
    const FAILURE: u8 = 1 << 2;
    const YIELDING: u8 = 1 << 3;

    /// Returns whether releasing the key needs no special handling of this.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & (Self::LOW | Self::HELD_LOW | Self::YIELDING) == 0
    }

    #[inline]
    pub(crate) fn cause(self) -> Cause {
        if self.0 & Self::FAILURE != 0 {
            Cause::Failure
        } else if self.0 & Self::YIELDING != 0 {
            Cause::Yielding
        } else {
            Cause::Asked
        }
    }

    #[inline]
    pub(crate) fn set_cause(&mut self, cause: Cause) {
        self.0 &= !(Self::FAILURE | Self::YIELDING);
        self.0 |= match cause {
            Cause::Asked => 0,
            Cause::Failure => Self::FAILURE,
            Cause::Yielding => Self::YIELDING,
        };
    }

    #[inline]
    pub(crate) fn lane(self) -> Lane {
        self.lane_of(Self::LOW)
    }

    #[inline]
    pub(crate) fn set_lane(&mut self, lane: Lane) {
        self.set_lane_of(Self::LOW, lane);
    }

    #[inline]
    pub(crate) fn held_lane(self) -> Lane {
        self.lane_of(Self::HELD_LOW)
    }

    #[inline]
    pub(crate) fn set_held_lane(&mut self, lane: Lane) {
        self.set_lane_of(Self::HELD_LOW, lane);
    }

    #[inline]
    fn lane_of(self, bit: u8) -> Lane {
        if self.0 & bit == 0 {
            Lane::Normal
        } else {
            Lane::Low
        }
    }

    #[inline]
    fn set_lane_of(&mut self, bit: u8, lane: Lane) {
        match lane {
            Lane::Normal => self.0 &= !bit,
            Lane::Low => self.0 |= bit,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// None: the record is free, or the key is delayed and not held.
    None,
    Ready,
    Held,
    /// Neither held nor pending: kept for its failures.
    Resting,
    ReadyLow,
}

pub(crate) struct Record<K> {
    /// `None` if the slot is free, or if the key was returned as a leftover.
    pub(crate) key: Option<K>,
    /// The guard's copy, so that no key has to be cloned under the lock.
    pub(crate) twin: Option<K>,
    hash: u64,
    /// The bucket in which the table stored the record. The table may have moved it since.
    bucket: usize,
    pub(crate) delivery: Delivery,
    pub(crate) on: On,
    pub(crate) asked: Asked,
    pub(crate) failures: u32,
    prev: Slot,
    /// The next record of its list; for a free record, the slab's link.
    next: Slot,
    /// When the delivery became pending, or when the key came to rest.
    pub(crate) since: u64,
    pub(crate) taken: u64,
    /// End of the delay after the last counted failure. 0 if there are no failures.
    pub(crate) backoff: u64,
}

impl<K> Entry for Record<K> {
    fn free() -> Self {
        Self {
            key: None,
            twin: None,
            hash: 0,
            bucket: 0,
            delivery: Delivery::Nothing,
            on: On::None,
            asked: Asked::NOT,
            failures: 0,
            prev: NONE,
            next: NONE,
            since: 0,
            taken: 0,
            backoff: 0,
        }
    }

    #[inline]
    fn link(&mut self) -> &mut Slot {
        &mut self.next
    }
}

impl<K> Record<K> {
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.delivery != Delivery::Nothing
    }
}

/// A record's two keys, to be dropped when the lock is free.
pub(crate) type Garbage<K> = (Option<K>, Option<K>);

pub(crate) struct Records<K> {
    slab: Slab<Record<K>>,
    table: HashTable<Slot>,
}

impl<K> Records<K> {
    pub(crate) fn new() -> Self {
        Self {
            slab: Slab::new(),
            table: HashTable::new(),
        }
    }

    /// Returns the slot of the key with this hash for which `is` returns true.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(&K) -> bool) -> Option<Slot> {
        let found = self.table.find(hash, |&slot| {
            let record = &self[slot];
            record.hash == hash && record.key.as_ref().is_some_and(&mut is)
        });
        found.copied()
    }

    /// Creates a record for a key that has none.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, key: K, twin: K) -> Slot {
        // Field by field: a record is too large to be created elsewhere and moved. The other fields
        // of a free record already have their initial values.
        let slot = self.slab.take(|record| {
            record.key = Some(key);
            record.twin = Some(twin);
            record.hash = hash;
        });
        let slab = &self.slab;
        // A trait object, independent of the type of keys: so the code that grows the table is
        // compiled once.
        let hash_of: &dyn Fn(&Slot) -> u64 = &|&slot| slab[slot].hash;
        let bucket = self.table.insert_unique(hash, slot, hash_of).bucket_index();
        self[slot].bucket = bucket;
        slot
    }

    /// Slow path for a table that has grown or shrunk since the record was added.
    #[cold]
    fn search_and_remove(&mut self, hash: u64, slot: Slot) {
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == slot) {
            entry.remove();
        }
    }

    /// Frees a slot that is on no list and has no pending delivery.
    #[inline]
    pub(crate) fn erase(&mut self, slot: Slot) -> Garbage<K> {
        let bucket = self[slot].bucket;
        match self.table.get_bucket_entry(bucket) {
            Ok(entry) if *entry.get() == slot => _ = entry.remove(),
            _ => self.search_and_remove(self[slot].hash, slot),
        }
        let garbage = self.slab.give_back(slot, |record| {
            debug_assert_eq!((record.on, record.delivery), (On::None, Delivery::Nothing));
            record.asked = Asked::NOT;
            record.failures = 0;
            record.backoff = 0;
            (record.key.take(), record.twin.take())
        });
        if self.slab.is_sparse(self.table.len()) {
            self.shrink();
        }
        garbage
    }

    #[cold]
    pub(crate) fn shrink(&mut self) {
        let used: Vec<Slot> = self.table.iter().copied().collect();
        self.slab.cut(&used);
        let slab = &self.slab;
        let hash_of: &dyn Fn(&Slot) -> u64 = &|&slot| slab[slot].hash;
        self.table.shrink_to_fit(hash_of);
    }

    /// Returns whether a slot that was found in this section is still in use.
    #[inline]
    pub(crate) fn has(&self, slot: Slot) -> bool {
        let record = self.slab.get(slot);
        record.is_some_and(|record| record.key.is_some())
    }

    /// Returns the record, unless it needs a search.
    #[inline]
    pub(crate) fn get_near(&mut self, slot: Slot) -> Option<&mut Record<K>> {
        self.slab.get_near(slot)
    }

    /// Iterates over the records from this slot on, in use or free.
    pub(crate) fn iter_from(&self, first: Slot) -> impl Iterator<Item = (Slot, &Record<K>)> {
        self.slab.iter_from(first)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slab.capacity()
    }

    /// Returns all slots on the list `on`, in arbitrary order.
    pub(crate) fn search(&self, on: On) -> Vec<Slot> {
        let found = self.iter_from(0).filter(|(_, record)| record.on == on);
        found.map(|(slot, _)| slot).collect()
    }

    pub(crate) fn walk<const ON: u8>(&self, list: &List<ON>) -> impl Iterator<Item = Slot> {
        let first = (list.head != NONE).then_some(list.head);
        std::iter::successors(first, |&slot| {
            let next = self[slot].next;
            (next != NONE).then_some(next)
        })
    }
}

impl<K> Index<Slot> for Records<K> {
    type Output = Record<K>;
    #[inline]
    fn index(&self, slot: Slot) -> &Record<K> {
        &self.slab[slot]
    }
}

impl<K> IndexMut<Slot> for Records<K> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Record<K> {
        &mut self.slab[slot]
    }
}

/// A linked list of records, in the order of pushes. `ON` is the [`On`] of its records.
#[derive(Debug)]
pub(crate) struct List<const ON: u8> {
    head: Slot,
    tail: Slot,
    len: usize,
}

pub(crate) const READY: u8 = On::Ready as u8;
pub(crate) const READY_LOW: u8 = On::ReadyLow as u8;
pub(crate) const HELD: u8 = On::Held as u8;
pub(crate) const RESTING: u8 = On::Resting as u8;

impl<const ON: u8> List<ON> {
    const NAME: On = match ON {
        READY => On::Ready,
        READY_LOW => On::ReadyLow,
        HELD => On::Held,
        _ => On::Resting,
    };

    pub(crate) fn new() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<Slot> {
        (self.head != NONE).then_some(self.head)
    }

    /// Appends a record that is on no list.
    #[inline]
    pub(crate) fn push<K>(&mut self, records: &mut Records<K>, slot: Slot) {
        let tail = std::mem::replace(&mut self.tail, slot);
        self.len += 1;
        let record = &mut records[slot];
        debug_assert_eq!(record.on, On::None, "a record is on one list at most");
        record.on = Self::NAME;
        record.prev = tail;
        record.next = NONE;
        if tail == NONE {
            self.head = slot;
        } else {
            records[tail].next = slot;
        }
    }

    #[inline]
    pub(crate) fn unlink<K>(&mut self, records: &mut Records<K>, slot: Slot) {
        let record = &mut records[slot];
        debug_assert_eq!(record.on, Self::NAME, "a record is on the list it names");
        record.on = On::None;
        self.len -= 1;
        let (prev, next) = (record.prev, record.next);
        if prev == NONE {
            self.head = next;
        } else {
            records[prev].next = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            records[next].prev = prev;
        }
    }

    #[inline]
    pub(crate) fn pop<K>(&mut self, records: &mut Records<K>) -> Option<Slot> {
        let slot = self.first()?;
        let record = &mut records[slot];
        record.on = On::None;
        self.len -= 1;
        self.head = record.next;
        if self.head == NONE {
            self.tail = NONE;
        } else {
            let head = self.head;
            records[head].prev = NONE;
        }
        Some(slot)
    }
}

/// The held records. They are counted, and linked only if metrics ask how long they have been held;
/// otherwise the links would be written for nothing.
#[derive(Debug)]
pub(crate) struct HeldRecords {
    list: List<HELD>,
    listed: bool,
    count: usize,
}

impl HeldRecords {
    pub(crate) fn new(listed: bool) -> Self {
        Self {
            list: List::new(),
            listed,
            count: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns the list, the longest held first; empty if records are only counted.
    pub(crate) fn list(&self) -> &List<HELD> {
        &self.list
    }

    /// Counts a record that becomes held, which the caller marks. Only if records are not linked.
    #[inline]
    pub(crate) fn count_in(&mut self) {
        debug_assert!(!self.listed);
        self.count += 1;
    }

    /// Counts a record that is no longer held, likewise.
    #[inline]
    pub(crate) fn count_out(&mut self) {
        debug_assert!(!self.listed);
        self.count -= 1;
    }

    /// Adds a record that is on no list.
    #[inline]
    pub(crate) fn enter<K>(&mut self, records: &mut Records<K>, slot: Slot) {
        self.count += 1;
        if self.listed {
            self.list.push(records, slot);
        } else {
            records[slot].on = On::Held;
        }
    }

    #[inline]
    pub(crate) fn leave<K>(&mut self, records: &mut Records<K>, slot: Slot) {
        self.count -= 1;
        if self.listed {
            self.list.unlink(records, slot);
        } else {
            debug_assert_eq!(records[slot].on, On::Held);
            records[slot].on = On::None;
        }
    }
}
