//! Tasks that wait in the order in which they came, each of which may be taken out by its number.
//!
//! # Invariants
//! 1. Numbers rise from the front to the back.
//! 2. The first and the last place hold a task, and at least half of the places do: so memory follows
//!    the number of tasks that wait, however many came and went.

use std::collections::VecDeque;

pub(super) struct Pending<T> {
    /// A task's number, and the task unless it was taken out.
    places: VecDeque<(u64, Option<T>)>,
    len: usize,
    /// The next task's number.
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

    /// Number of tasks.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends a task: its number.
    pub(super) fn push_back(&mut self, task: T) -> u64 {
        let number = self.next;
        self.places.push_back((number, Some(task)));
        self.next += 1;
        self.len += 1;
        number
    }

    /// Takes the oldest task out.
    pub(super) fn pop_front(&mut self) -> Option<T> {
        let (_, task) = self.places.pop_front()?;
        self.len -= 1;
        self.trim();
        task
    }

    /// Whether that task waits.
    pub(super) fn contains(&self, number: u64) -> bool {
        let place = self.place(number);
        place.is_some_and(|place| self.places[place].1.is_some())
    }

    /// Takes that task out, if it waits. Logarithmic in the number of those that wait.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number)?;
        let task = self.places[place].1.take()?;
        self.len -= 1;
        self.trim();
        if self.places.len() > 2 * self.len {
            self.places.retain(|(_, task)| task.is_some());
        }
        Some(task)
    }

    fn place(&self, number: u64) -> Option<usize> {
        let found = self
            .places
            .binary_search_by_key(&number, |(number, _)| *number);
        found.ok()
    }

    fn trim(&mut self) {
        while matches!(self.places.front(), Some((_, None))) {
            self.places.pop_front();
        }
        while matches!(self.places.back(), Some((_, None))) {
            self.places.pop_back();
        }
    }
}
