//! Reuse of the oldest worker, in preallocated slots.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use crate::IdleQueue;
use crate::reuse::Oldest;

/// A ring: the worker that has been idle longest is reused first, in slots that are allocated once.
///
/// For pools that must not allocate while they run, or that must use all workers in turn. A ring may
/// have one slot or none; a ring without slots rejects every push.
///
/// Not for pools that should shrink under a light load: with `n` idle workers and one task per
/// second, no worker is ever idle for more than about `n` seconds.
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
    /// Creates an empty ring of exactly `slots` slots.
    ///
    /// # Errors
    /// If the slots cannot be allocated.
    pub fn new(slots: usize) -> Result<Self, TryReserveError> {
        Self::bounded(slots, Oldest)
    }

    /// Resizes the ring to exactly `slots` slots, and returns the oldest entries that no longer fit, in
    /// order of age.
    ///
    /// The remaining entries keep their order and stamps. O(n); during the call both the old
    /// and the new slots are allocated.
    ///
    /// # Errors
    /// If the new slots cannot be allocated. The ring is unchanged.
    pub fn resize(&mut self, slots: usize) -> Result<Vec<E>, TryReserveError> {
        self.resize_slots(slots)
    }
}
