//! What belongs to the process that made it, and to no fork of that: a file that is open, sessions of a
//! server.
//!
//! # What always holds
//! 1. A forked child does not reach it: an answer that is due to one of the two would go to the other.
//! 2. A forked child does not drop it. A drop may say goodbye to the server, or tidy up files, in the name of the
//!    parent, which goes on.

use std::mem;

use sync_shim::fork_count;

use crate::error::{ErrorKind, StoreError};
use crate::store::Result;

/// Holds a resource of the process that made it.
#[derive(Debug)]
pub struct Own<T> {
    /// `fork_count()` where it was made.
    forks: usize,
    /// There until the drop.
    it: Option<T>,
}

impl<T> Own<T> {
    /// Of this process.
    pub fn new(it: T) -> Self {
        Self {
            forks: fork_count(),
            it: Some(it),
        }
    }

    fn is_forked(&self) -> bool {
        fork_count() != self.forks
    }

    /// The resource.
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
