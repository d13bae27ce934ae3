//! The ready keys: two lanes, and the choice of the next key.
//!
//! Deliveries of the normal lane come before those of the low lane, except for the share of the low
//! lane: while both have ready keys, at least one of [`LOW_SHARE`] consecutive deliveries is low.
//! So a low key with `n` others before it in its lane is delivered after at most `(n + 1) *
//! LOW_SHARE` deliveries.
//!
//! A delivery is low as long as all requests for it are. A normal request moves it up.

use super::Keys;
use crate::records::{Lane, List, On, READY, READY_LOW, Records, Slot};

/// One delivery in this many is of the low lane.
const LOW_SHARE: u32 = 8;

#[derive(Debug)]
pub(crate) struct Ready {
    normal: List<READY>,
    low: List<READY_LOW>,
    /// Number of deliveries that have overtaken a ready low key.
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

    pub(crate) fn low(&self) -> usize {
        self.low.len()
    }

    pub(crate) fn unlink<K>(&mut self, records: &mut Records<K>, slot: Slot) {
        if records[slot].on == On::ReadyLow {
            self.low.unlink(records, slot);
        } else {
            self.normal.unlink(records, slot);
        }
    }

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

    /// Like [`pop`](Self::pop), for an empty low lane, which need not be checked.
    #[inline]
    pub(crate) fn pop_normal<K>(&mut self, records: &mut Records<K>) -> Option<Slot> {
        debug_assert!(!self.has_low());
        self.normal.pop(records)
    }

    /// Appends a record that is on no list to the normal lane.
    #[inline]
    pub(crate) fn push_normal<K>(&mut self, records: &mut Records<K>, slot: Slot) {
        self.normal.push(records, slot);
    }

    fn push_low<K>(&mut self, records: &mut Records<K>, slot: Slot) {
        self.low.push(records, slot);
    }
}

impl<K> Keys<K> {
    /// Records a request for a delivery in this lane. Returns whether it moves a ready key up.
    #[inline]
    pub(super) fn ask(&mut self, slot: Slot, lane: Lane) -> bool {
        let record = &mut self.records[slot];
        if record.asked.lane() == lane {
            return false; // The usual case.
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
        self.mark_unsettled(); // Full takes check both lanes, which the fast ones do not.
    }
}
