//! What every container of idle workers can do.

use crate::Full;
use crate::by_age::Entries;

/// Idle workers in order of age, each with the stamp of its last use.
///
/// [`Stack`](crate::Stack), [`LoopQueue`](crate::LoopQueue) and, for a choice at run time,
/// [`IdleQueue`](crate::IdleQueue) implement it; the trait is sealed, because the order of age is
/// kept by one implementation for all. They differ in [`pop`](WorkerQueue::pop) alone, and in
/// whether there is a [`capacity`](WorkerQueue::capacity).
///
/// No method waits. Those that drop entries run foreign code; each says so. If a comparison of
/// stamps or a predicate panics, the container has not changed.
pub trait WorkerQueue: Entries<<Self as WorkerQueue>::Entry, <Self as WorkerQueue>::Stamp> {
    /// What stands for an idle worker.
    type Entry;

    /// What its last use is stamped with: a point in time, or anything else that only grows.
    type Stamp: Copy + Ord;

    /// Takes out the worker to reuse next: the newest of a [`Stack`](crate::Stack), the oldest of
    /// a [`LoopQueue`](crate::LoopQueue). O(1).
    fn pop(&mut self) -> Option<Self::Entry>;

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
    fn push(
        &mut self,
        entry: Self::Entry,
        last_used: Self::Stamp,
    ) -> Result<Self::Stamp, Full<Self::Entry>> {
        self.entries_mut().push(entry, last_used)
    }

    /// How many workers there are.
    fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the next [`push`](WorkerQueue::push) will be refused.
    fn is_full(&self) -> bool {
        self.capacity() == Some(self.len())
    }

    /// The number of slots, or `None` where they grow on demand.
    fn capacity(&self) -> Option<usize> {
        self.entries().bound()
    }

    /// The worker unused for the longest time, and its stamp. O(1).
    fn oldest(&self) -> Option<(&Self::Entry, Self::Stamp)> {
        self.iter().next()
    }

    /// The worker used last, and its stamp. O(1).
    fn newest(&self) -> Option<(&Self::Entry, Self::Stamp)> {
        self.iter().next_back()
    }

    /// Every worker with its stamp, from the oldest to the newest.
    fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = (&Self::Entry, Self::Stamp)> + ExactSizeIterator {
        self.entries().iter()
    }

    /// Takes out those last used at `limit` or before, the oldest first, but at most `max`.
    ///
    /// `max` is how many workers the pool can spare. O(log n) to find them, O(1) to take each;
    /// nothing is allocated and no other entry moves.
    ///
    /// They are out as of this call; what the iterator has not yielded when it is dropped, it
    /// drops. Under a lock, collect it, unlock, and let the entries go there. Leaking the
    /// iterator (`mem::forget`) may leak any of the entries and leave the container empty.
    fn drain_expired(
        &mut self,
        limit: Self::Stamp,
        max: usize,
    ) -> impl ExactSizeIterator<Item = Self::Entry> {
        let count = self.entries().expired(limit).min(max);
        self.drain_oldest(count)
    }

    /// Takes out the `count` oldest, or all if there are fewer, the oldest first.
    ///
    /// `usize::MAX` takes all. Costs and drops as [`drain_expired`](WorkerQueue::drain_expired)
    /// does, without the search.
    fn drain_oldest(&mut self, count: usize) -> impl ExactSizeIterator<Item = Self::Entry> {
        self.entries_mut().drain_oldest(count)
    }

    /// Takes out the oldest entry for which `matches` is true. The others keep their order.
    ///
    /// O(n): it looks from the oldest on, then moves the entries on the shorter side of the gap.
    fn remove(&mut self, matches: impl FnMut(&Self::Entry) -> bool) -> Option<Self::Entry> {
        self.entries_mut().remove_first(matches)
    }

    /// Drops every entry, here. The slots stay, so the container is as good as new.
    ///
    /// To drop them elsewhere, take them out by [`drain_oldest`](WorkerQueue::drain_oldest).
    /// O(n).
    fn clear(&mut self) {
        self.entries_mut().clear();
    }
}
