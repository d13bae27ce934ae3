//! Building a queue.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::time::Duration;

use delay_queue::NEVER;
use sync_shim::Clock;

use crate::core::{Config, Core, DeadLetter, DefaultClock, Hasher, Key, default_clock};
use crate::keys::{Settings, nanos};
use crate::layer::{Delays, Layer, Retries};
use crate::limiter::{Exponential, Jitter, Jittered, MaxOf, RateLimiter, TokenBucket};
use crate::metrics::Metrics;
use crate::policy::Policy;
use crate::queue::KeyQueue;

/// Default duration for which failures of a resting key are remembered.
pub const DEFAULT_FAILURE_EXPIRY: Duration = Duration::from_secs(3600);

/// Returns the limiter of client-go's controllers: the longer delay of [`Exponential`], from 5
/// milliseconds to 1000 seconds, and ten retries per second for all keys together, after a burst of
/// a hundred.
///
/// ```
/// use dedup_queue::{RateLimiter, controller_limiter};
/// use std::time::{Duration, Instant};
///
/// let limiter = controller_limiter();
/// assert_eq!(limiter.delay(&"a", 3, Instant::now()), Duration::from_millis(20));
/// ```
#[doc(alias = "DefaultControllerRateLimiter")]
pub fn controller_limiter() -> MaxOf<Exponential, TokenBucket> {
    const TEN: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");
    const HUNDRED: NonZeroU32 = NonZeroU32::new(100).expect("a hundred is not zero");
    MaxOf(
        Exponential::new(Duration::from_millis(5), Duration::from_secs(1000)),
        TokenBucket::per_second(TEN, HUNDRED),
    )
}

/// Configures a queue. Created by the `builder` method of each kind of queue, which decides which
/// settings are available.
///
/// | setting | default | queues |
/// |---|---|---|
/// | `hasher` | std's | all |
/// | `clock` | the monotonic clock | all |
/// | `name` | empty | all |
/// | `metrics` | none | all |
/// | `note_times` | if there are metrics | all |
/// | `policy` | [`Policy::Earliest`] | delaying, retrying |
/// | `limiter` | [`controller_limiter`] | retrying |
/// | `jitter` | none | retrying |
/// | `max_attempts` | no limit | retrying |
/// | `dead_letter` | none | retrying |
/// | `failure_expiry` | one hour | retrying |
///
/// ```
/// use dedup_queue::{DedupRetryQueue, Exponential, Jitter};
/// use std::time::Duration;
///
/// let queue = DedupRetryQueue::<&str>::builder()
///     .name("pods")
///     .limiter(Exponential::new(Duration::from_millis(5), Duration::from_secs(60)))
///     .jitter(Jitter::Percent(10))
///     .build();
/// assert_eq!(queue.name(), "pods");
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder<K, S, C, L> {
    hasher: S,
    clock: C,
    name: String,
    metrics: Option<Box<dyn Metrics>>,
    note_times: bool,
    policy: Policy,
    limiter: Option<Box<dyn RateLimiter<K>>>,
    jitter: Option<(Jitter, Option<u64>)>,
    max_attempts: Option<NonZeroU32>,
    dead_letter: Option<DeadLetter<K>>,
    failure_expiry: Option<Duration>,
    layer: PhantomData<fn() -> L>,
}

impl<K: Key, L: Layer> KeyQueue<K, RandomState, DefaultClock, L> {
    /// Creates a queue with the default settings.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder.
    pub fn builder() -> Builder<K, RandomState, DefaultClock, L> {
        Builder::new()
    }
}

