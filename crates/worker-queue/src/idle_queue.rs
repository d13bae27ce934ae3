//! Either container, chosen at run time.
//!
//! An enum and not a trait object: the set of containers is closed, so a `match` is all the
//! dispatch there is to pay for, nothing is boxed, and the methods that take a closure or return
//! an iterator stay as they are.

use alloc::collections::TryReserveError;

use crate::by_age::{ByAge, Entries};
use crate::{LoopQueue, Stack, WorkerQueue};

/// A [`Stack`] or a [`LoopQueue`] behind one face, for pools that let their user choose.
///
/// Not for: code that knows which one it wants. Name that one.
#[derive(Debug)]
pub enum IdleQueue<E, S> {
    /// Reuses the newest first; grows.
    Stack(Stack<E, S>),
    /// Reuses the oldest first; a fixed number of slots.
    Ring(LoopQueue<E, S>),
}

impl<E, S> IdleQueue<E, S> {
    /// An empty [`Stack`].
    pub const fn stack() -> Self {
        Self::Stack(Stack::new())
    }

    /// An empty [`LoopQueue`].
    ///
    /// # Errors
    /// If memory for so many slots cannot be had.
    pub fn ring(slots: usize) -> Result<Self, TryReserveError> {
        LoopQueue::new(slots).map(Self::Ring)
    }
}

impl<E, S: Copy + Ord> WorkerQueue for IdleQueue<E, S> {
    type Entry = E;
    type Stamp = S;

    fn pop(&mut self) -> Option<E> {
        match self {
            Self::Stack(stack) => stack.pop(),
            Self::Ring(ring) => ring.pop(),
        }
    }
}

impl<E, S> Entries<E, S> for IdleQueue<E, S> {
    fn entries(&self) -> &ByAge<E, S> {
        match self {
            Self::Stack(stack) => stack.entries(),
            Self::Ring(ring) => ring.entries(),
        }
    }

    fn entries_mut(&mut self) -> &mut ByAge<E, S> {
        match self {
            Self::Stack(stack) => stack.entries_mut(),
            Self::Ring(ring) => ring.entries_mut(),
        }
    }
}
