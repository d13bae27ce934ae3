//! Options and results of calls.

use std::time::Duration;

/// How `add_after` treats a key that is already delayed. A setting of the queue.
///
/// Concerns only `add_after`: `add` always means now, and a retry never postpones an earlier
/// delivery.
///
/// ```
/// use dedup_queue::{DedupDelayQueue, Policy};
/// use std::time::Duration;
///
/// let queue = DedupDelayQueue::<&str>::builder().policy(Policy::Debounce).build();
/// queue.add_after("a", Duration::from_secs(1))?;
/// queue.add_after("a", Duration::from_secs(5))?; // Not before five seconds from now.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "debounce")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// The earlier time: a promised delivery is not postponed. As in client-go.
    #[default]
    Earliest,
    /// The later time.
    Latest,
    /// The time of the newer call, earlier or later: the key is delivered after a quiet period. A
    /// key that is added again and again is postponed for ever.
    Debounce,
    /// Like `Debounce`, but at most this long after the first of the calls.
    DebounceMaxWait(Duration),
}

/// Result of an accepted add.
///
/// ```
/// use dedup_queue::{Added, DedupQueue};
///
/// let queue = DedupQueue::<&str>::new();
/// assert_eq!(queue.add("a")?, Added::New);
/// assert_eq!(queue.add("a")?, Added::Merged);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Added {
    /// No delivery of the key was pending; now one is.
    New,
    /// The key was delayed and now has another time, or is delivered at once. Or it was ready with
    /// low priority, and has moved up.
    Moved,
    /// A delivery was already pending, and is unchanged: this add was merged into an earlier one.
    Merged,
}

/// Result of a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retried {
    /// The key is delivered again after this delay, or earlier if it was delayed to an earlier time
    /// in the meantime.
    After(Duration),
    /// The key is ready at once: it was added while it was held, or there is no delay.
    Ready,
    /// The queue is shut down: the key is a leftover, which a drain returns.
    Left,
    /// The key has used all its attempts: it was forgotten, and the dead-letter hook was called. It
    /// is delivered again only if an add has requested that.
    GivenUp,
}

/// Kind of a pending delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pending {
    /// The key was ready.
    Ready,
    /// The key was held, and would have been delivered once more.
    Dirty,
    /// The key was delayed.
    Delayed,
}

/// Reason for the end of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// No key was ready or held any more.
    Finished,
    /// The deadline of a drain passed first. No key is delivered from then on.
    TimedOut,
    /// `shut_down` was called in the meantime. Ready keys are still delivered.
    ShutDown,
    /// A key was ready or held, and the queue belongs to the parent of this forked process, which
    /// does not have its workers. No key is delivered from then on.
    Forked,
}
