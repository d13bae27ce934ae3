//! Adds of low priority: the same calls, to the other lane.

use std::fmt;
use std::time::Duration;

use delay_queue::wait::Driver;
use sync_shim::Clock;

use crate::core::{Hasher, Key};
use crate::error::ShutDown;
use crate::layer::{Delays, Layer, Retries};
use crate::policy::Added;
use crate::queue::KeyQueue;
use crate::records::Lane;

/// Adds to a queue with low priority. See [`KeyQueue::low_priority`].
///
/// ```
/// use dedup_queue::DedupQueue;
///
/// let queue = DedupQueue::<&str>::new();
/// let resync = queue.low_priority();
/// resync.add("a")?;
/// resync.add("b")?;
/// assert_eq!(queue.stats().low, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it only adds"]
pub struct LowPriority<'q, K, S, C, L>(&'q KeyQueue<K, S, C, L>);

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// Adds with low priority: `queue.low_priority().add(key)`. For what is many and can wait, beside
    /// what is not: a resync of everything beside events.
    ///
    /// A key that is ready with low priority is delivered after all others that are ready, but does not
    /// starve: while there are both, one delivery in eight is of low priority, the one that has been
    /// ready longest. A delivery has low priority as long as all who have asked for it say so: an add
    /// without it moves the key up, behind those that are ready, and what is added with it again stays
    /// where it is. A key that is tried again keeps the priority of the delivery that failed.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// for key in ["a", "b", "c"] {
    ///     queue.low_priority().add(key)?; // All there are, once an hour.
    /// }
    /// queue.add("x")?;
    /// queue.add("c")?; // Something happened to these two.
    ///
    /// let order: Vec<&str> = std::iter::from_fn(|| Some(*queue.try_get().ok()?)).collect();
    /// assert_eq!(order, ["x", "c", "a", "b"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "priority")]
    pub fn low_priority(&self) -> LowPriority<'_, K, S, C, L> {
        LowPriority(self)
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> LowPriority<'_, K, S, C, L> {
    /// As [`KeyQueue::add`].
    ///
    /// # Errors
    /// [`ShutDown`], with the key.
    pub fn add(&self, key: K) -> Result<Added, ShutDown<K>> {
        self.0.core().add_low(key)
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Delays> LowPriority<'_, K, S, C, L> {
    /// As [`KeyQueue::add_after`].
    ///
    /// # Errors
    /// [`ShutDown`], with the key.
    pub fn add_after(&self, key: K, delay: Duration) -> Result<Added, ShutDown<K>> {
        self.0.core().add_after(key, delay, Lane::Low)
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Retries> LowPriority<'_, K, S, C, L> {
    /// As [`KeyQueue::add_after_backoff`]: what a resync asks for, of keys that fail too.
    ///
    /// # Errors
    /// [`ShutDown`], with the key.
    pub fn add_after_backoff(&self, key: K) -> Result<Added, ShutDown<K>> {
        let core = self.0.core();
        core.add_yielding(key, core.now(), Lane::Low)
    }
}

impl<K, S, C, L> fmt::Debug for LowPriority<'_, K, S, C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LowPriority(..)")
    }
}
