//! What a call asks for, and what it did.

use std::time::Duration;

/// Which time counts when `add_after` meets a key that is delayed already. One per queue.
///
/// It is about `add_after` alone: `add` always means now, and a retry never puts a delivery off
/// that was to come earlier.
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
    /// The earlier of the two: a delivery that was promised is not put off. As client-go does.
    #[default]
    Earliest,
    /// The later of the two.
    Latest,
    /// The newer call's, earlier or later: quiet must last that long. A key that is added again and
    /// again is put off for ever.
    Debounce,
    /// As `Debounce`, but no later than this after the first of the calls.
    DebounceMaxWait(Duration),
}

/// What an accepted add did.
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
    /// The key was delayed, and has another time now, or none: it is delivered at once. Or it was ready
    /// with low priority, and has moved up.
    Moved,
    /// A delivery was pending, and stays as it is: this add collapsed into an earlier one.
    Merged,
}

/// What a `retry` came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retried {
    /// The key is tried again after this delay, or earlier if it was delayed to an earlier time
    /// meanwhile.
    After(Duration),
    /// It is ready at once: it was added while it was held, or there is no delay.
    Ready,
    /// The queue is shut down: the key is left over, for a drain to return.
    Left,
    /// It has been tried as often as it may be: it was forgotten, and the dead-letter hook called. It is
    /// delivered again only if it was added for something else than its failures.
    GivenUp,
}

/// What a delivery was that was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pending {
    /// The key was ready.
    Ready,
    /// It was held, and would have been delivered once more.
    Dirty,
    /// It was delayed.
    Delayed,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing was ready and nothing held any more.
    Finished,
    /// The deadline of a drain passed first. Nothing is delivered from then on.
    TimedOut,
    /// `shut_down` was called meanwhile. What was ready is still delivered.
    ShutDown,
    /// Something was ready or held, and this process was forked after the queue was made: the threads at
    /// it stayed behind. Nothing is delivered from then on.
    Forked,
}
