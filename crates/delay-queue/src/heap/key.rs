//! Keys that order the entries.

use core::cmp::Ordering;

/// The due time of an entry, its order number among entries with that time, and its slot.
///
/// Order numbers are unique, so the slot does not take part in comparisons: two keys compare like
/// two 128-bit numbers, without a branch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) due: u64,
    order: u64,
    slot: u32,
}

impl Key {
    /// Less than every entry's key.
    pub(super) const FIRST: Self = Self::new(0, 0, 0);
    /// Greater than every entry's key.
    pub(super) const LAST: Self = Self::new(u64::MAX, u64::MAX, u32::MAX);

    /// Less than the keys of entries that never fall due, and greater than all others.
    pub(super) const NEVER: Self = Self::at(u64::MAX);

    /// Returns the least key with this due time.
    pub(super) const fn at(due: u64) -> Self {
        Self::new(due, 0, 0)
    }

    /// Returns a key that is greater than all keys with this due time and an order number up to
    /// `order`.
    pub(super) const fn behind(due: u64, order: u64) -> Self {
        Self::new(due, order.saturating_add(1), 0)
    }

    pub(super) const fn new(due: u64, order: u64, slot: u32) -> Self {
        Self { due, order, slot }
    }

    /// Returns the next key: greater than this one, and not greater than any other greater key.
    /// Order numbers are unique, and the highest is not used.
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
