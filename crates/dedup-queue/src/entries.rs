//! A list of the keys: which there are, and what becomes of each.
//!
//! Not for: figures, which [`stats`](KeyQueue::stats) has in one section.
//!
//! The records are read in pieces, each in a section of its own. A record keeps its number as long as
//! it is in use, so a walk along the numbers meets every key that is there from its beginning to its
//! end, once.

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

/// So many records are read in a section. A copy of a key costs about as much as a take.
const PIECE: usize = 64;

/// A key of a queue, as it was when it was read. See [`KeyQueue::entries`].
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
    /// Whether a worker has it.
    pub held: bool,
    /// Its delivery that is pending, beside the one that a worker has. If there is none and none has
    /// it, it is remembered for its failures.
    pub pending: Option<Pending>,
    /// Whether the pending delivery has low priority.
    pub low: bool,
    /// When the pending delivery is due, if it is delayed. `None` also if that is never.
    pub due: Option<Instant>,
    /// Since when a delivery has been pending. Known if the queue
    /// [notes times](crate::Builder::note_times).
    pub pending_since: Option<Instant>,
    /// Since when a worker has had it. Known if the queue notes times.
    pub held_since: Option<Instant>,
    /// How often it has failed in a row.
    pub failures: u32,
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// The keys, ready, held, delayed or remembered, each with its state; in no order.
    ///
    /// For a page that shows what a controller is at, or for finding a key that is stuck. The queue
    /// works on meanwhile: the lock is taken for some dozens of keys at a time, and free between two
    /// of them. So this is not a picture of one instant. A key that is there all the while is listed
    /// once, with a state that it had; one that comes or goes meanwhile may be listed or not, and one
    /// that goes and comes back may be listed twice.
    ///
    /// Keys are cloned under the lock, so [`Clone`] must not call the queue; it is the only call of
    /// which that is so. A panic there comes out of `next`, and the walk can go on.
    ///
    /// ```
    /// use dedup_queue::{DedupRetryQueue, Pending};
    ///
    /// let queue = DedupRetryQueue::<&str>::new();
    /// queue.add("a")?;
    /// queue.get()?.retry(); // It failed.
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

/// See [`KeyQueue::entries`].
#[must_use = "an iterator does nothing unless it is walked"]
pub struct Entries<'q, K: Key, S: Hasher, C: Clock> {
    core: &'q Core<K, S, C>,
    /// The record that the next piece begins with, if there may be more.
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
            let mut piece = Vec::with_capacity(PIECE); // Not under the lock.
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
