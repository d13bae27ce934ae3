//! Entries in order of age: what every container of this crate is inside.
//!
//! Not for: choosing who is reused. In that alone the containers differ, and each says it in its
//! own file.
//!
//! # Invariants
//! 1. From front to back, the stamps never decrease. Therefore the expired entries are always a
//!    prefix, and one binary search finds its end.
//! 2. With a bound there are never more entries than it says, and `slots` holds room for all of
//!    them: nothing but `bounded` and `resize` allocates.
//!
//! A stamp lies beside its entry rather than in it, so that no entry can change its age behind
//! invariant 1's back.

use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;

use crate::Full;

/// Entries and their stamps, the oldest in front.
#[derive(Debug)]
pub struct ByAge<E, S> {
    slots: VecDeque<Slot<E, S>>,
    bound: Option<usize>,
}

#[derive(Debug)]
struct Slot<E, S> {
    entry: E,
    last_used: S,
}

/// Gives [`WorkerQueue`](crate::WorkerQueue) what all containers share. It cannot be named
/// outside, which seals that trait.
pub trait Entries<E, S> {
    #[doc(hidden)]
    fn entries(&self) -> &ByAge<E, S>;
    #[doc(hidden)]
    fn entries_mut(&mut self) -> &mut ByAge<E, S>;
}

impl<E, S> ByAge<E, S> {
    pub(crate) const fn growing() -> Self {
        Self {
            slots: VecDeque::new(),
            bound: None,
        }
    }

    pub(crate) fn bounded(slots: usize) -> Result<Self, TryReserveError> {
        Ok(Self {
            slots: allocate(slots)?,
            bound: Some(slots),
        })
    }

    pub(crate) fn bound(&self) -> Option<usize> {
        self.bound
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn pop_oldest(&mut self) -> Option<E> {
        self.slots.pop_front().map(|slot| slot.entry)
    }

    pub(crate) fn pop_newest(&mut self) -> Option<E> {
        self.slots.pop_back().map(|slot| slot.entry)
    }

    pub(crate) fn drain_oldest(&mut self, count: usize) -> impl ExactSizeIterator<Item = E> {
        let count = count.min(self.len());
        self.slots.drain(..count).map(|slot| slot.entry)
    }

    pub(crate) fn remove_first(&mut self, mut matches: impl FnMut(&E) -> bool) -> Option<E> {
        let index = self.slots.iter().position(|slot| matches(&slot.entry))?;
        self.slots.remove(index).map(|slot| slot.entry)
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }

    /// On failure nothing has changed.
    pub(crate) fn resize(&mut self, slots: usize) -> Result<Vec<E>, TryReserveError> {
        let mut resized = allocate(slots)?;
        let surplus = self.len().saturating_sub(slots);
        let surplus = self.drain_oldest(surplus).collect();
        resized.append(&mut self.slots);
        self.slots = resized;
        self.bound = Some(slots);
        Ok(surplus)
    }
}

impl<E, S: Copy + Ord> ByAge<E, S> {
    pub(crate) fn push(&mut self, entry: E, last_used: S) -> Result<S, Full<E>> {
        if self.bound == Some(self.len()) {
            return Err(Full(entry));
        }
        let newest = self.slots.back().map(|slot| slot.last_used);
        let last_used = newest.map_or(last_used, |newest| newest.max(last_used));
        self.slots.push_back(Slot { entry, last_used });
        Ok(last_used)
    }

    /// The one search: how many entries were last used at `limit` or before.
    pub(crate) fn expired(&self, limit: S) -> usize {
        self.slots.partition_point(|slot| slot.last_used <= limit)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&E, S)> + ExactSizeIterator {
        self.slots.iter().map(|slot| (&slot.entry, slot.last_used))
    }
}

/// Room for exactly so many, or the reason why not.
fn allocate<T>(slots: usize) -> Result<VecDeque<T>, TryReserveError> {
    let mut room = VecDeque::new();
    room.try_reserve_exact(slots)?;
    Ok(room)
}
