//! Quick at first, then slow.

use std::time::{Duration, Instant};

use super::RateLimiter;

/// `fast` after each of the first failures, `slow` after each later one; each key by itself.
///
/// ```
/// use dedup_queue::{FastSlow, RateLimiter};
/// use std::time::{Duration, Instant};
///
/// let limiter = FastSlow::new(Duration::from_millis(5), Duration::from_secs(10), 3);
/// let now = Instant::now();
/// assert_eq!(limiter.delay(&"a", 3, now), Duration::from_millis(5));
/// assert_eq!(limiter.delay(&"a", 4, now), Duration::from_secs(10));
/// ```
#[doc(alias = "ItemFastSlowRateLimiter")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastSlow {
    fast: Duration,
    slow: Duration,
    fast_failures: u32,
}

impl FastSlow {
    /// `fast` for so many failures.
    pub const fn new(fast: Duration, slow: Duration, fast_failures: u32) -> Self {
        Self {
            fast,
            slow,
            fast_failures,
        }
    }
}

impl<K> RateLimiter<K> for FastSlow {
    fn delay(&self, _key: &K, failures: u32, _now: Instant) -> Duration {
        if failures <= self.fast_failures {
            self.fast
        } else {
            self.slow
        }
    }
}
