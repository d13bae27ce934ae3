//! The queue's handle: adding, inspecting, removing, shutting down. `builder.rs` creates it.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, RandomState};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delay_queue::wait::Driver;
use sync_shim::Clock;

use crate::core::{Core, DefaultClock, Hasher, Key};
use crate::error::ShutDown;
use crate::keys::Keys;
use crate::layer::{Delaying, Delays, Layer, Plain, Retries, Retrying};
use crate::policy::{Added, Pending, Retried};
use crate::records::Lane;

/// A work queue of keys: a key that is added many times is delivered once, and is held by one worker
/// at a time.
///
/// Any number of threads and futures can add and take. Handles are cheap to clone and refer to the
/// same queue. Dropping the handles does not shut the queue down;
/// [`shut_down`](KeyQueue::shut_down) and [`drain`](KeyQueue::drain) do.
///
/// `S` is the hasher, `C` the clock, and `L` the layer, which determines the methods of the queue: use
/// the aliases [`DedupQueue`], [`DedupDelayQueue`] and [`DedupRetryQueue`]. A queue has room for
/// 2^32 - 1 keys.
///
/// Methods hold a lock for some dozens of instructions, and do not block unless they say so.
///
/// ```
/// use dedup_queue::{Delays, Key, KeyQueue, ShutDown};
/// use dedup_queue::{Clock, Hasher};
/// use std::time::Duration;
///
/// /// For any queue with delays.
/// fn soon<K: Key, S: Hasher, C: Clock, L: Delays>(queue: &KeyQueue<K, S, C, L>, key: K) -> Result<(), ShutDown<K>> {
///     queue.add_after(key, Duration::from_millis(10)).map(drop)
/// }
///
/// soon(&dedup_queue::DedupRetryQueue::<u32>::new(), 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "workqueue")]
#[doc(alias = "dedup")]
pub struct KeyQueue<K, S, C, L> {
    core: Arc<Core<K, S, C>>,
    layer: PhantomData<fn() -> L>,
}

// A panic of user code leaves the queue consistent: none runs under its lock, except the `Eq` of keys, before anything is changed.
impl<K, S, C, L> std::panic::UnwindSafe for KeyQueue<K, S, C, L> {}
impl<K, S, C, L> std::panic::RefUnwindSafe for KeyQueue<K, S, C, L> {}

/// A work queue of keys: a key that is added many times is delivered once, and is held by one worker
/// at a time.
///
/// ```
/// use dedup_queue::DedupQueue;
///
/// let queue = DedupQueue::<&str>::new();
/// queue.add("a")?;
/// queue.add("a")?;
/// queue.get()?.done();
/// assert!(queue.is_empty(), "it was delivered once");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "workqueue")]
pub type DedupQueue<K, S = RandomState, C = DefaultClock> = KeyQueue<K, S, C, Plain>;

/// A [`DedupQueue`] to which keys can be added with a delay.
///
/// ```
/// use dedup_queue::DedupDelayQueue;
/// use std::time::Duration;
///
/// let queue = DedupDelayQueue::<&str>::new();
/// queue.add_after("a", Duration::from_millis(10))?;
/// assert_eq!(*queue.get()?, "a", "ten milliseconds later");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "debounce")]
#[doc(alias = "throttle")]
#[doc(alias = "DelayingInterface")]
pub type DedupDelayQueue<K, S = RandomState, C = DefaultClock> = KeyQueue<K, S, C, Delaying>;

/// A [`DedupDelayQueue`] whose keys can fail and are retried after a back-off.
///
/// ```
/// use dedup_queue::DedupRetryQueue;
///
/// let queue = DedupRetryQueue::<&str>::new();
/// queue.add("a")?;
/// let key = queue.get()?;
/// match std::fs::metadata(*key) {
///     Ok(_) => key.succeed(),
///     Err(_) => _ = key.retry(), // With increasing delays.
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "retry")]
#[doc(alias = "backoff")]
#[doc(alias = "RateLimitingInterface")]
pub type DedupRetryQueue<K, S = RandomState, C = DefaultClock> = KeyQueue<K, S, C, Retrying>;

