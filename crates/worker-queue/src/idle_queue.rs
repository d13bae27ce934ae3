//! The container behind both queues: entries in order of age, each with the stamp of its last use.
//!
//! Not for: deciding which end is reused. The type parameter `R` of [`IdleQueue`] decides;
//! [`Stack`](crate::Stack) and [`LoopQueue`](crate::LoopQueue) are its two fixed choices.
//!
//! # Invariants
//! 1. Stamps never decrease from front to back. Therefore the expired entries are always a prefix,
//!    and one binary search finds its end.
//! 2. A bounded queue never holds more entries than its bound, and `slots` has room for all of
//!    them: only `bounded` and `resize_slots` allocate.
//!
//! A stamp is stored next to its entry, not inside it, so that no entry can change its own age and
//! break invariant 1.

use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;

use crate::Full;
use crate::reuse::{Reuse, ReuseOrder};

/// Idle workers in order of age, each with the stamp of its last use.
///
/// `E` is an idle worker. `S` is a point in time, or any other value that only grows. `R` says
/// which end [`pop`](Self::pop) reuses: [`Stack`](crate::Stack) and [`LoopQueue`](crate::LoopQueue)
/// fix it in their type; the default, [`Reuse`], is chosen at run time by
/// [`stack`](IdleQueue::stack) or [`ring`](IdleQueue::ring).
///
/// No method waits. Methods that drop entries run user code, and their documentation says so. If a
/// comparison of stamps or a predicate panics, the container is unchanged.
#[derive(Debug)]
pub struct IdleQueue<E, S, R = Reuse> {
    slots: VecDeque<Slot<E, S>>,
    bound: Option<usize>,
    reuse: R,
}

#[derive(Debug)]
struct Slot<E, S> {
    entry: E,
    last_used: S,
}

impl<E, S> IdleQueue<E, S> {
    /// Creates an empty queue that behaves as a [`Stack`](crate::Stack): reuses the newest entry,
    /// grows on demand.
    pub const fn stack() -> Self {
        Self::growing(Reuse::Newest)
    }

    /// Creates an empty queue that behaves as a [`LoopQueue`](crate::LoopQueue): reuses the oldest
    /// entry, in slots allocated once.
    ///
    /// # Errors
    /// If the slots cannot be allocated.
    pub fn ring(slots: usize) -> Result<Self, TryReserveError> {
        Self::bounded(slots, Reuse::Oldest)
    }

    /// Returns which end [`pop`](Self::pop) takes from.
    pub fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// Resizes a ring, as [`LoopQueue::resize`](crate::LoopQueue::resize). Has no effect on a
    /// container that grows on demand.
    ///
    /// # Errors
    /// If the new slots cannot be allocated. The container is unchanged.
    pub fn resize(&mut self, slots: usize) -> Result<Vec<E>, TryReserveError> {
        match self.bound {
            Some(_) => self.resize_slots(slots),
            None => Ok(Vec::new()),
        }
    }
}

impl<E, S, R> IdleQueue<E, S, R> {
    pub(crate) const fn growing(reuse: R) -> Self {
        Self {
            slots: VecDeque::new(),
            bound: None,
            reuse,
        }
    }

    pub(crate) fn bounded(slots: usize, reuse: R) -> Result<Self, TryReserveError> {
        Ok(Self {
            slots: allocate(slots)?,
            bound: Some(slots),
            reuse,
        })
    }

    /// Leaves the container unchanged if it fails.
    pub(crate) fn resize_slots(&mut self, slots: usize) -> Result<Vec<E>, TryReserveError> {
        let mut resized = allocate(slots)?;
        let surplus = self.len().saturating_sub(slots);
        let surplus = self.drain_oldest(surplus).collect();
        resized.append(&mut self.slots);
        self.slots = resized;
        self.bound = Some(slots);
        Ok(surplus)
    }

    /// Returns the number of idle workers.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the next [`push`](Self::push) will be rejected.
    pub fn is_full(&self) -> bool {
        self.capacity() == Some(self.len())
    }

    /// Returns the number of slots, or `None` if they grow on demand.
    pub fn capacity(&self) -> Option<usize> {
        self.bound
    }

