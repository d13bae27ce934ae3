//! Versions of stored data, and which processes may use them.
//!
//! In addition to its version, a store records the oldest version whose processes may use it. So processes of
//! two versions can run at the same time during an upgrade, and the older one can be restarted.

use crate::error::{ErrorKind, StoreError};
use crate::store::Result;

/// The version record of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The version that has written it.
    pub number: u32,
    /// The oldest version that may use it. Only a version whose data older ones would misread raises it.
    pub oldest: u32,
}

impl Version {
    /// An empty store.
    pub const NONE: Self = Self {
        number: 0,
        oldest: 0,
    };

    /// Returns whether a process of version `known` may use the store as it is. If not, the store is older
    /// and has to be upgraded to that version.
    ///
    /// # Errors
    /// [`ErrorKind::Newer`] if such a process may not use it.
    pub fn is_usable(self, known: u32) -> Result<bool> {
        if self.oldest > known {
            let found = self.number;
            return Err(StoreError::new(ErrorKind::Newer { found, known }));
        }
        Ok(self.number >= known)
    }
}
