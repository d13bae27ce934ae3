//! A queue of tasks from which each task can be removed by its number.
//!
//! # Invariants
//! 1. Numbers ascend from the front to the back.
//! 2. The first and the last place hold a task, and at least half of all places do. So memory is
//!    proportional to the number of tasks in the queue.

use std::collections::VecDeque;

pub(super) struct Pending<T> {
    /// Number and task; `None` if the task was removed.
    places: VecDeque<(u64, Option<T>)>,
    len: usize,
    /// Number of the next task.
    next: u64,
}

impl<T> Pending<T> {
    pub(super) fn new() -> Self {
        Self {
            places: VecDeque::new(),
            len: 0,
            next: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends a task and returns its number.
    pub(super) fn push_back(&mut self, task: T) -> u64 {
        let number = self.next;
        self.places.push_back((number, Some(task)));
        self.next += 1;
        self.len += 1;
        number
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let (_, task) = self.places.pop_front()?;
        self.len -= 1;
        self.trim();
        task
    }

    /// Removes a task. Logarithmic in the number of tasks.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number)?;
        let task = self.places[place].1.take()?;
        self.len -= 1;
        self.trim();
        Some(task)
    }

    fn place(&self, number: u64) -> Option<usize> {
        let found = self
            .places
            .binary_search_by_key(&number, |(number, _)| *number);
        found.ok()
    }

    /// Restores invariant 2. Amortized constant: each place is emptied once and removed once.
    fn trim(&mut self) {
        while matches!(self.places.front(), Some((_, None))) {
            self.places.pop_front();
        }
        while matches!(self.places.back(), Some((_, None))) {
            self.places.pop_back();
        }
        if self.places.len() > 2 * self.len {
            self.places.retain(|(_, task)| task.is_some());
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_taken_from_anywhere_in_any_order_and_memory_follows_their_number() {
        let mut random = 1_u64;
        let mut next = |below: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(random >> 33).expect("31 bits") % below
        };
        let (mut pending, mut waiting) = (Pending::new(), Vec::new());
        for task in 0..20_000_usize {
            waiting.push((pending.push_back(task), task));
            // The queue grows and shrinks in turn.
            for _ in 0..next(if task % 4_000 < 2_000 { 2 } else { 4 }) {
                if waiting.is_empty() {
                    break;
                }
                if next(3) == 0 {
                    assert_eq!(pending.pop_front(), Some(waiting.remove(0).1));
                } else {
                    let (number, task) = waiting.remove(next(waiting.len()));
                    assert_eq!(pending.remove(number), Some(task));
                    assert_eq!(pending.remove(number), None);
                }
            }
            assert_eq!(pending.len(), waiting.len());
            assert!(pending.places.len() <= 2 * waiting.len());
        }
        for (_, task) in waiting {
            assert_eq!(pending.pop_front(), Some(task));
        }
        assert_eq!((pending.pop_front(), pending.places.len()), (None, 0));
    }
}
