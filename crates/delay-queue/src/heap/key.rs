//! By what entries are ordered.

use core::cmp::Ordering;

/// When an entry falls due, where it stands among those due at the same time, and whose it is.
///
/// The second half is packed so that two keys compare as two numbers of 128 bits do: without a
/// branch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) due: u64,
    /// The order in the upper half, the slot in the lower one.
    order_and_slot: u64,
}

impl Key {
    /// Before every entry's key.
    pub(super) const FIRST: Self = Self {
        due: 0,
        order_and_slot: 0,
    };
    /// Behind every entry's key.
    pub(super) const LAST: Self = Self {
        due: u64::MAX,
        order_and_slot: u64::MAX,
    };

    /// Before every key of an entry that never falls due, and behind all others.
    pub(super) const NEVER: Self = Self::at(u64::MAX);

    /// Before every entry's key that is due then, and behind those that are due earlier.
    pub(super) const fn at(due: u64) -> Self {
        let order_and_slot = 0;
        Self {
            due,
            order_and_slot,
        }
    }

    /// Behind the keys that are due then and have an order number up to this one.
    pub(super) fn behind(due: u64, order: u64) -> Self {
        let order = u32::try_from(order).unwrap_or(u32::MAX);
        Self::new(due, order.saturating_add(1), 0)
    }

    pub(super) fn new(due: u64, order: u32, slot: u32) -> Self {
        Self {
            due,
            order_and_slot: u64::from(order) << 32 | u64::from(slot),
        }
    }

    /// Behind this one, and before or equal to all others that are: no two have one order number,
    /// and the highest is not used.
    pub(super) fn next(self) -> Self {
        Self::new(self.due, self.order().saturating_add(1), 0)
    }

    pub(super) fn order(self) -> u32 {
        (self.order_and_slot >> 32) as u32
    }

    #[expect(clippy::cast_possible_truncation, reason = "the other half is cut off")]
    pub(super) fn slot(self) -> u32 {
        self.order_and_slot as u32
    }

    fn rank(self) -> u128 {
        u128::from(self.due) << 64 | u128::from(self.order_and_slot)
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
