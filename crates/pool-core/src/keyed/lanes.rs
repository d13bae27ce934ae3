//! Lanes by their keys: for each key that has a task, what waits behind that task.
//!
//! Not for: locks, nor when a lane is opened and closed. The caller's hash is kept, so that a lane
//! is closed without a call of the key's `Hash` or `Eq`.
//!
//! # Invariants
//! 1. A key is in the table while its lane is open, and no longer: an idle key takes no memory.
//! 2. A closed lane's slot is reused before another one is made.

use std::collections::VecDeque;

use hashbrown::HashTable;

/// Slots of closed lanes, with the memory of their queues, that an empty table keeps.
const SPARE: usize = 256;
/// Tasks for which a closed lane keeps memory.
const SPARE_TASKS: usize = 4;

pub(super) struct Lanes<K, J> {
    /// Slots of open lanes, by the hashes of their keys.
    open: HashTable<u32>,
    slots: Vec<Slot<K, J>>,
    closed: Vec<u32>,
}

struct Slot<K, J> {
    hash: u64,
    /// `None` if the lane is closed.
    key: Option<K>,
    waiting: VecDeque<J>,
}

impl<K, J> Lanes<K, J> {
    pub(super) fn new() -> Self {
        Self {
            open: HashTable::new(),
            slots: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// Keys with an open lane.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// The open lane of a key.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &K) -> Option<u32>
    where
        K: Eq,
    {
        let is_it = |&slot: &u32| self.slots[slot as usize].key.as_ref() == Some(key);
        self.open.find(hash, is_it).copied()
    }

    /// Opens a lane for a key that has none.
    #[inline]
    pub(super) fn open(&mut self, hash: u64, key: K) -> u32 {
        let slot = self.closed.pop().unwrap_or_else(|| self.new_slot());
        let lane = &mut self.slots[slot as usize];
        (lane.hash, lane.key) = (hash, Some(key));
        let slots = &self.slots;
        self.open
            .insert_unique(hash, slot, |&other| slots[other as usize].hash);
        slot
    }

    fn new_slot(&mut self) -> u32 {
        let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 keys have tasks");
        self.slots.push(Slot {
            hash: 0,
            key: None,
            waiting: VecDeque::new(),
        });
        slot
    }

    /// A task waits behind the others of its lane.
    #[inline]
    pub(super) fn push(&mut self, lane: u32, job: impl FnOnce() -> J) {
        let job = std::iter::once_with(job); // Made where it is to lie: no copy waits for its stores.
        self.slots[lane as usize].waiting.extend(job);
    }

    /// Takes out all that waits in a lane, and leaves it the memory of an empty queue.
    #[inline]
    pub(super) fn take(&mut self, lane: u32, empty: &mut VecDeque<J>) {
        debug_assert!(
            empty.is_empty(),
            "what is in it would come after its successors"
        );
        std::mem::swap(&mut self.slots[lane as usize].waiting, empty);
    }

    /// Closes a lane: its key, and what waited there. Both are to be dropped when no lock is held.
    #[inline]
    pub(super) fn close(&mut self, lane: u32) -> Option<(K, VecDeque<J>)> {
        let slot = &mut self.slots[lane as usize];
        let key = slot.key.take()?;
        let keeps = slot.waiting.is_empty() && slot.waiting.capacity() <= SPARE_TASKS;
        let waiting = if keeps {
            VecDeque::new()
        } else {
            std::mem::take(&mut slot.waiting)
        };
        if let Ok(entry) = self.open.find_entry(slot.hash, |&other| other == lane) {
            entry.remove();
        }
        if self.open.is_empty() && self.slots.len() > SPARE {
            *self = Self::new();
        } else {
            self.closed.push(lane);
        }
        Some((key, waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_found_by_its_key_while_it_is_open_also_where_hashes_are_equal() {
        let mut lanes = Lanes::<&str, u32>::new();
        let (a, b) = (lanes.open(7, "a"), lanes.open(7, "b"));
        assert_eq!(
            (lanes.find(7, &"a"), lanes.find(7, &"b")),
            (Some(a), Some(b))
        );
        assert_eq!((lanes.find(7, &"c"), lanes.len()), (None, 2));
        lanes.push(a, || 1);
        lanes.push(a, || 2);
        lanes.push(b, || 3);
        let mut taken = VecDeque::new();
        lanes.take(a, &mut taken);
        assert_eq!(taken, [1, 2]);
        let mut more = VecDeque::new();
        lanes.take(a, &mut more);
        assert_eq!(more, []);
        assert_eq!(lanes.close(a), Some(("a", VecDeque::new())));
        assert_eq!((lanes.find(7, &"a"), lanes.find(7, &"b")), (None, Some(b)));
        assert_eq!(lanes.open(9, "c"), a, "a slot is reused");
        assert_eq!(lanes.close(b), Some(("b", VecDeque::from([3]))));
    }

    #[test]
    fn a_table_of_closed_lanes_gives_its_memory_back() {
        let mut lanes = Lanes::<usize, u32>::new();
        for round in 0..3 {
            let open: Vec<_> = (0..10 * SPARE)
                .map(|key| lanes.open(key as u64, key))
                .collect();
            for &lane in &open {
                (0..1000).for_each(|job| lanes.push(lane, || job));
            }
            for &lane in &open {
                lanes.take(lane, &mut VecDeque::new());
                assert!(lanes.close(lane).is_some(), "round {round}");
            }
            assert_eq!(
                (lanes.len(), lanes.slots.len(), lanes.open.capacity()),
                (0, 0, 0)
            );
        }
        // A few are kept, so that keys that come and go do not allocate.
        let lane = lanes.open(1, 1);
        lanes.push(lane, || 1);
        let mut taken = VecDeque::new();
        lanes.take(lane, &mut taken);
        assert_eq!(taken.pop_front(), Some(1));
        lanes.take(lane, &mut taken); // As a worker does that finds no more.
        assert!(lanes.close(lane).is_some());
        assert_eq!(lanes.slots.len(), 1);
        assert!(lanes.slots[0].waiting.capacity() > 0);
    }
}
