//! Errors of multi-pools that a single pool does not have.

use std::{error, fmt};

use pool_core::{BuildError, WaitError};

/// Error of [`MultiBuilder::build`](crate::MultiBuilder::build).
#[doc(alias = "ErrInvalidMultiPoolSize")]
#[derive(Debug)]
#[non_exhaustive]
pub enum MultiBuildError {
    /// The number of pools is zero.
    NoPools,
    /// A pool could not be built. The pools built before it were released and have ended.
    Pool(BuildError),
}

impl fmt::Display for MultiBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPools => f.write_str("a multi-pool needs at least one pool"),
            Self::Pool(error) => error.fmt(f),
        }
    }
}

impl error::Error for MultiBuildError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NoPools => None,
            Self::Pool(error) => error.source(), // `Display` prints the error itself.
        }
    }
}

impl From<BuildError> for MultiBuildError {
    fn from(error: BuildError) -> Self {
        Self::Pool(error)
    }
}

/// Error of a call with an index: it is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexError {
    /// The requested index.
    pub index: usize,
    /// The number of pools.
    pub pools: usize,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pool index {} is out of range for {} pools",
            self.index, self.pools
        )
    }
}

impl error::Error for IndexError {}

/// Error of a wait that ended before all pools had reached the awaited state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiWaitError {
    /// By index, ascending; never empty.
    pools: Vec<(usize, WaitError)>,
}

impl MultiWaitError {
    pub(crate) fn gather(answers: impl Iterator<Item = Result<(), WaitError>>) -> Result<(), Self> {
        let refusals = answers.enumerate();
        let pools: Vec<_> = refusals
            .filter_map(|(index, answer)| Some((index, answer.err()?)))
            .collect();
        if pools.is_empty() {
            Ok(())
        } else {
            Err(Self { pools })
        }
    }

    /// Returns the index and the error of each pool for which the wait failed.
    pub fn pools(&self) -> &[(usize, WaitError)] {
        &self.pools
    }

    /// Returns whether the wait timed out for at least one pool.
    pub fn any_timed_out(&self) -> bool {
        self.pools
            .iter()
            .any(|&(_, error)| error == WaitError::TimedOut)
    }

    /// Returns whether the wait failed only by time-outs, so that waiting again may succeed.
    pub fn all_timed_out(&self) -> bool {
        self.pools
            .iter()
            .all(|&(_, error)| error == WaitError::TimedOut)
    }
}

impl fmt::Display for MultiWaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (index, error)) in self.pools.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}pool {index}: {error}")?;
        }
        Ok(())
    }
}

impl error::Error for MultiWaitError {}

/// The first error that is not a time-out, or else the time-out.
impl From<MultiWaitError> for WaitError {
    fn from(error: MultiWaitError) -> Self {
        let mut errors = error.pools.into_iter().map(|(_, error)| error);
        errors
            .find(|&error| error != Self::TimedOut)
            .unwrap_or(Self::TimedOut)
    }
}