    /// Removes the `count` oldest entries (all of them if there are fewer), oldest first.
    ///
    /// `usize::MAX` removes all. Cost and drops are those of
    /// [`drain_expired`](Self::drain_expired), without the search.
    pub fn drain_oldest(&mut self, count: usize) -> impl ExactSizeIterator<Item = E> {
        let count = count.min(self.len());
        self.slots.drain(..count).map(|slot| slot.entry)
    }

    /// Removes the oldest entry for which `matches` returns true. The other entries keep their
    /// order.
    ///
    /// O(n): the search starts at the oldest entry, and the entries on the shorter side of the gap
    /// are moved.
    pub fn remove(&mut self, mut matches: impl FnMut(&E) -> bool) -> Option<E> {
        let index = self.slots.iter().position(|slot| matches(&slot.entry))?;
        self.slots.remove(index).map(|slot| slot.entry)
    }

    /// Drops every entry in this call. The slots are kept. O(n).
    ///
    /// To drop the entries elsewhere, remove them with [`drain_oldest`](Self::drain_oldest).
    pub fn clear(&mut self) {
        self.slots.clear();
    }
}

impl<E, S, R: ReuseOrder> IdleQueue<E, S, R> {
    /// Removes the worker to reuse next: the newest of a [`Stack`](crate::Stack), the oldest of a
    /// [`LoopQueue`](crate::LoopQueue). O(1).
    #[doc(alias = "detach")]
    pub fn pop(&mut self) -> Option<E> {
        let slot = match self.reuse.order() {
            Reuse::Newest => self.slots.pop_back(),
            Reuse::Oldest => self.slots.pop_front(),
        };
        slot.map(|slot| slot.entry)
    }
}

impl<E, S: Copy + Ord, R> IdleQueue<E, S, R> {
    /// Adds a worker last used at `last_used`, as the newest.
    ///
    /// Entries stay in order of age: a stamp older than the newest entry's is raised to that
    /// entry's. Returns the stamp that was stored. A worker that sleeps until it has expired must
    /// compute the time from the returned stamp; with its own it could wake too early and find
    /// itself not yet expired.
    ///
    /// O(1); amortised on a [`Stack`](crate::Stack), which allocates when it outgrows the largest
    /// number of entries it has held.
    ///
    /// # Errors
    /// [`Full`] with the entry if every slot of a ring is taken. A stack is never full.
    #[doc(alias = "insert")]
    pub fn push(&mut self, entry: E, last_used: S) -> Result<S, Full<E>> {
        if self.is_full() {
            return Err(Full(entry));
        }
        let newest = self.slots.back().map(|slot| slot.last_used);
        let last_used = newest.map_or(last_used, |newest| newest.max(last_used));
        self.slots.push_back(Slot { entry, last_used });
        Ok(last_used)
    }

    /// Returns the worker that has been idle longest, and its stamp. O(1).
    pub fn oldest(&self) -> Option<(&E, S)> {
        self.iter().next()
    }

    /// Returns the worker used last, and its stamp. O(1).
    pub fn newest(&self) -> Option<(&E, S)> {
        self.iter().next_back()
    }

    /// Iterates over all workers and their stamps, from the oldest to the newest.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&E, S)> + ExactSizeIterator {
        self.slots.iter().map(|slot| (&slot.entry, slot.last_used))
    }

    /// Removes at most `max` of the entries last used at `limit` or before, oldest first.
    ///
    /// `max` is the number of workers that the pool can spare. O(log n) for the search, O(1) for
    /// each removed entry; no allocation, and no other entry moves.
    ///
    /// The entries are removed by this call. Entries that the iterator has not yielded when it is
    /// dropped are dropped with it. Under a lock, collect the iterator, unlock, and drop the
    /// entries then. Leaking the iterator (`mem::forget`) may leak any of the entries and leave the
    /// container empty.
    #[doc(alias = "refresh")]
    pub fn drain_expired(&mut self, limit: S, max: usize) -> impl ExactSizeIterator<Item = E> {
        let expired = self.slots.partition_point(|slot| slot.last_used <= limit);
        self.drain_oldest(expired.min(max))
    }
}

fn allocate<T>(slots: usize) -> Result<VecDeque<T>, TryReserveError> {
    let mut room = VecDeque::new();
    room.try_reserve_exact(slots)?;
    Ok(room)
}
