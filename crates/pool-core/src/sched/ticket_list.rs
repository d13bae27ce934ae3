//! A list in order of arrival whose entries can be removed from anywhere by ticket. It holds the waiters of a pool,
//! which may give up.
//!
//! # Invariants
//! 1. Tickets ascend and are never reused. So a binary search finds an entry, and the ticket of a removed entry finds
//!    nothing.
//! 2. Removing an entry from the middle leaves a hole. There are at most [`FEW`] more holes than entries, so a
//!    removal takes O(log n) steps and an amortised O(1) moves.
//! 3. The memory is at most that of twice the entries plus [`FEW`].

use std::collections::VecDeque;

/// Number of holes and unused places that are tolerated regardless of the length.
// So that short lists, which are the common case, are neither compacted nor reallocated.
const FEW: usize = 32;

/// Entries in order of arrival; each is removed by its ticket, in any order, at a constant cost.
#[derive(Debug)]
pub struct TicketList<T> {
    entries: VecDeque<(u64, Option<T>)>,
    next_ticket: u64,
    len: usize,
}

impl<T> TicketList<T> {
    /// An empty list.
    #[expect(clippy::new_without_default, reason = "never made by default")]
    pub const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            next_ticket: 0,
            len: 0,
        }
    }

    /// Number of entries.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends an entry. The ticket is for [`remove`](Self::remove).
    pub fn push(&mut self, entry: T) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.entries.push_back((ticket, Some(entry)));
        self.len += 1;
        ticket
    }

    /// Removes and returns the oldest entry.
    pub fn pop(&mut self) -> Option<T> {
        // Skips holes. Each hole is skipped once, so that a pop takes O(1) steps on average.
        let popped = loop {
            steps::count();
            if let (_, Some(entry)) = self.entries.pop_front()? {
                break entry;
            }
        };
        self.len -= 1;
        self.tidy();
        Some(popped)
    }

    /// Removes and returns the entry with this ticket, if it is still there.
    pub fn remove(&mut self, ticket: u64) -> Option<T> {
        let by_ticket = |&(other, _): &(u64, _)| {
            steps::count();
            other
        };
        let at = self.entries.binary_search_by_key(&ticket, by_ticket).ok()?;
        // Left as a hole, because closing the gap would move up to half of the list under the pool's lock.
        let removed = self.entries[at].1.take()?;
        self.len -= 1;
        self.tidy();
        Some(removed)
    }

    /// Removes all entries and frees the memory.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.len = 0;
        // The entries are dropped by the caller, because some of them own wakers and a lock is held here.
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().filter_map(|(_, entry)| entry)
    }

    /// Restores invariants 2 and 3 after a removal.
    #[inline]
    fn tidy(&mut self) {
        // Proportional to the entries, so that the moves of a sweep are paid for by the removals since the last one.
        let most = 2 * self.len + FEW;
        if self.entries.len() > most || self.entries.capacity() > 2 * most {
            self.sweep(most);
        }
    }

    #[cold]
    fn sweep(&mut self, most: usize) {
        self.entries.retain(|(_, entry)| {
            steps::count();
            entry.is_some()
        });
        self.entries.shrink_to(most);
    }
}

/// Number of steps and moves of this thread's lists. Counted in unit tests only.
#[cfg(test)]
pub(crate) mod steps {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }

    pub(crate) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// The steps that `call` takes.
    pub(crate) fn of(call: impl FnOnce()) -> u64 {
        let before = COUNT.get();
        call();
        COUNT.get() - before
    }
}

#[cfg(not(test))]
mod steps {
    #[inline]
    pub(super) fn count() {}
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    fn list_of(count: u64) -> TicketList<u64> {
        let mut list = TicketList::new();
        (0..count).for_each(|entry| assert_eq!(list.push(entry), entry));
        list
    }

    #[test]
    fn a_removal_keeps_the_order_of_the_other_entries() {
        let mut list = list_of(6);
        assert_eq!(
            [list.remove(2), list.remove(2), list.remove(99)],
            [Some(2), None, None]
        );
        assert_eq!((list.pop(), list.len()), (Some(0), 4));
        assert_eq!((list.remove(0), list.push(6)), (None, 6));
        let left: Vec<_> = list.take_all().collect();
        assert_eq!(
            (left, list.len(), list.pop()),
            (vec![1, 3, 4, 5, 6], 0, None)
        );
        assert_eq!(
            (list.push(7), list.remove(6), list.pop()),
            (7, None, Some(7))
        );
    }

    #[test]
    fn entries_that_come_and_go_behind_an_old_one_leave_no_memory_behind() {
        let mut list = list_of(1);
        for entry in 1..100_000 {
            let ticket = list.push(entry);
            assert_eq!(list.remove(ticket), Some(entry));
            assert!(list.entries.len() <= FEW + 2 && list.entries.capacity() < 4 * FEW);
        }
        assert_eq!(list.pop(), Some(0));
    }

    #[test]
    fn memory_follows_the_entries_however_they_leave() {
        for leaves_in_front in [true, false] {
            let mut list = list_of(10_000);
            for gone in 0..10_000 {
                let left = if leaves_in_front {
                    list.pop()
                } else {
                    list.remove(9_999 - gone)
                };
                assert!(left.is_some());
                let most = 2 * list.len() + FEW;
                assert!(list.entries.len() <= most && list.entries.capacity() <= 2 * most);
            }
        }
    }

    #[test]
    fn the_steps_of_removals_in_any_order_grow_with_their_number() {
        const COUNT: u64 = 80_000;
        // 10,007 is a prime, so the last order meets each ticket once.
        let orders: [fn(u64) -> u64; 3] = [|n| n, |n| COUNT - 1 - n, |n| n * 10_007 % COUNT];
        for order in orders {
            let mut list = list_of(COUNT);
            let mut steps = 0;
            for n in 0..COUNT {
                steps += steps::of(|| assert!(list.remove(order(n)).is_some()));
                assert!(steps <= 24 * (n + 1), "{steps} for {}", n + 1);
            }
        }
    }
}
