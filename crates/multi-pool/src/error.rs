//! What may go wrong with several pools that cannot with one.

use std::{error, fmt};

use pool_core::{BuildError, WaitError};

/// A multi-pool cannot be built as asked.
#[doc(alias = "ErrInvalidMultiPoolSize")]
#[derive(Debug)]
#[non_exhaustive]
pub enum MultiBuildError {
    /// There is to be at least one pool.
    NoPools,
    /// One of the pools could not be built. Those built before it have been released, and have ended.
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
            Self::Pool(error) => error.source(), // Its own text is shown already, by `Display`.
        }
    }
}

impl From<BuildError> for MultiBuildError {
    fn from(error: BuildError) -> Self {
        Self::Pool(error)
    }
}

/// There is no pool of this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexError {
    /// What was asked for.
    pub index: usize,
    /// How many pools there are.
    pub pools: usize,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no pool {} of {}", self.index, self.pools)
    }
}

impl error::Error for IndexError {}

/// A wait ended before every pool had reached the state that was waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiWaitError {
    /// By index, ascending; never empty.
    pools: Vec<(usize, WaitError)>,
}

impl MultiWaitError {
    /// All pools' answers.
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

    /// The pools for which the wait failed, by index, and why.
    pub fn pools(&self) -> &[(usize, WaitError)] {
        &self.pools
    }

    /// Whether the time was up for one of them.
    pub fn any_timed_out(&self) -> bool {
        self.pools
            .iter()
            .any(|&(_, error)| error == WaitError::TimedOut)
    }

    /// Whether for each of them it failed only because the time was up: to wait again may help.
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

/// One answer for all: the first that is not a time-out, if there is one.
impl From<MultiWaitError> for WaitError {
    fn from(error: MultiWaitError) -> Self {
        let mut errors = error.pools.into_iter().map(|(_, error)| error);
        errors
            .find(|&error| error != Self::TimedOut)
            .unwrap_or(Self::TimedOut)
    }
}
