//! Short delays at first, then long ones.

use std::time::{Duration, Instant};

use super::RateLimiter;

/// The delay is `fast` after each of the first failures, and `slow` after later ones. Independent
/// for each key.
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
    /// Creates a limiter that returns `fast` for the first `fast_failures` failures.
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
