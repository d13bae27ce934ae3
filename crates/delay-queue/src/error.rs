//! Why a call was refused. A refused value comes back in the error.

use std::sync::Arc;
use std::{error, fmt, io};

pub(crate) const STAYED: &str = "the queue belongs to the parent process (this one was forked)";

/// The value was not taken. It comes back.
///
/// Without a type, `PushError` is the bare reason. It is `Send`, `Sync` and `'static` whatever the
/// value is, so `?` turns it into any boxed error:
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
    /// As many entries are in the queue as its bound allows, and the call may not wait.
    Full(T),
    /// The queue is closed.
    Closed(T),
    /// The time was up before there was room.
    TimedOut(T),
    /// The queue is full, and this process was forked after it was made: the threads that would make room
    /// stayed behind.
    Forked(T),
}

impl<T> PushError<T> {
    /// The value.
    pub fn into_value(self) -> T {
        self.into_parts().1
    }

    /// The reason alone. Drops the value, here.
    pub fn without_value(self) -> PushError {
        self.into_parts().0
    }

    /// The reason, and the value.
    pub fn into_parts(self) -> (PushError, T) {
        match self {
            Self::Full(value) => (PushError::Full(()), value),
            Self::Closed(value) => (PushError::Closed(()), value),
            Self::TimedOut(value) => (PushError::TimedOut(()), value),
            Self::Forked(value) => (PushError::Forked(()), value),
        }
    }

    /// Whether a later try may succeed.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_) | Self::TimedOut(_))
    }

    /// Whether the queue is closed.
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
            Self::TimedOut(_) => "the queue stayed full until the time was up",
            Self::Forked(_) => STAYED,
        })
    }
}

impl<T> error::Error for PushError<T> {}

/// Nothing was taken.
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
    /// The queue is closed, and holds nothing that can fall due.
    Closed,
    /// The time was up before anything fell due.
    TimedOut,
    /// The queue is empty, and the call may not wait.
    Empty,
    /// Nothing is due yet, and the call may not wait.
    NotDue,
    /// Only futures wait, and nothing wakes them in time: the alarm could not be set.
    NoAlarm(Arc<io::Error>),
    /// The call would wait, and this process was forked after the queue was made.
    Forked,
}

impl TakeError {
    /// Whether nothing will come any more.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the queue is closed"),
            Self::TimedOut => f.write_str("nothing fell due until the time was up"),
            Self::Empty => f.write_str("the queue is empty"),
            Self::NotDue => f.write_str("nothing is due yet"),
            Self::NoAlarm(error) => write!(f, "no alarm could be set: {error}"),
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

/// The queue cannot be built this way.
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
    /// A queue that holds nothing would refuse everything.
    ZeroBound,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroBound => f.write_str("a queue's bound is at least one"),
        }
    }
}

impl error::Error for BuildError {}
