//! Reuse of the newest worker.

use crate::IdleQueue;
use crate::reuse::Newest;

/// A stack: the worker that has been idle for the shortest time is reused first. Never full.
///
/// The usual choice. Only as many workers as the load needs are reused, with hot caches. The others
/// expire and can be ended.
///
/// Not for pools that must use all workers in turn: workers at the bottom of a stack may never be
/// reused.
///
/// The stack keeps memory for the largest number of workers that were idle at once, until it is
/// dropped.
///
/// ```
/// use worker_queue::Stack;
///
/// let mut idle = Stack::new();
/// idle.push("first", 10).unwrap();
/// idle.push("second", 20).unwrap();
/// assert_eq!(idle.pop(), Some("second"));
/// ```
pub type Stack<E, S> = IdleQueue<E, S, Newest>;

impl<E, S> Stack<E, S> {
    /// Creates an empty stack. Allocates nothing.
    pub const fn new() -> Self {
        Self::growing(Newest)
    }
}

impl<E, S> Default for Stack<E, S> {
    fn default() -> Self {
        Self::new()
    }
}
