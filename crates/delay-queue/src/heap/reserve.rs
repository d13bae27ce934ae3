//! Error of reserving memory.

use alloc::collections::TryReserveError;
use core::{error, fmt};

/// Could not allocate memory for the additional entries. The existing entries are unaffected;
/// memory that was allocated before the failure is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReserveError {
    /// The total would exceed the number of entries that a [`DelayHeap`](crate::DelayHeap) can
    /// hold.
    TooMany,
    /// The allocation failed.
    NoMemory(TryReserveError),
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => f.write_str("a heap cannot hold that many entries"),
            Self::NoMemory(_) => f.write_str("no memory for the additional entries"),
        }
    }
}

impl error::Error for ReserveError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NoMemory(error) => Some(error),
            Self::TooMany => None,
        }
    }
}

impl From<TryReserveError> for ReserveError {
    fn from(error: TryReserveError) -> Self {
        Self::NoMemory(error)
    }
}
