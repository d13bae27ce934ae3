//! Limits of a pool: number of workers, and number of accepted tasks that may wait beyond it.

use std::fmt;

/// Maximum number of live workers.
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
    /// At most this many. Setting zero is an error.
    Limited(usize),
    /// As many workers as there are tasks.
    Unlimited,
}

/// Maximum number of accepted tasks that wait for a worker beyond the capacity.
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
    /// At most this many. Zero, the default, accepts a task only if a worker is free for it or may
    /// be started.
    Limited(usize),
    /// No limit: a submit neither waits nor is refused, and memory is the only bound. When the
    /// backlog is done and a worker goes to sleep, its memory is freed except for that of 5,000
    /// tasks (64 bytes each, or an argument's size in a [`FuncPool`](crate::FuncPool)).
    Unlimited,
}

/// Represents "unlimited" where limits are compared.
pub(crate) const UNLIMITED: usize = usize::MAX;

impl Capacity {
    /// The limit as a number for comparisons.
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

    /// The limit, or `None` if unlimited.
    pub fn limit(self) -> Option<usize> {
        match self {
            Self::Limited(most) => Some(most),
            Self::Unlimited => None,
        }
    }

    /// The capacity of two pools together. Unlimited if either is, or if the sum overflows.
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

    /// The limit, or `None` if unlimited.
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

/// Maximum number of accepted, unfinished tasks: one per worker, plus the queue depth.
pub(crate) fn limit(capacity: usize, depth: usize) -> usize {
    // `UNLIMITED` is the largest number, so a saturating sum preserves it.
    capacity.saturating_add(depth)
}
