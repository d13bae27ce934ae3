//! The one container: entries in order of age, each with the stamp of its last use.
//!
//! Not for: choosing which end is reused. That is the type parameter `R` of [`IdleQueue`], and
//! [`Stack`](crate::Stack) and [`LoopQueue`](crate::LoopQueue) are its two fixed choices.
//!
//! # Invariants
//! 1. From front to back, the stamps never decrease. Therefore the expired entries are always a
//!    prefix, and one binary search finds its end.
//! 2. With a bound there are never more entries than it says, and `slots` holds room for all of
//!    them: nothing but `bounded` and `resize_slots` allocates.
//!
//! A stamp lies beside its entry rather than in it, so that no entry can change its age behind
//! invariant 1's back.

use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;

use crate::Full;
use crate::reuse::{Reuse, ReuseOrder};

/// Idle workers in order of age, each with the stamp of its last use.
///
/// `E` stands for an idle worker, `S` is a point in time, or anything else that only grows. `R`
/// says which end [`pop`](Self::pop) reuses: [`Stack`](crate::Stack) and
/// [`LoopQueue`](crate::LoopQueue) fix it in their type; the default, [`Reuse`], is a choice at run
/// time, made by [`stack`](IdleQueue::stack) or [`ring`](IdleQueue::ring).
///
/// No method waits. Those that drop entries run user code; each says so. If a comparison of
/// stamps or a predicate panics, the container has not changed.
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
    /// As an empty [`Stack`](crate::Stack): reuses the newest, grows.
    pub const fn stack() -> Self {
        Self::growing(Reuse::Newest)
    }

    /// As an empty [`LoopQueue`](crate::LoopQueue): reuses the oldest, from slots allocated once.
    ///
    /// # Errors
    /// If memory for so many slots cannot be had.
    pub fn ring(slots: usize) -> Result<Self, TryReserveError> {
        Self::bounded(slots, Reuse::Oldest)
    }

    /// Which end [`pop`](Self::pop) takes from.
    pub fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// As [`LoopQueue::resize`](crate::LoopQueue::resize). Does nothing to a container that grows
    /// on demand.
    ///
    /// # Errors
    /// If memory for so many slots cannot be had. The container is as it was.
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

    /// On failure nothing has changed.
    pub(crate) fn resize_slots(&mut self, slots: usize) -> Result<Vec<E>, TryReserveError> {
        let mut resized = allocate(slots)?;
        let surplus = self.len().saturating_sub(slots);
        let surplus = self.drain_oldest(surplus).collect();
        resized.append(&mut self.slots);
        self.slots = resized;
        self.bound = Some(slots);
        Ok(surplus)
    }

    /// How many workers there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the next [`push`](Self::push) will be refused.
    pub fn is_full(&self) -> bool {
        self.capacity() == Some(self.len())
    }

    /// The number of slots, or `None` where they grow on demand.
    pub fn capacity(&self) -> Option<usize> {
        self.bound
    }

    /// Takes out the `count` oldest, or all if there are fewer, the oldest first.
    ///
    /// `usize::MAX` takes all. Costs and drops as [`drain_expired`](Self::drain_expired) does,
    /// without the search.
    pub fn drain_oldest(&mut self, count: usize) -> impl ExactSizeIterator<Item = E> {
        let count = count.min(self.len());
        self.slots.drain(..count).map(|slot| slot.entry)
    }

    /// Takes out the oldest entry for which `matches` is true. The others keep their order.
    ///
    /// O(n): it looks from the oldest on, then moves the entries on the shorter side of the gap.
    pub fn remove(&mut self, mut matches: impl FnMut(&E) -> bool) -> Option<E> {
        let index = self.slots.iter().position(|slot| matches(&slot.entry))?;
        self.slots.remove(index).map(|slot| slot.entry)
    }

    /// Drops every entry, here. The slots stay, so the container is as good as new.
    ///
    /// To drop them elsewhere, take them out by [`drain_oldest`](Self::drain_oldest). O(n).
    pub fn clear(&mut self) {
        self.slots.clear();
    }
}

impl<E, S, R: ReuseOrder> IdleQueue<E, S, R> {
    /// Takes out the worker to reuse next: the newest of a [`Stack`](crate::Stack), the oldest of a
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
    /// Puts in a worker last used at `last_used`, as the newest.
    ///
    /// Ages must stay in order, so a stamp before the newest entry's becomes that entry's. The
    /// stamp in force is returned: a worker that means to wake when it has expired computes the
    /// time from that one, else it might look too early and find itself still fresh.
    ///
    /// O(1); amortised on a [`Stack`](crate::Stack), which allocates when it outgrows the most
    /// entries it ever had.
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

    /// The worker unused for the longest time, and its stamp. O(1).
    pub fn oldest(&self) -> Option<(&E, S)> {
        self.iter().next()
    }

    /// The worker used last, and its stamp. O(1).
    pub fn newest(&self) -> Option<(&E, S)> {
        self.iter().next_back()
    }

    /// Every worker with its stamp, from the oldest to the newest.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&E, S)> + ExactSizeIterator {
        self.slots.iter().map(|slot| (&slot.entry, slot.last_used))
    }

    /// Takes out those last used at `limit` or before, the oldest first, but at most `max`.
    ///
    /// `max` is how many workers the pool can spare. O(log n) to find them, O(1) to take each;
    /// nothing is allocated and no other entry moves.
    ///
    /// They are out as of this call; what the iterator has not yielded when it is dropped, it
    /// drops. Under a lock, collect it, unlock, and let the entries go there. Leaking the
    /// iterator (`mem::forget`) may leak any of the entries and leave the container empty.
    #[doc(alias = "refresh")]
    pub fn drain_expired(&mut self, limit: S, max: usize) -> impl ExactSizeIterator<Item = E> {
        let expired = self.slots.partition_point(|slot| slot.last_used <= limit);
        self.drain_oldest(expired.min(max))
    }
}

/// Room for exactly so many, or the reason why not.
fn allocate<T>(slots: usize) -> Result<VecDeque<T>, TryReserveError> {
    let mut room = VecDeque::new();
    room.try_reserve_exact(slots)?;
    Ok(room)
}
