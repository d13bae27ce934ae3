//! Results of a queue's operations.

use std::time::Instant;

use crate::EntryId;

/// An entry that was due when it was taken.
///
/// ```
/// use std::time::Duration;
/// use delay_queue::{DelayQueue, Expired};
///
/// let queue = DelayQueue::new();
/// queue.push("tea", Duration::from_millis(1))?;
/// let Expired { value, due, .. } = queue.take()?;
/// println!("{value}, {:?} late", due.elapsed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    /// The pushed value.
    pub value: T,
    /// The id that the push returned. It is no longer valid.
    pub id: EntryId,
    /// The due time.
    pub due: Instant,
}

/// An entry that was still in a queue when [`close_now`](crate::DelayQueue::close_now) closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leftover<T> {
    /// The pushed value.
    pub value: T,
    /// The id that the push returned. It is no longer valid.
    pub id: EntryId,
    /// The due time; `None` for never.
    pub due: Option<Instant>,
}

/// A time that may be never.
///
/// ```
/// use std::time::Duration;
/// use delay_queue::{DelayQueue, Due};
///
/// let queue = DelayQueue::new();
/// let id = queue.push("whenever", Duration::MAX)?;
/// assert_eq!(queue.due(id), Some(Due::Never));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At this time of the queue's clock, which may be in the past.
    At(Instant),
    /// Later than an `Instant` can express.
    Never,
}

impl Due {
    /// Returns the time; `None` for never.
    pub fn instant(self) -> Option<Instant> {
        match self {
            Self::At(instant) => Some(instant),
            Self::Never => None,
        }
    }
}

/// The next entry of a queue, returned by [`peek`](crate::DelayQueue::peek).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// The id that the push returned.
    pub id: EntryId,
    /// The due time, which may be in the past.
    pub due: Due,
}

/// Snapshot of a queue's statistics. [`stats`](crate::DelayQueue::stats) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Entries in the queue, including due ones.
    pub len: usize,
    /// Threads and futures that wait for an entry and have not been notified.
    #[doc(alias = "waiters")]
    pub waiting_takers: usize,
    /// Threads and futures that wait for room.
    pub waiting_pushers: usize,
    /// Total number of pushed entries.
    pub pushed: u64,
    /// Total number of entries taken when due.
    pub taken: u64,
    /// Total number of entries removed by [`cancel`](crate::DelayQueue::cancel).
    pub cancelled: u64,
    /// Total number of notifications because an entry was due: at most one for each time that an
    /// entry was given, and one more for each notified future that left without taking an entry.
    pub wakes: u64,
    /// Total number of notifications of a waiting thread to lead (keep the time), because an
    /// earlier entry was pushed or because the leader left.
    pub rearms: u64,
}
