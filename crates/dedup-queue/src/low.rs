//! Adds with low priority: the same methods, for the other lane.

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

/// Adds keys to a queue with low priority. Returned by [`KeyQueue::low_priority`].
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
#[must_use = "this value does nothing until a key is added"]
pub struct LowPriority<'q, K, S, C, L>(&'q KeyQueue<K, S, C, L>);

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// Returns a handle that adds keys with low priority: `queue.low_priority().add(key)`. For
    /// numerous keys that can wait, such as those of a periodic resync.
    ///
    /// A ready key of low priority is delivered after all other ready keys, but does not starve:
    /// while both lanes have keys, one delivery in eight is from the low lane. A normal add of a key
    /// moves it to the normal lane, behind the other ready keys, and a later add with low priority
    /// does not move it back. A retried key keeps the priority of the delivery that failed.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// for key in ["a", "b", "c"] {
    ///     queue.low_priority().add(key)?; // All keys, once an hour.
    /// }
    /// queue.add("x")?;
    /// queue.add("c")?; // Events of `x` and `c`.
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
    /// Like [`KeyQueue::add`], with low priority.
    ///
    /// # Errors
    /// [`ShutDown`], with the key.
    pub fn add(&self, key: K) -> Result<Added, ShutDown<K>> {
        self.0.core().add_low(key)
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Delays> LowPriority<'_, K, S, C, L> {
    /// Like [`KeyQueue::add_after`], with low priority.
    ///
    /// # Errors
    /// [`ShutDown`], with the key.
    pub fn add_after(&self, key: K, delay: Duration) -> Result<Added, ShutDown<K>> {
        self.0.core().add_after(key, delay, Lane::Low)
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Retries> LowPriority<'_, K, S, C, L> {
    /// Like [`KeyQueue::add_after_backoff`], with low priority. For a resync whose keys may be
    /// failing.
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
