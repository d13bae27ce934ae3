//! Why a call was refused, and why a wait ended with nothing.

use std::sync::Arc;
use std::{error, fmt, io};

/// The queue is shut down: the key was not added. It comes back.
///
/// Without a type, `ShutDown` is the bare reason, which `?` turns into any boxed error, whatever the
/// key is: `queue.add(key).map_err(ShutDown::without_key)?`.
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
    /// The key.
    pub fn into_key(self) -> K {
        self.0
    }

    /// The reason alone. Drops the key, here.
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

/// No key was taken.
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
    /// The queue is shut down, and nothing will be delivered any more. It stays so.
    Closed,
    /// The time was up before a key was ready.
    TimedOut,
    /// No key is ready, and the call may not wait.
    Empty,
    /// Only futures wait, and nothing wakes them in time: the alarm could not be set.
    NoAlarm(Arc<io::Error>),
    /// The call would wait, and this process was forked after the queue was made.
    Forked,
}

impl GetError {
    /// Whether nothing will be delivered any more.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the queue is shut down and has nothing left to deliver"),
            Self::TimedOut => f.write_str("no key was ready until the time was up"),
            Self::Empty => f.write_str("no key is ready"),
            Self::Forked => {
                f.write_str("the queue belongs to the parent process (this one was forked)")
            }
            Self::NoAlarm(error) => write!(f, "no alarm could be set: {error}"),
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
