//! A rate for all keys together.
//!
//! What is kept is one point of time: when the bucket would be full again if nothing more were
//! taken. Each token taken moves it one interval on; a token is there at once as long as the point
//! is no more than `burst` intervals ahead.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use sync_shim::Mutex;

use super::RateLimiter;

/// A token bucket shared by all keys: `burst` retries at once, then one per interval.
///
/// Whoever comes when it is empty is told to wait for its place behind those who came before.
/// How often a key has failed does not matter.
///
/// ```
/// use dedup_queue::{RateLimiter, TokenBucket};
/// use std::num::NonZeroU32;
/// use std::time::{Duration, Instant};
///
/// let [ten, two] = [10, 2].map(|n| NonZeroU32::new(n).expect("not zero"));
/// let bucket = TokenBucket::per_second(ten, two);
/// let now = Instant::now();
/// let delays = [1, 1, 1, 1].map(|failures| bucket.delay(&"a", failures, now).as_millis());
/// assert_eq!(delays, [0, 0, 100, 200]);
/// ```
#[doc(alias = "BucketRateLimiter")]
#[derive(Debug)]
pub struct TokenBucket {
    interval: Duration,
    burst: NonZeroU32,
    /// When it is full again; `None` before the first token is taken.
    full: Mutex<Option<Instant>>,
}

impl TokenBucket {
    /// One token per `interval`, of which `burst` are kept. It is full at first.
    pub fn new(interval: Duration, burst: NonZeroU32) -> Self {
        Self {
            interval,
            burst,
            full: Mutex::new(None),
        }
    }

    /// So many tokens per second; the interval is rounded down to nanoseconds.
    pub fn per_second(tokens: NonZeroU32, burst: NonZeroU32) -> Self {
        Self::new(Duration::from_secs(1) / tokens.get(), burst)
    }
}

impl<K> RateLimiter<K> for TokenBucket {
    fn delay(&self, _key: &K, _failures: u32, now: Instant) -> Duration {
        let mut full = self.full.lock();
        let from = full.map_or(now, |full| full.max(now));
        let Some(until) = from.checked_add(self.interval) else {
            return Duration::MAX; // No token will ever be there, so none is taken.
        };
        *full = Some(until);
        drop(full);
        let at_once = self.interval.saturating_mul(self.burst.get());
        until.duration_since(now).saturating_sub(at_once)
    }
}
