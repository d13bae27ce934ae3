//! By what entries are ordered.

use core::cmp::Ordering;

/// When an entry falls due, where it stands among those due at the same time, and whose it is.
///
/// No two entries have one order number, so the slot does not take part in comparisons: two keys
/// compare as two numbers of 128 bits do, without a branch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) due: u64,
    order: u64,
    slot: u32,
}

impl Key {
    /// Before every entry's key.
    pub(super) const FIRST: Self = Self::new(0, 0, 0);
    /// Behind every entry's key.
    pub(super) const LAST: Self = Self::new(u64::MAX, u64::MAX, u32::MAX);

    /// Before every key of an entry that never falls due, and behind all others.
    pub(super) const NEVER: Self = Self::at(u64::MAX);

    /// Before every entry's key that is due then, and behind those that are due earlier.
    pub(super) const fn at(due: u64) -> Self {
        Self::new(due, 0, 0)
    }

    /// Behind the keys that are due then and have an order number up to this one.
    pub(super) const fn behind(due: u64, order: u64) -> Self {
        Self::new(due, order.saturating_add(1), 0)
    }

    pub(super) const fn new(due: u64, order: u64, slot: u32) -> Self {
        Self { due, order, slot }
    }

    /// Behind this one, and before or equal to all others that are: no two have one order number,
    /// and the highest is not used.
    pub(super) fn next(self) -> Self {
        Self::behind(self.due, self.order)
    }

    pub(super) fn order(self) -> u64 {
        self.order
    }

    pub(super) fn slot(self) -> u32 {
        self.slot
    }

    fn rank(self) -> u128 {
        u128::from(self.due) << 64 | u128::from(self.order)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    fn lt(&self, other: &Self) -> bool {
        self.rank() < other.rank()
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}