impl<K: Key, L: Layer> Default for KeyQueue<K, RandomState, DefaultClock, L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, L: Layer> Builder<K, RandomState, DefaultClock, L> {
    fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            clock: default_clock(),
            name: String::new(),
            metrics: None,
            note_times: false,
            policy: Policy::default(),
            limiter: None,
            jitter: None,
            max_attempts: None,
            dead_letter: None,
            failure_expiry: Some(DEFAULT_FAILURE_EXPIRY),
            layer: PhantomData,
        }
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Builder<K, S, C, L> {
    /// Sets the hasher of the keys.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> Builder<K, T, C, L> {
        self.with(|_, clock| (hasher, clock))
    }

    /// Sets the clock for all delays and time-outs.
    pub fn clock<D: Clock>(self, clock: D) -> Builder<K, S, D, L> {
        self.with(|hasher, _| (hasher, clock))
    }

    fn with<T, D>(self, change: impl FnOnce(S, C) -> (T, D)) -> Builder<K, T, D, L> {
        let (hasher, clock) = change(self.hasher, self.clock);
        Builder {
            hasher,
            clock,
            name: self.name,
            metrics: self.metrics,
            note_times: self.note_times,
            policy: self.policy,
            limiter: self.limiter,
            jitter: self.jitter,
            max_attempts: self.max_attempts,
            dead_letter: self.dead_letter,
            failure_expiry: self.failure_expiry,
            layer: PhantomData,
        }
    }

    /// Sets the queue's name: a label for its metrics.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the receiver of metrics. With metrics every operation reads the clock.
    pub fn metrics(mut self, metrics: impl Metrics) -> Self {
        self.metrics = Some(Box::new(metrics));
        self
    }

    /// Sets whether to record when each delivery became pending and when each key was taken, for
    /// [`entries`](KeyQueue::entries). Every operation then reads the clock, as it does with
    /// metrics.
    pub fn note_times(mut self, note_times: bool) -> Self {
        self.note_times = note_times;
        self
    }

    /// Builds the queue. Starts no thread.
    pub fn build(self) -> KeyQueue<K, S, C, L> {
        let settings = Settings {
            policy: self.policy,
            expiry: self.failure_expiry.map_or(NEVER, nanos),
            metered: self.metrics.is_some() || self.note_times,
        };
        let limiter = self
            .limiter
            .unwrap_or_else(|| Box::new(controller_limiter()));
        let limiter: Box<dyn RateLimiter<K>> = match self.jitter {
            None => limiter,
            Some((jitter, None)) => Box::new(Jittered::new(limiter, jitter)),
            Some((jitter, Some(seed))) => Box::new(Jittered::with_seed(limiter, jitter, seed)),
        };
        let config = Config {
            name: self.name.into(),
            limiter,
            max_attempts: self.max_attempts,
            dead_letter: self.dead_letter,
            metrics: self.metrics,
        };
        KeyQueue::from_core(Core::new(self.hasher, self.clock, settings, config))
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Delays> Builder<K, S, C, L> {
    /// Sets how `add_after` treats a key that is already delayed.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Retries> Builder<K, S, C, L> {
    /// Sets how long a key waits after a failure.
    ///
    /// ```
    /// use dedup_queue::{DedupRetryQueue, FastSlow, Retried};
    /// use std::time::Duration;
    ///
    /// let (fast, slow) = (Duration::from_millis(5), Duration::from_secs(10));
    /// let queue = DedupRetryQueue::<&str>::builder().limiter(FastSlow::new(fast, slow, 3)).build();
    /// queue.add("a")?;
    /// assert_eq!(queue.get()?.retry(), Retried::After(fast));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "backoff")]
    #[doc(alias = "rate_limit")]
    pub fn limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Spreads the limiter's delays randomly, so that keys that failed together are not retried
    /// together.
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = Some((jitter, None));
        self
    }

    /// Like [`jitter`](Self::jitter), with a fixed sequence of random numbers.
    pub fn jitter_with_seed(mut self, jitter: Jitter, seed: u64) -> Self {
        self.jitter = Some((jitter, Some(seed)));
        self
    }

    /// Sets the maximum number of attempts: a key whose number of failures in a row reaches `most`
    /// is given up. Attempts that an add causes during a back-off do not count.
    #[doc(alias = "max_retries")]
    pub fn max_attempts(mut self, most: NonZeroU32) -> Self {
        self.max_attempts = Some(most);
        self
    }

    /// Sets the hook that is called with each key that is given up and its number of failures. It
    /// runs on the thread that reported the last failure, with no lock held. Its panics propagate
    /// to that thread's call.
    ///
    /// ```
    /// use dedup_queue::{DedupRetryQueue, Retried};
    /// use std::num::NonZeroU32;
    ///
    /// let queue = DedupRetryQueue::<&str>::builder()
    ///     .max_attempts(NonZeroU32::MIN)
    ///     .dead_letter(|key, failures| println!("{key} is given up after {failures} failures"))
    ///     .build();
    /// queue.add("a")?;
    /// assert_eq!(queue.get()?.retry(), Retried::GivenUp);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dead_letter(mut self, hook: impl Fn(K, u32) + Send + Sync + 'static) -> Self {
        self.dead_letter = Some(Box::new(hook));
        self
    }

    /// Sets how long the failures of a resting key are remembered. `None`: until they are forgotten
    /// explicitly; their memory is kept as long.
    pub fn failure_expiry(mut self, expiry: impl Into<Option<Duration>>) -> Self {
        self.failure_expiry = expiry.into();
        self
    }
}

impl<K, S, C, L> fmt::Debug for Builder<K, S, C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("policy", &self.policy)
            .field("max_attempts", &self.max_attempts)
            .field("failure_expiry", &self.failure_expiry)
            .finish_non_exhaustive()
    }
}
