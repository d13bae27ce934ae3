//! A number for each worker, from 0, that no other one has while it lives.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Gives the lowest number that is free. Held under the pool's lock.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Below `next`, and given back.
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
