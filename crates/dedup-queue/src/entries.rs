//! A list of the keys with their states.
//!
//! Not for statistics, which [`stats`](KeyQueue::stats) reads in one section.
//!
//! The records are read in pieces, each in a section of its own. A record keeps its number while it
//! is in use, so a walk along the numbers visits every key that exists from its beginning to its
//! end exactly once.

use std::fmt;
use std::time::Instant;
use std::vec;

use sync_shim::Clock;

use crate::core::{Core, Hasher, Key};
use crate::keys::Listed;
use crate::layer::Layer;
use crate::policy::Pending;
use crate::queue::KeyQueue;
use crate::records::Slot;

/// Number of records that are read in one section. Copying a key costs about as much as a take.
const PIECE: usize = 64;

/// A key of a queue, with its state when it was read. Returned by [`KeyQueue::entries`].
///
/// ```
/// use dedup_queue::DedupQueue;
///
/// let queue = DedupQueue::<&str>::new();
/// queue.add("a")?;
/// let held = queue.get()?;
/// assert!(queue.entries().all(|entry| entry.key == "a" && entry.held));
/// # drop(held);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry<K> {
    /// The key.
    pub key: K,
    /// Whether a worker holds it.
    pub held: bool,
    /// Its pending delivery, in addition to the one that a worker holds. If there is none and no
    /// worker holds the key, it is remembered for its failures.
    pub pending: Option<Pending>,
    /// Whether the pending delivery has low priority.
    pub low: bool,
    /// The due time of the pending delivery, if it is delayed. `None` also for never.
    pub due: Option<Instant>,
    /// When the delivery became pending. Known if the queue [records
    /// times](crate::Builder::note_times).
    pub pending_since: Option<Instant>,
    /// When the worker took it. Known if the queue records times.
    pub held_since: Option<Instant>,
    /// Number of failures in a row.
    pub failures: u32,
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// Iterates over the keys, ready, held, delayed or remembered, each with its state, in
    /// arbitrary order.
    ///
    /// For a page that shows the state of a controller, or to find a key that is stuck. The queue
    /// continues to work: the lock is taken for some dozens of keys at a time. So the list is not a
    /// snapshot of one instant. A key that exists the whole time is listed once, with a state that
    /// it had. A key that is added or removed in the meantime may be listed or not, and a key that
    /// is removed and added again may be listed twice.
    ///
    /// Keys are cloned under the lock, so [`Clone`] must not call the queue; this is the only
    /// method with that restriction. A panic of `Clone` propagates from `next`, and the iteration
    /// can continue.
    ///
    /// ```
    /// use dedup_queue::{DedupRetryQueue, Pending};
    ///
    /// let queue = DedupRetryQueue::<&str>::new();
    /// queue.add("a")?;
    /// queue.get()?.retry(); // The attempt failed.
    /// for entry in queue.entries() {
    ///     println!("{} has failed {} times, and is next due at {:?}", entry.key, entry.failures, entry.due);
    ///     assert_eq!(entry.pending, Some(Pending::Delayed));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entries(&self) -> Entries<'_, K, S, C> {
        Entries {
            core: self.core(),
            next: Some(0),
            piece: Vec::new().into_iter(),
        }
    }
}

/// Iterator of [`KeyQueue::entries`].
#[must_use = "iterators are lazy"]
pub struct Entries<'q, K: Key, S: Hasher, C: Clock> {
    core: &'q Core<K, S, C>,
    /// The first record of the next piece, if there may be more.
    next: Option<Slot>,
    piece: vec::IntoIter<Listed<K>>,
}

impl<K: Key, S: Hasher, C: Clock> Iterator for Entries<'_, K, S, C> {
    type Item = Entry<K>;

    fn next(&mut self) -> Option<Entry<K>> {
        loop {
            if let Some(listed) = self.piece.next() {
                return Some(self.entry(listed));
            }
            let from = self.next?;
            let mut piece = Vec::with_capacity(PIECE); // Allocated without the lock.
            self.next = self.core.update(|state| {
                self.core.tick(state);
                state.keys.list(from, PIECE, &mut piece)
            });
            self.piece = piece.into_iter();
        }
    }
}

impl<K: Key, S: Hasher, C: Clock> Entries<'_, K, S, C> {
    fn entry(&self, listed: Listed<K>) -> Entry<K> {
        let at = |nanos: Option<u64>| nanos.and_then(|nanos| self.core.epoch.instant(nanos));
        Entry {
            key: listed.key,
            held: listed.held,
            pending: listed.pending,
            low: listed.low,
            due: at(listed.due),
            pending_since: at(listed.pending_since),
            held_since: at(listed.held_since),
            failures: listed.failures,
        }
    }
}

impl<K: Key, S: Hasher, C: Clock> fmt::Debug for Entries<'_, K, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").finish_non_exhaustive()
    }
}
