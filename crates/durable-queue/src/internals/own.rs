//! A resource that belongs to the process that created it, not to forked children: an open file, sessions
//! with a server.
//!
//! # Invariants
//! 1. A forked child cannot access the resource: responses for one process would reach the other.
//! 2. A forked child does not drop the resource. The drop might close the parent's sessions or delete its
//!    files.

use std::mem;

use sync_shim::fork_count;

use crate::error::{ErrorKind, StoreError};
use crate::store::Result;

/// Holds a resource of the process that created it.
#[derive(Debug)]
pub struct Own<T> {
    /// `fork_count()` at its creation.
    forks: usize,
    /// `Some` until the drop.
    it: Option<T>,
}

impl<T> Own<T> {
    /// Wraps a resource of this process.
    pub fn new(it: T) -> Self {
        Self {
            forks: fork_count(),
            it: Some(it),
        }
    }

    fn is_forked(&self) -> bool {
        fork_count() != self.forks
    }

    /// Returns the resource.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`] in a forked child.
    pub fn get(&self) -> Result<&T> {
        let it = self.it.as_ref().filter(|_| !self.is_forked());
        it.ok_or_else(|| StoreError::new(ErrorKind::Forked))
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.is_forked() {
            mem::forget(self.it.take());
        }
    }
}
