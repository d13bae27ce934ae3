//! Values that become ready in any order and leave in the order of their places.
//!
//! Pure: no lock, no waiting. [`Window`](crate::window::Window) puts both around it.
//!
//! # Invariants
//! 1. Places are numbered from 0 without a gap and leave in that order.
//! 2. At most `bound` places are held, ready or not.

use std::collections::VecDeque;

/// The places that are reserved and have not left.
pub(crate) struct Order<T> {
    bound: usize,
    first: u64,
    places: VecDeque<Option<T>>,
}

impl<T> Order<T> {
    /// Nothing is reserved; at most `bound` places will be at a time.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            bound,
            first: 0,
            places: VecDeque::new(),
        }
    }

    /// Takes the next place, or `None` while `bound` places are held.
    pub(crate) fn reserve(&mut self) -> Option<u64> {
        if self.places.len() == self.bound {
            return None;
        }
        let place = self.first + self.places.len() as u64;
        self.places.push_back(None);
        Some(place)
    }

    /// Makes `place` ready. True if it is the oldest, so that something can leave now.
    ///
    /// # Panics
    /// If `place` is not held.
    pub(crate) fn fill(&mut self, place: u64, value: T) -> bool {
        let held = place
            .checked_sub(self.first)
            .and_then(|index| self.places.get_mut(usize::try_from(index).ok()?))
            .expect("only a reserved place is filled, and only once");
        *held = Some(value);
        place == self.first
    }

    /// Takes out the oldest places, as many as are ready without a gap.
    pub(crate) fn take_ready(&mut self) -> Vec<T> {
        let mut taken = Vec::new();
        while let Some(oldest) = self.places.front_mut() {
            let Some(value) = oldest.take() else { break };
            self.places.pop_front();
            self.first += 1;
            taken.push(value);
        }
        taken
    }

    /// True if no place is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}
