//! Error types.

use std::sync::Arc;
use std::{error, fmt, io};

/// Error of an add: the queue is shut down. Contains the rejected key.
///
/// `ShutDown` without a type parameter contains no key, so `?` converts it into any boxed error:
/// `queue.add(key).map_err(ShutDown::without_key)?`.
///
/// ```
/// use dedup_queue::DedupQueue;
///
/// let queue = DedupQueue::<&str>::new();
/// queue.shut_down();
/// let refused = queue.add("a").unwrap_err();
/// assert_eq!(refused.into_key(), "a");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShutDown<K = ()>(pub K);

impl<K> ShutDown<K> {
    /// Returns the rejected key.
    pub fn into_key(self) -> K {
        self.0
    }

    /// Returns the reason, and drops the key.
    pub fn without_key(self) -> ShutDown {
        ShutDown(())
    }
}

impl<K> fmt::Debug for ShutDown<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShutDown(..)")
    }
}

impl<K> fmt::Display for ShutDown<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is shut down")
    }
}

impl<K> error::Error for ShutDown<K> {}

/// Error of a get: no key was taken.
///
/// ```
/// use dedup_queue::{DedupQueue, GetError};
///
/// let queue = DedupQueue::<&str>::new();
/// assert!(matches!(queue.try_get(), Err(GetError::Empty)));
/// queue.shut_down();
/// assert!(matches!(queue.get(), Err(GetError::Closed)));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum GetError {
    /// The queue is shut down, and no more keys will be delivered. Final.
    Closed,
    /// No key was ready before the deadline.
    TimedOut,
    /// No key is ready, and the call must not wait.
    Empty,
    /// Only futures wait, and the queue's clock could set no alarm that would wake them; for example, because
    /// its runtime has ended. Not an error of the default clock: if the operating system refuses its thread,
    /// the polls of the futures keep the time.
    NoAlarm(Arc<io::Error>),
    /// The call would wait, and the queue belongs to the parent of this forked process.
    Forked,
}

impl GetError {
    /// Returns whether no more keys will be delivered.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the queue is shut down and has no more keys"),
            Self::TimedOut => f.write_str("timed out waiting for a key"),
            Self::Empty => f.write_str("no key is ready"),
            Self::Forked => {
                f.write_str("the queue belongs to the parent process (this one was forked)")
            }
            Self::NoAlarm(error) => write!(f, "the alarm could not be set: {error}"),
        }
    }
}

impl error::Error for GetError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NoAlarm(error) => Some(error),
            _ => None,
        }
    }
}
