//! Reuse of the newest first.

use crate::WorkerQueue;
use crate::by_age::{ByAge, Entries};

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
/// use worker_queue::{Stack, WorkerQueue};
///
/// let mut idle = Stack::new();
/// idle.push("first", 10).unwrap();
/// idle.push("second", 20).unwrap();
/// assert_eq!(idle.pop(), Some("second"));
/// ```
#[derive(Debug)]
pub struct Stack<E, S>(ByAge<E, S>);

impl<E, S> Stack<E, S> {
    /// An empty stack. Allocates nothing.
    pub const fn new() -> Self {
        Self(ByAge::growing())
    }
}

impl<E, S> Default for Stack<E, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E, S: Copy + Ord> WorkerQueue for Stack<E, S> {
    type Entry = E;
    type Stamp = S;

    fn pop(&mut self) -> Option<E> {
        self.0.pop_newest()
    }
}

impl<E, S> Entries<E, S> for Stack<E, S> {
    fn entries(&self) -> &ByAge<E, S> {
        &self.0
    }

    fn entries_mut(&mut self) -> &mut ByAge<E, S> {
        &mut self.0
    }
}
