//! Why memory could not be had ahead.

use alloc::collections::TryReserveError;
use core::{error, fmt};

/// Memory for so many more entries was not to be had. Those that are there are not concerned; what
/// could be allocated stays allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReserveError {
    /// There would be more entries than a [`DelayHeap`](crate::DelayHeap) can hold.
    TooMany,
    /// The allocator refused.
    NoMemory(TryReserveError),
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => f.write_str("a heap cannot hold so many entries"),
            Self::NoMemory(_) => f.write_str("there is no memory for so many entries"),
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
