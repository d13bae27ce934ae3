//! Error types. A [`PushError`] contains the rejected value.

use std::sync::Arc;
use std::{error, fmt, io};

pub(crate) const STAYED: &str = "the queue belongs to the parent process (this one was forked)";

/// Error of a push. Contains the rejected value.
///
/// `PushError` without a type parameter contains only the reason. It is always `Send`, `Sync` and
/// `'static`, so `?` converts it into any boxed error:
///
/// ```
/// use delay_queue::{DelayQueue, PushError};
/// use std::error::Error;
/// use std::time::Duration;
///
/// fn later(queue: &DelayQueue<Box<dyn FnOnce() + Send>>) -> Result<(), Box<dyn Error + Send + Sync>> {
///     let work = Box::new(|| println!("later"));
///     queue.push(work, Duration::ZERO).map_err(PushError::without_value)?;
///     Ok(())
/// }
/// # later(&DelayQueue::new())?;
/// # Ok::<(), Box<dyn Error + Send + Sync>>(())
/// ```
#[non_exhaustive]
#[derive(PartialEq, Eq)]
pub enum PushError<T = ()> {
    /// The queue has as many entries as its bound allows, and the call must not wait.
    Full(T),
    /// The queue is closed.
    Closed(T),
    /// The queue was full until the deadline.
    TimedOut(T),
    /// The queue is full, and belongs to the parent of this forked process, which does not have the
    /// threads that would make room.
    Forked(T),
}

impl<T> PushError<T> {
    /// Returns the rejected value.
    pub fn into_value(self) -> T {
        self.into_parts().1
    }

    /// Returns the reason, and drops the value.
    pub fn without_value(self) -> PushError {
        self.into_parts().0
    }

    /// Returns the reason and the rejected value.
    pub fn into_parts(self) -> (PushError, T) {
        match self {
            Self::Full(value) => (PushError::Full(()), value),
            Self::Closed(value) => (PushError::Closed(()), value),
            Self::TimedOut(value) => (PushError::TimedOut(()), value),
            Self::Forked(value) => (PushError::Forked(()), value),
        }
    }

    /// Returns whether a later attempt may succeed.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_) | Self::TimedOut(_))
    }

    /// Returns whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
            Self::TimedOut(_) => "TimedOut(..)",
            Self::Forked(_) => "Forked(..)",
        })
    }
}

impl<T> fmt::Display for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the queue is full",
            Self::Closed(_) => "the queue is closed",
            Self::TimedOut(_) => "timed out waiting for room in the queue",
            Self::Forked(_) => STAYED,
        })
    }
}

impl<T> error::Error for PushError<T> {}

/// Error of a take: no entry was taken.
///
/// ```
/// use std::time::Duration;
/// use delay_queue::{DelayQueue, TakeError};
///
/// let queue = DelayQueue::<u32>::new();
/// match queue.take_timeout(Duration::ZERO) {
///     Ok(expired) => println!("{}", expired.value),
///     Err(TakeError::TimedOut) => println!("nothing yet"),
///     Err(error) => println!("{error}"),
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TakeError {
    /// The queue is closed, and no entry in it can fall due.
    Closed,
    /// No entry fell due before the deadline.
    TimedOut,
    /// The queue is empty, and the call must not wait.
    Empty,
    /// No entry is due, and the call must not wait.
    NotDue,
    /// Only futures wait, and the queue's clock could set no alarm that would wake them; for example, because
    /// its runtime has ended. Not an error of the default clock: if the operating system refuses its thread,
    /// the polls of the futures keep the time.
    NoAlarm(Arc<io::Error>),
    /// The call would wait, and the queue belongs to the parent of this forked process.
    Forked,
}

impl TakeError {
    /// Returns whether the queue is closed and delivers no more entries.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the queue is closed"),
            Self::TimedOut => f.write_str("timed out waiting for a due entry"),
            Self::Empty => f.write_str("the queue is empty"),
            Self::NotDue => f.write_str("no entry is due"),
            Self::NoAlarm(error) => write!(f, "the alarm could not be set: {error}"),
            Self::Forked => f.write_str(STAYED),
        }
    }
}

impl error::Error for TakeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NoAlarm(error) => Some(error),
            _ => None,
        }
    }
}

/// Error of [`Builder::build`](crate::Builder::build): the configuration is invalid.
///
/// ```
/// use delay_queue::{BuildError, DelayQueue};
///
/// let built = DelayQueue::<u32>::builder().bound(0).build();
/// assert_eq!(built.unwrap_err(), BuildError::ZeroBound);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A queue with bound zero would reject every push.
    ZeroBound,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroBound => f.write_str("a queue's bound must be at least one"),
        }
    }
}

impl error::Error for BuildError {}
