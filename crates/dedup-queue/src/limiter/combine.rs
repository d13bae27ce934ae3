//! Combinations of limiters.

use std::time::{Duration, Instant};

use super::RateLimiter;

/// The longer of two delays. Both limiters are charged. Nest it to combine three.
///
/// ```
/// use dedup_queue::{Exponential, FastSlow, MaxOf, RateLimiter};
/// use std::time::{Duration, Instant};
///
/// let steep = FastSlow::new(Duration::from_millis(5), Duration::from_secs(3), 3);
/// let limiter = MaxOf(steep, Exponential::default());
/// let now = Instant::now();
/// assert_eq!(limiter.delay(&"a", 1, now), Duration::from_millis(5));
/// assert_eq!(limiter.delay(&"a", 4, now), Duration::from_secs(3));
/// assert_eq!(limiter.delay(&"a", 14, now), Duration::from_millis(8192));
/// ```
#[doc(alias = "MaxOfRateLimiter")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxOf<A, B>(pub A, pub B);

impl<K, A: RateLimiter<K>, B: RateLimiter<K>> RateLimiter<K> for MaxOf<A, B> {
    fn delay(&self, key: &K, failures: u32, now: Instant) -> Duration {
        let first = self.0.delay(key, failures, now);
        first.max(self.1.delay(key, failures, now))
    }
}

/// A limiter's delay, up to a maximum.
///
/// ```
/// use dedup_queue::{Exponential, RateLimiter, WithMaxWait};
/// use std::time::{Duration, Instant};
///
/// let second = Duration::from_secs(1);
/// let limiter = WithMaxWait::new(Exponential::default(), second);
/// assert_eq!(limiter.delay(&"a", 30, Instant::now()), second);
/// ```
#[doc(alias = "WithMaxWaitRateLimiter")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithMaxWait<L> {
    limiter: L,
    max: Duration,
}

impl<L> WithMaxWait<L> {
    /// Creates a limiter with the delays of `limiter`, but at most `max`.
    pub const fn new(limiter: L, max: Duration) -> Self {
        Self { limiter, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for WithMaxWait<L> {
    fn delay(&self, key: &K, failures: u32, now: Instant) -> Duration {
        self.limiter.delay(key, failures, now).min(self.max)
    }
}
