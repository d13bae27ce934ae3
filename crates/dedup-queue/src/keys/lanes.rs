//! The ready keys: two lanes, and which key comes next.
//!
//! Deliveries of the normal lane come before those of the low one, but for the share of the low lane:
//! while both have ready keys, of [`LOW_SHARE`] deliveries in a row at least one is a low one. So a low
//! key before which `n` others are in its lane comes after `(n + 1) * LOW_SHARE` deliveries at most.
//!
//! A delivery is low as long as all who have asked for it say so. One who does not moves it up.

use super::Keys;
use crate::records::{Lane, List, On, READY, READY_LOW, Records, Slot};

/// Of so many deliveries, one is of the low lane.
const LOW_SHARE: u32 = 8;

/// The keys that are ready.
#[derive(Debug)]
pub(crate) struct Ready {
    normal: List<READY>,
    low: List<READY_LOW>,
    /// So many deliveries have gone before a low key that was ready.
    passed: u32,
}

impl Ready {
    pub(crate) fn new() -> Self {
        Self {
            normal: List::new(),
            low: List::new(),
            passed: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.normal.len() + self.low.len()
    }

    #[inline]
    pub(crate) fn has_low(&self) -> bool {
        self.low.len() > 0
    }

    /// How many are in the low lane.
    pub(crate) fn low(&self) -> usize {
        self.low.len()
    }

    /// Takes a record off the lane that it is in.
    pub(crate) fn unlink<K>(&mut self, records: &mut Records<K>, slot: Slot) {
        if records[slot].on == On::ReadyLow {
            self.low.unlink(records, slot);
        } else {
            self.normal.unlink(records, slot);
        }
    }

    /// Takes the one that comes next.
    #[inline]
    pub(crate) fn pop<K>(&mut self, records: &mut Records<K>) -> Option<Slot> {
        if self.has_low() {
            self.pop_of_both(records)
        } else {
            self.normal.pop(records)
        }
    }

    #[cold]
    fn pop_of_both<K>(&mut self, records: &mut Records<K>) -> Option<Slot> {
        if self.passed + 1 < LOW_SHARE
            && let Some(slot) = self.normal.pop(records)
        {
            self.passed += 1;
            return Some(slot);
        }
        self.passed = 0;
        self.low.pop(records)
    }

    /// The same, while the low lane is empty: the other look is not needed.
    #[inline]
    pub(crate) fn pop_normal<K>(&mut self, records: &mut Records<K>) -> Option<Slot> {
        debug_assert!(!self.has_low());
        self.normal.pop(records)
    }

    /// Appends a record that is on no list, and whose lane is the normal one.
    #[inline]
    pub(crate) fn push_normal<K>(&mut self, records: &mut Records<K>, slot: Slot) {
        self.normal.push(records, slot);
    }

    /// The same, of the low one.
    fn push_low<K>(&mut self, records: &mut Records<K>, slot: Slot) {
        self.low.push(records, slot);
    }
}

impl<K> Keys<K> {
    /// A delivery of the key is asked for, by one in this lane. Whether that moves a ready key up is
    /// the answer.
    #[inline]
    pub(super) fn ask(&mut self, slot: Slot, lane: Lane) -> bool {
        let record = &mut self.records[slot];
        if record.asked.lane() == lane {
            return false; // As mostly.
        }
        if !record.is_pending() {
            record.asked.set_lane(lane);
            return false;
        }
        lane == Lane::Normal && self.move_up(slot)
    }

    #[cold]
    fn move_up(&mut self, slot: Slot) -> bool {
        self.records[slot].asked.set_lane(Lane::Normal);
        let is_ready = self.records[slot].on == On::ReadyLow;
        if is_ready {
            self.ready.unlink(&mut self.records, slot);
            self.ready.push_normal(&mut self.records, slot);
        }
        is_ready
    }

    /// A key has become ready.
    #[inline]
    pub(super) fn push_ready(&mut self, slot: Slot) {
        if self.records[slot].asked.lane() == Lane::Normal {
            self.ready.push_normal(&mut self.records, slot);
        } else {
            self.push_low(slot);
        }
    }

    #[cold]
    fn push_low(&mut self, slot: Slot) {
        self.ready.push_low(&mut self.records, slot);
        self.mark_unsettled(); // Takes look at both lanes, which the short ones do not.
    }
}
