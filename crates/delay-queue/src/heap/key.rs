//! By what entries are ordered.

use core::cmp::Ordering;

/// When an entry falls due, where it stands among those due at the same time, and whose it is.
///
/// No two entries share an order number, so two keys compare as two numbers of 128 bits do:
/// without a branch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) due: u64,
    pub(super) order: u64,
    slot: u32,
}

/// What is first: of its key only what has to be known of one that leaves.
///
/// Two words, which travel in registers; the three of a key are copied by way of memory, and waited
/// for there.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    pub(super) due: u64,
    pub(super) slot: u32,
}

impl First {
    /// There is none: behind all others.
    pub(super) const NONE: Self = Self {
        due: u64::MAX,
        slot: u32::MAX,
    };
}

impl Key {
    /// Before every entry's key.
    pub(super) const FIRST: Self = Self::new(0, 0, 0);
    /// Behind every entry's key.
    pub(super) const LAST: Self = Self::new(u64::MAX, u64::MAX, u32::MAX);

    pub(super) const fn new(due: u64, order: u64, slot: u32) -> Self {
        Self { due, order, slot }
    }

    /// Behind all that are due before, and before all others.
    pub(super) const fn at(due: u64) -> Self {
        Self::new(due, 0, 0)
    }

    /// Behind this one, and before or equal to all others that are: no two have one order number,
    /// and the highest is not used.
    pub(super) fn next(self) -> Self {
        Self::new(self.due, self.order.saturating_add(1), 0)
    }

    pub(super) fn slot(self) -> u32 {
        self.slot
    }

    #[inline]
    pub(super) fn as_first(&self) -> First {
        First {
            due: self.due,
            slot: self.slot,
        }
    }

    #[inline]
    fn rank(&self) -> u128 {
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
