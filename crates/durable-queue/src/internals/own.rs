//! A resource that belongs to the process that created it, not to forked children: an open file, sessions
//! with a server.
//!
//! # Invariants
//! 1. A forked child cannot access the resource: responses for one process would reach the other.
//! 2. A forked child does not drop the resource. The drop might close the parent's sessions or delete its
//!    files.

use std::mem;

use sync_shim::Process;

use crate::error::{ErrorKind, StoreError};
use crate::store::Result;

/// Holds a resource of the process that created it.
#[derive(Debug)]
pub struct Own<T> {
    process: Process,
    /// `Some` until the drop.
    it: Option<T>,
}

impl<T> Own<T> {
    /// Wraps a resource of this process.
    pub fn new(it: T) -> Self {
        Self {
            process: Process::current(),
            it: Some(it),
        }
    }

    /// Returns the resource.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`] in a forked child.
    pub fn get(&self) -> Result<&T> {
        let it = self.it.as_ref().filter(|_| self.process.is_current());
        it.ok_or_else(|| StoreError::new(ErrorKind::Forked))
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if !self.process.is_current() {
            mem::forget(self.it.take());
        }
    }
}
