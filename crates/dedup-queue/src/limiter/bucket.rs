//! A rate for all keys together.
//!
//! What is kept is how far ahead of the time of the latest call the bucket would be full again, if
//! nothing more were taken. Each token taken moves that one interval on; a token is there at once as
//! long as it is no more than `burst` intervals. It is counted in nanoseconds of 128 bits and never
//! becomes a point of time: so it need not fit into an `Instant`, and every interval has its burst.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use sync_shim::Mutex;

use super::RateLimiter;

/// A token bucket shared by all keys: `burst` retries at once, then one per interval.
///
/// A key that comes when it is empty has to wait for its place behind those that came before.
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
    /// `None` before the first token is taken.
    debt: Mutex<Option<Debt>>,
}

/// What is missing from a full bucket.
#[derive(Clone, Copy, Debug)]
struct Debt {
    /// At this time...
    at: Instant,
    /// ...it would be full so many nanoseconds later.
    nanos: u128,
}

impl TokenBucket {
    /// One token per `interval`, of which `burst` are kept. It is full at first.
    pub fn new(interval: Duration, burst: NonZeroU32) -> Self {
        Self {
            interval,
            burst,
            debt: Mutex::new(None),
        }
    }

    /// So many tokens per second; the interval is rounded down to nanoseconds.
    pub fn per_second(tokens: NonZeroU32, burst: NonZeroU32) -> Self {
        Self::new(Duration::from_secs(1) / tokens.get(), burst)
    }
}

impl<K> RateLimiter<K> for TokenBucket {
    fn delay(&self, _key: &K, _failures: u32, now: Instant) -> Duration {
        let interval = self.interval.as_nanos();
        let mut debt = self.debt.lock();
        let before = debt.unwrap_or(Debt { at: now, nanos: 0 });
        let at = before.at.max(now);
        let passed = at.duration_since(before.at).as_nanos();
        // Less than 2^94 each, so only billions of tokens beyond the burst could overflow; then none
        // is taken.
        let Some(nanos) = before.nanos.saturating_sub(passed).checked_add(interval) else {
            return Duration::MAX;
        };
        // Threads may come in another order than they have read the clock in.
        let late = at.duration_since(now).as_nanos();
        let at_once = interval.saturating_mul(u128::from(self.burst.get()));
        let delay = nanos.saturating_add(late).saturating_sub(at_once);
        if delay >= Duration::MAX.as_nanos() {
            return Duration::MAX; // No token will ever be there, so none is taken.
        }
        *debt = Some(Debt { at, nanos });
        drop(debt);
        super::from_nanos(delay)
    }
}
