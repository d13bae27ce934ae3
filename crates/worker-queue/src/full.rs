//! The error of a push into a full queue.

use core::error::Error;
use core::fmt;

/// Error of [`push`](crate::IdleQueue::push): every slot is taken. Contains the rejected entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<E>(pub E);

impl<E> fmt::Debug for Full<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)") // Entries need not implement `Debug`.
    }
}

impl<E> fmt::Display for Full<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue of idle workers is full")
    }
}

impl<E> Error for Full<E> {}