/// Number of keys in each state, at one instant.
///
/// ```
/// use dedup_queue::DedupQueue;
///
/// let queue = DedupQueue::<&str>::new();
/// queue.add("a")?;
/// queue.add("b")?;
/// let held = queue.get()?;
/// let stats = queue.stats();
/// assert_eq!((stats.ready, stats.held), (1, 1));
/// # drop(held);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Ready keys: a `get` would take one of them.
    pub ready: usize,
    /// Ready keys of [low priority](KeyQueue::low_priority).
    pub low: usize,
    /// Keys held by workers.
    pub held: usize,
    /// Held keys that were added again in the meantime.
    pub dirty: usize,
    /// Keys to be delivered later, including held ones. After a shut-down, these are leftovers.
    pub delayed: usize,
    /// Keys remembered only for their failures.
    pub resting: usize,
    /// Threads and futures that wait for a key.
    pub waiting: usize,
    /// Drains that are waiting.
    pub draining: usize,
    /// Total number of notifications because a key was ready.
    pub wakes: u64,
    /// Total number of notifications only to keep the time for an earlier key.
    pub rearms: u64,
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    pub(crate) fn from_core(core: Arc<Core<K, S, C>>) -> Self {
        Self {
            core,
            layer: PhantomData,
        }
    }

    pub(crate) fn core(&self) -> &Core<K, S, C> {
        &self.core
    }

    /// Adds a key, to be delivered now. Never blocks.
    ///
    /// If the key is already ready, nothing changes. If it is held, it is delivered once more when
    /// it is released. If it was delayed, it is delivered now, even if the delay is a back-off (see
    /// [`retry`](crate::Held::retry)).
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?;
    /// queue.add("a")?; // Merged into the first.
    /// assert_eq!(queue.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShutDown`], with the key.
    #[doc(alias = "Add")]
    #[doc(alias = "push")]
    #[doc(alias = "enqueue")]
    #[inline]
    pub fn add(&self, key: K) -> Result<Added, ShutDown<K>> {
        self.core.add(key)
    }

    /// Cancels the pending delivery of a key. Returns `None` if there is none.
    ///
    /// A worker that holds the key continues; the further delivery of a dirty key is cancelled.
    /// Failures are remembered.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?;
    /// assert_eq!(queue.remove(&"a"), Some(dedup_queue::Pending::Ready));
    /// assert_eq!(queue.remove(&"a"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Pending>
    where
        K: Borrow<Q>,
    {
        // USER CODE: the key's `Hash`, and under the lock its `Eq`, which must not use the queue.
        let hash = self.core.hasher.hash_one(key);
        let is = |other: &K| other.borrow() == key;
        self.core
            .on_found(hash, is, |keys, found| keys.withdraw(found, false))
    }

    /// Returns the number of ready keys, without held and delayed ones.
    #[doc(alias = "Len")]
    pub fn len(&self) -> usize {
        self.stats().ready
    }

    /// Returns whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a snapshot of the statistics. O(1).
    pub fn stats(&self) -> Stats {
        self.core.update(|state| {
            self.core.tick(state);
            let keys = state.keys.figures();
            let wakes = state.waiters.counts();
            Stats {
                ready: keys.ready,
                low: keys.low,
                held: keys.held,
                dirty: keys.dirty,
                delayed: keys.delayed,
                resting: keys.resting,
                waiting: state.waiters.waiting(),
                draining: state.drain_waiters.len(),
                wakes: wakes.wakes,
                rearms: wakes.rearms,
            }
        })
    }

    /// Reports to the metrics how long the held keys have been held. Call it before metrics are
    /// collected, because the queue has no thread that could. O(held keys).
    pub fn report_unfinished(&self) {
        let (sum, longest) = self.core.update(|state| {
            self.core.tick(state);
            state.keys.unfinished()
        });
        self.core.with_metrics(|metrics, name| {
            // USER CODE: `Metrics`, without the lock.
            metrics.unfinished_work_seconds(name, Duration::from_nanos(sum));
            let longest = Duration::from_nanos(longest);
            metrics.longest_running_processor_seconds(name, longest);
        });
    }

    /// Rejects adds from now on, and ends every drain. Never blocks. Returns `false` if adds were
    /// already rejected.
    ///
    /// Ready and dirty keys are still delivered. Delayed keys and later retries become leftovers,
    /// which a drain returns; with a deadline in the past it returns them at once. When no more
    /// keys will be delivered, `get` returns [`Closed`](crate::GetError::Closed), for good.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?;
    /// queue.shut_down();
    /// assert!(queue.add("b").is_err());
    /// assert_eq!(*queue.get()?, "a", "a ready key is still delivered");
    /// assert!(queue.get().is_err_and(|error| error.is_closed()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "close")]
    pub fn shut_down(&self) -> bool {
        self.core.shut_down()
    }

    /// Returns whether adds are rejected.
    #[doc(alias = "ShuttingDown")]
    pub fn is_shut_down(&self) -> bool {
        self.core.update(|state| !state.is_open())
    }

    /// Frees unused memory. Blocks other operations for O(records).
    ///
    /// Rarely useful: when fewer than a sixteenth of the records are in use, unused memory is freed
    /// automatically, except for a thousand records.
    pub fn shrink_to_fit(&self) {
        self.core.update(|state| state.keys.shrink());
    }

    /// Returns the number of keys for which memory is allocated.
    pub fn capacity(&self) -> usize {
        self.core.update(|state| state.keys.capacity())
    }

    /// Returns the clock.
    pub fn clock(&self) -> &C {
        &self.core.clock
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.core.config.name
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Delays> KeyQueue<K, S, C, L> {
    /// Adds a key, to be delivered `delay` from now. Never blocks.
    ///
    /// If a delivery is pending now, nothing changes: that delivery serves this call too, and there
    /// is none later. If the key is already delayed, the queue's [`Policy`](crate::Policy) decides.
    /// A key that falls due while it is held is delivered once more when it is released. A key due
    /// more than 438 years after the queue was created is never delivered.
    ///
    /// ```
    /// use dedup_queue::{DedupDelayQueue, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let queue = DedupDelayQueue::<&str>::builder().clock(clock.clone()).build();
    /// queue.add_after("a", Duration::from_secs(60))?;
    /// assert!(queue.try_get().is_err());
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(*queue.try_get()?, "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShutDown`], with the key.
    #[doc(alias = "AddAfter")]
    #[doc(alias = "schedule")]
    pub fn add_after(&self, key: K, delay: Duration) -> Result<Added, ShutDown<K>> {
        self.core.add_after(key, delay, Lane::Normal)
    }

    /// Like [`add_after`](KeyQueue::add_after), to a point in time. A time in the past means now.
    ///
    /// # Errors
    /// [`ShutDown`], with the key.
    pub fn add_at(&self, key: K, due: Instant) -> Result<Added, ShutDown<K>> {
        self.core.add_later(
            key,
            self.core.epoch.nanos(due),
            self.core.now(),
            Lane::Normal,
        )
    }

    /// Cancels a delayed delivery; a delivery that is pending now stays. Returns whether there was
    /// a delayed delivery.
    pub fn remove_delayed<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        // USER CODE: as in `remove`.
        let hash = self.core.hasher.hash_one(key);
        let is = |other: &K| other.borrow() == key;
        let pending = self
            .core
            .on_found(hash, is, |keys, found| keys.withdraw(found, true));
        pending.is_some()
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Retries> KeyQueue<K, S, C, L> {
    /// Counts a failure of the key, and delivers it after the limiter's delay. For keys that are
    /// not held; the holder of a key calls [`retry`](crate::Held::retry). Never blocks, unless the
    /// limiter does.
    ///
    /// If the key is ready, or waits for the end of its back-off, the call costs nothing: it counts
    /// no failure and does not call the limiter, because the next attempt serves both. So many calls
    /// for one key neither lengthen its back-off nor use up a [`TokenBucket`](crate::TokenBucket)
    /// that it shares with other keys. client-go's `AddRateLimited` charges each call.
    ///
    /// ```
    /// use dedup_queue::DedupRetryQueue;
    ///
    /// let queue = DedupRetryQueue::<&str>::new();
    /// for _ in 0..100 {
    ///     queue.add_rate_limited("a")?; // A look-up of the key has failed.
    /// }
    /// assert_eq!(queue.failures(&"a"), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShutDown`], with the key; no failure was counted.
    #[doc(alias = "AddRateLimited")]
    pub fn add_rate_limited(&self, key: K) -> Result<Retried, ShutDown<K>> {
        self.core.add_failed(key)
    }

    /// Adds a key, to be delivered when its back-off is over, or now if it has none. Never blocks.
    ///
    /// A plain [`add`](KeyQueue::add) of a key in back-off causes an attempt at once, because an
    /// event may have removed the cause of the failure. Resyncs usually have not, and each would
    /// cause a futile attempt; with this method they wait for the next retry. A delivery that is
    /// pending for an earlier time stays. A call of `add`, before this call or after it, still
    /// delivers the key now.
    ///
    /// While the key is held, its next delivery depends on how this one ends: after
    /// [`succeed`](crate::Held::succeed) it comes at once, after [`retry`](crate::Held::retry) at
    /// the end of the back-off. Reads the clock once.
    ///
    /// ```
    /// use dedup_queue::{DedupRetryQueue, Exponential, ManualClock};
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let clock = ManualClock::new();
    /// let queue = DedupRetryQueue::<&str>::builder()
    ///     .clock(clock.clone())
    ///     .limiter(Exponential::new(second, 60 * second))
    ///     .build();
    ///
    /// queue.add("a")?;
    /// queue.get()?.retry(); // The first attempt failed.
    /// queue.add_after_backoff("a")?;
    /// assert!(queue.try_get().is_err());
    ///
    /// clock.advance(second);
    /// queue.get()?.succeed(); // One attempt serves both.
    /// queue.add_after_backoff("a")?;
    /// assert_eq!(*queue.try_get()?, "a", "the key is no longer in back-off");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShutDown`], with the key.
    pub fn add_after_backoff(&self, key: K) -> Result<Added, ShutDown<K>> {
        self.core.add_yielding(key, self.core.now(), Lane::Normal)
    }

    /// Returns the number of failures of the key in a row.
    #[doc(alias = "NumRequeues")]
    pub fn failures<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> u32
    where
        K: Borrow<Q>,
    {
        let hash = self.core.hasher.hash_one(key);
        let is = |other: &K| other.borrow() == key;
        self.core
            .on_found(hash, is, |keys, found| keys.failures(found))
    }

    /// Forgets the key's failures. A pending delivery stays pending.
    ///
    /// ```
    /// use dedup_queue::DedupRetryQueue;
    ///
    /// let queue = DedupRetryQueue::<&str>::new();
    /// queue.add_rate_limited("a")?;
    /// queue.forget(&"a");
    /// assert_eq!(queue.failures(&"a"), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "Forget")]
    pub fn forget<Q: Hash + Eq + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let hash = self.core.hasher.hash_one(key);
        let is = |other: &K| other.borrow() == key;
        self.core.on_found(hash, is, Keys::forget_found);
    }
}

impl<K, S, C, L> Clone for KeyQueue<K, S, C, L> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            layer: PhantomData,
        }
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> fmt::Debug for KeyQueue<K, S, C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        f.debug_struct("KeyQueue")
            .field("name", &self.name())
            .field("ready", &stats.ready)
            .field("held", &stats.held)
            .field("delayed", &stats.delayed)
            .field("is_shut_down", &self.is_shut_down())
            .finish_non_exhaustive()
    }
}
