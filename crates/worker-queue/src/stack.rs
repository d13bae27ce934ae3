//! Reuse of the newest first.

use crate::IdleQueue;
use crate::reuse::Newest;

/// A stack: the worker idle for the shortest time is reused first, and there is always room.
///
/// The usual choice. As few workers as the traffic needs stay hot in their caches, the others
/// sink to the bottom, expire, and can be let go.
///
/// Not for: giving every worker its turn; those at the bottom of a stack may never get one.
///
/// Its memory is that of the most workers that were ever idle at once, and is given back when the
/// stack is dropped.
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
    /// An empty stack. Allocates nothing.
    pub const fn new() -> Self {
        Self::growing(Newest)
    }
}

impl<E, S> Default for Stack<E, S> {
    fn default() -> Self {
        Self::new()
    }
}
