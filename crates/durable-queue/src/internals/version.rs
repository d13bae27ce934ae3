//! Versions of what a store has written, and which processes may work on it.
//!
//! Beside its version a store writes down the oldest version whose processes may work on it. So processes of two
//! versions run beside each other while a program is replaced, and the older one can be started again.

use crate::error::{ErrorKind, StoreError};
use crate::store::Result;

/// What is written down in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The version that has written it.
    pub number: u32,
    /// The oldest version that may work on it. It is raised by a version that an older one would misread, and by
    /// no other.
    pub oldest: u32,
}

impl Version {
    /// A store in which nothing is written yet.
    pub const NONE: Self = Self {
        number: 0,
        oldest: 0,
    };

    /// Whether a process that writes version `known` may use the store as it is; else it is older, and to be
    /// brought to that version.
    ///
    /// # Errors
    /// [`ErrorKind::Newer`], if such a process may not work on it.
    pub fn is_usable(self, known: u32) -> Result<bool> {
        if self.oldest > known {
            let found = self.number;
            return Err(StoreError::new(ErrorKind::Newer { found, known }));
        }
        Ok(self.number >= known)
    }
}
