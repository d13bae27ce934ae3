//! The one way in which a push can fail.

use core::error::Error;
use core::fmt;

/// Every slot is taken. The entry comes back as it was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<E>(pub E);

impl<E> fmt::Debug for Full<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)") // So that an entry needs no `Debug` of its own.
    }
}

impl<E> fmt::Display for Full<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue of idle workers is full")
    }
}

impl<E> Error for Full<E> {}
