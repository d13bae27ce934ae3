//! Reuse of the oldest first, in slots allocated ahead.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use crate::IdleQueue;
use crate::reuse::Oldest;

/// A ring: the worker idle for the longest time is reused first, and the slots are allocated once.
///
/// For pools that must not allocate while they run, or must give every worker its turn. No slot,
/// or one, is a legal ring; the former refuses every push.
///
/// Not for: pools that are to shrink under light traffic. Reuse in turn keeps every worker young:
/// where `n` workers idle and a task comes every second, none is ever idle for more than about
/// `n` seconds.
///
/// ```
/// use worker_queue::{Full, LoopQueue};
///
/// let mut idle = LoopQueue::new(2)?;
/// idle.push("first", 10).unwrap();
/// idle.push("second", 20).unwrap();
/// assert_eq!(idle.push("third", 30), Err(Full("third")));
/// assert_eq!(idle.pop(), Some("first"));
/// # Ok::<(), std::collections::TryReserveError>(())
/// ```
pub type LoopQueue<E, S> = IdleQueue<E, S, Oldest>;

impl<E, S> LoopQueue<E, S> {
    /// An empty ring of exactly `slots` slots.
    ///
    /// # Errors
    /// If memory for so many slots cannot be had.
    pub fn new(slots: usize) -> Result<Self, TryReserveError> {
        Self::bounded(slots, Oldest)
    }

    /// Gives the ring exactly `slots` slots and returns those entries, the oldest ones and in
    /// order of age, that have no place any more.
    ///
    /// The others keep their order and stamps. O(n), and both the old slots and the new exist for
    /// a moment.
    ///
    /// # Errors
    /// If memory for so many slots cannot be had. The ring is as it was.
    pub fn resize(&mut self, slots: usize) -> Result<Vec<E>, TryReserveError> {
        self.resize_slots(slots)
    }
}
