//! Twice as long after each failure.

use std::time::{Duration, Instant};

use super::RateLimiter;

/// `base`, then twice that, and so on, up to `max`; each key by itself.
///
/// ```
/// use dedup_queue::{Exponential, RateLimiter};
/// use std::time::{Duration, Instant};
///
/// let limiter = Exponential::new(Duration::from_millis(5), Duration::from_secs(1000));
/// let now = Instant::now();
/// assert_eq!(limiter.delay(&"a", 1, now), Duration::from_millis(5));
/// assert_eq!(limiter.delay(&"a", 4, now), Duration::from_millis(40));
/// assert_eq!(limiter.delay(&"a", 1000, now), Duration::from_secs(1000));
/// ```
#[doc(alias = "backoff")]
#[doc(alias = "ItemExponentialFailureRateLimiter")]
#[doc(alias = "DefaultItemBasedRateLimiter")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exponential {
    base: Duration,
    max: Duration,
}

impl Exponential {
    /// The first delay is `base`, or `max` if that is shorter.
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }

    /// The delay after so many failures. Compiled once, whatever the keys are.
    fn after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1);
        let base = self.base.as_nanos();
        // A duration in nanoseconds has 94 bits at most: nothing is lost while these are free.
        if doublings > base.leading_zeros() {
            return if base == 0 { Duration::ZERO } else { self.max };
        }
        let grown = base.checked_shl(doublings).unwrap_or(0); // 128 of them: `base` is 0.
        if grown >= self.max.as_nanos() {
            self.max
        } else {
            super::from_nanos(grown) // Less than `max`, so it fits.
        }
    }
}

/// client-go's default for items: from 1 millisecond to 1000 seconds.
impl Default for Exponential {
    fn default() -> Self {
        Self::new(Duration::from_millis(1), Duration::from_secs(1000))
    }
}

impl<K> RateLimiter<K> for Exponential {
    fn delay(&self, _key: &K, failures: u32, _now: Instant) -> Duration {
        self.after(failures)
    }
}
