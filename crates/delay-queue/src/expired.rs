//! What comes out of a queue.

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
    /// What was pushed.
    pub value: T,
    /// The id that the push gave. It finds nothing any more.
    pub id: EntryId,
    /// When it fell due.
    pub due: Instant,
}

/// An entry that was still in a queue when that was closed for good:
/// [`close_now`](crate::DelayQueue::close_now) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leftover<T> {
    /// What was pushed.
    pub value: T,
    /// The id that the push gave. It finds nothing any more.
    pub id: EntryId,
    /// When it would have fallen due; `None` for never.
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
    /// At this point of the queue's clock, which may have passed.
    At(Instant),
    /// Beyond what an `Instant` can express.
    Never,
}

impl Due {
    /// The point of time; `None` for never.
    pub fn instant(self) -> Option<Instant> {
        match self {
            Self::At(instant) => Some(instant),
            Self::Never => None,
        }
    }
}

/// The entry that leaves a queue next, as [`peek`](crate::DelayQueue::peek) saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// The id that the push gave.
    pub id: EntryId,
    /// When it falls due, which may have passed.
    pub due: Due,
}

/// Figures of a queue, all of one instant: [`stats`](crate::DelayQueue::stats) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Entries in the queue, due ones included.
    pub len: usize,
    /// Threads and futures that wait for something to take and have not been notified.
    #[doc(alias = "waiters")]
    pub waiting_takers: usize,
    /// Threads and futures that wait for room.
    pub waiting_pushers: usize,
    /// Entries that were ever accepted.
    pub pushed: u64,
    /// Entries that were taken when due.
    pub taken: u64,
    /// Entries that were cancelled one by one.
    pub cancelled: u64,
    /// How often a waiter was notified because something was due: at most once for each time that
    /// an entry was given, and once more for each future that was notified and left without taking
    /// anything.
    pub wakes: u64,
    /// How often a waiting thread was notified to lead, that is, to keep the time: because an earlier
    /// entry came, or because the leader left.
    pub rearms: u64,
}
