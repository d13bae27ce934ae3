//! The two lanes of ready keys as plain lists.

use std::collections::BTreeSet;

/// One of this many consecutive deliveries is low, if there is a low key.
const LOW_SHARE: u32 = 8;

#[derive(Default)]
pub(crate) struct Lanes {
    normal: Vec<u8>,
    low: Vec<u8>,
    passed: u32,
    /// Keys whose pending delivery, now or later, is low.
    low_pending: BTreeSet<u8>,
    low_held: BTreeSet<u8>,
}

impl Lanes {
    pub(crate) fn len(&self) -> usize {
        self.normal.len() + self.low.len()
    }

    pub(crate) fn low(&self) -> usize {
        self.low.len()
    }

    pub(crate) fn contains(&self, key: u8) -> bool {
        self.normal.contains(&key) || self.low.contains(&key)
    }

    pub(crate) fn is_low(&self, key: u8) -> bool {
        self.low_pending.contains(&key)
    }

    /// Requests a delivery. Returns whether that moves a ready key up.
    pub(crate) fn ask(&mut self, key: u8, low: bool, is_owed: bool) -> bool {
        if !is_owed {
            self.low_pending.remove(&key);
            if low {
                self.low_pending.insert(key);
            }
            return false;
        }
        if low || !self.low_pending.remove(&key) {
            return false;
        }
        let moves = self.remove(key);
        if moves {
            self.push(key);
        }
        moves
    }

    pub(crate) fn push(&mut self, key: u8) {
        if self.is_low(key) {
            self.low.push(key);
        } else {
            self.normal.push(key);
        }
    }

    pub(crate) fn remove(&mut self, key: u8) -> bool {
        let before = self.len();
        self.normal.retain(|&other| other != key);
        self.low.retain(|&other| other != key);
        self.len() < before
    }

    fn pop(&mut self) -> Option<u8> {
        if self.low.is_empty() {
            return (!self.normal.is_empty()).then(|| self.normal.remove(0));
        }
        if self.passed + 1 < LOW_SHARE && !self.normal.is_empty() {
            self.passed += 1;
            return Some(self.normal.remove(0));
        }
        self.passed = 0;
        Some(self.low.remove(0))
    }

    /// A worker takes the next key.
    pub(crate) fn take(&mut self) -> Option<u8> {
        let key = self.pop()?;
        if self.low_pending.remove(&key) {
            self.low_held.insert(key);
        }
        Some(key)
    }

    /// A worker releases its key. Returns whether its delivery was low.
    pub(crate) fn let_go(&mut self, key: u8) -> bool {
        self.low_held.remove(&key)
    }

    /// All keys, in the order of their deliveries.
    pub(crate) fn take_all(&mut self) -> Vec<u8> {
        std::iter::from_fn(|| self.pop()).collect()
    }
}
