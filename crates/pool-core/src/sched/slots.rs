//! Worker numbers: the lowest free one, starting at 0.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The numbers that are free. Protected by the pool's lock.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Returned numbers, all below `next`.
    // A heap, so that the lowest free number comes first and the numbers stay below the largest number of live
    // workers: per-worker arrays of users would grow without end otherwise.
    free: BinaryHeap<Reverse<usize>>,
    next: usize,
}

impl Slots {
    pub(crate) fn take(&mut self) -> usize {
        if let Some(Reverse(lowest)) = self.free.pop() {
            return lowest;
        }
        self.next += 1;
        self.next - 1
    }

    pub(crate) fn give_back(&mut self, slot: usize) {
        self.free.push(Reverse(slot));
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_number_that_is_free_is_taken_first() {
        let mut slots = Slots::default();
        assert_eq!([slots.take(), slots.take(), slots.take()], [0, 1, 2]);
        slots.give_back(1);
        slots.give_back(0);
        assert_eq!([slots.take(), slots.take(), slots.take()], [0, 1, 3]);
    }

    #[test]
    fn workers_that_come_and_go_leave_no_numbers_beyond_the_most_that_lived_at_once() {
        let mut slots = Slots::default();
        for _ in 0..1000 {
            let taken = [(); 3].map(|()| slots.take());
            for slot in taken {
                slots.give_back(slot);
            }
        }
        assert_eq!((slots.free.len(), slots.next), (3, 3));
    }
}
