//! Delays that double with each failure.

use std::time::{Duration, Instant};

use super::RateLimiter;

/// The delay is `base` at first and doubles with each failure, up to `max`. Independent for each
/// key.
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
    /// Creates a limiter whose first delay is `base`, or `max` if that is shorter.
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }

    /// Returns the delay after `failures` failures. Not generic, so compiled once for all keys.
    fn after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1);
        let base = self.base.as_nanos();
        // A duration in nanoseconds has at most 94 bits: shifting into leading zeros loses nothing.
        if doublings > base.leading_zeros() {
            return if base == 0 { Duration::ZERO } else { self.max };
        }
        let grown = base.checked_shl(doublings).unwrap_or(0); // A shift by 128 only if `base` is 0.
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
