//! How many workers there may be, and how many accepted tasks may wait beyond them.

use std::fmt;

/// The most live workers a pool may have.
///
/// "Unlimited" is a value of its own, not a very large number: an unlimited pool is never full.
///
/// ```
/// use pool_core::{Capacity, Pool};
///
/// let pool = Pool::builder().unlimited().build()?;
/// assert_eq!((pool.capacity(), pool.free()), (Capacity::Unlimited, None));
/// pool.tune(8)?; // A number is a capacity.
/// assert_eq!(pool.capacity().limit(), Some(8));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capacity {
    /// At most this many. Zero is refused where a capacity is set.
    Limited(usize),
    /// As many as there are tasks.
    Unlimited,
}

/// How many accepted tasks may wait beyond the capacity for a worker.
///
/// ```
/// use pool_core::{Pool, QueueDepth};
///
/// let bounded = Pool::builder().capacity(2).queue_depth(16).build()?;
/// let endless = Pool::builder().capacity(2).queue_depth(QueueDepth::Unlimited).build()?;
/// # drop((bounded, endless));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueDepth {
    /// At most this many. Zero, the default, means that a task is accepted only when a worker
    /// is free for it or may be started.
    Limited(usize),
    /// No limit: no submit ever waits or is refused, and memory is the only bound. A backlog's
    /// memory is given back when it is done and a worker goes to sleep, but for that of 5,000 tasks
    /// (64 bytes each, or an argument's size in a [`FuncPool`](crate::FuncPool)).
    Unlimited,
}

/// What stands for "unlimited" where limits are compared.
pub(crate) const UNLIMITED: usize = usize::MAX;

impl Capacity {
    /// As a number to compare with.
    pub(crate) fn bound(self) -> usize {
        match self {
            Self::Limited(most) => most,
            Self::Unlimited => UNLIMITED,
        }
    }

    pub(crate) fn from_bound(bound: usize) -> Self {
        if bound == UNLIMITED {
            Self::Unlimited
        } else {
            Self::Limited(bound)
        }
    }

    /// The number, or `None` if there is no limit.
    pub fn limit(self) -> Option<usize> {
        match self {
            Self::Limited(most) => Some(most),
            Self::Unlimited => None,
        }
    }

    /// What two pools have together: no limit if either has none. A sum too large for a number
    /// is none either.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::from_bound(self.bound().saturating_add(other.bound()))
    }
}

impl QueueDepth {
    pub(crate) fn bound(self) -> usize {
        match self {
            Self::Limited(most) => most,
            Self::Unlimited => UNLIMITED,
        }
    }

    pub(crate) fn from_bound(bound: usize) -> Self {
        if bound == UNLIMITED {
            Self::Unlimited
        } else {
            Self::Limited(bound)
        }
    }

    /// The number, or `None` if there is no limit.
    pub fn limit(self) -> Option<usize> {
        match self {
            Self::Limited(most) => Some(most),
            Self::Unlimited => None,
        }
    }
}

impl From<usize> for Capacity {
    fn from(most: usize) -> Self {
        Self::Limited(most)
    }
}

impl From<usize> for QueueDepth {
    fn from(most: usize) -> Self {
        Self::Limited(most)
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited(most) => most.fmt(f),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

/// Accepted and unfinished tasks there may be at once: one for each worker, and those that wait.
pub(crate) fn limit(capacity: usize, depth: usize) -> usize {
    // Either being unlimited is the largest number, so saturating keeps it.
    capacity.saturating_add(depth)
}
