//! A rate limit for all keys together.
//!
//! The state is the time, after the latest call, at which the bucket would be full again if no more
//! tokens were taken. Each token taken moves that time by one interval; a token is available at
//! once while the time is at most `burst` intervals away. It is counted in nanoseconds of 128 bits
//! and never becomes a point in time: so it need not fit into an `Instant`, and every interval can
//! have its burst.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use sync_shim::Mutex;

use super::RateLimiter;

/// A token bucket shared by all keys: `burst` retries at once, then one per interval.
///
/// A key that arrives when the bucket is empty waits for its place behind earlier keys. The number
/// of failures of a key does not matter.
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
#[doc(alias = "throttle")]
#[doc(alias = "rate_limit")]
#[doc(alias = "BucketRateLimiter")]
#[derive(Debug)]
pub struct TokenBucket {
    interval: Duration,
    burst: NonZeroU32,
    /// `None` before the first token is taken.
    debt: Mutex<Option<Debt>>,
}

/// The tokens missing from a full bucket.
#[derive(Clone, Copy, Debug)]
struct Debt {
    /// After this time ..
    at: Instant,
    /// .. the bucket would be full this many nanoseconds later.
    nanos: u128,
}

impl TokenBucket {
    /// Creates a full bucket: one token per `interval`, of which up to `burst` are kept.
    pub fn new(interval: Duration, burst: NonZeroU32) -> Self {
        Self {
            interval,
            burst,
            debt: Mutex::new(None),
        }
    }

    /// Creates a bucket with `tokens` per second. The interval is rounded down to nanoseconds.
    ///
    /// ```
    /// use dedup_queue::TokenBucket;
    /// use std::num::NonZeroU32;
    /// use std::time::{Duration, Instant};
    ///
    /// let (ten, one) = (NonZeroU32::new(10).unwrap(), NonZeroU32::MIN);
    /// let (bucket, now) = (TokenBucket::per_second(ten, one), Instant::now());
    /// bucket.take(1, now);
    /// assert_eq!(bucket.wait(now), Duration::from_millis(100));
    /// ```
    pub fn per_second(tokens: NonZeroU32, burst: NonZeroU32) -> Self {
        Self::new(Duration::from_secs(1) / tokens.get(), burst)
    }

    /// Returns the number of tokens available at `now`. For limiting operations other than retries,
    /// where the caller checks before it takes.
    pub fn available(&self, now: Instant) -> u32 {
        let Missing { nanos, late, .. } = Missing::at(now, *self.debt.lock());
        let there = self.at_once().saturating_sub(nanos.saturating_add(late));
        let tokens = there.checked_div(self.interval.as_nanos());
        tokens.map_or(u32::MAX, |tokens| u32::try_from(tokens).unwrap_or(u32::MAX))
    }

    /// Returns how long after `now` the next token is available if none is taken in the meantime;
    /// zero if one is available.
    pub fn wait(&self, now: Instant) -> Duration {
        let Missing { nanos, late, .. } = Missing::at(now, *self.debt.lock());
        let full = nanos
            .saturating_add(late)
            .saturating_add(self.interval.as_nanos());
        super::from_nanos(full.saturating_sub(self.at_once()))
    }

    /// Takes `tokens` tokens at `now`. Missing tokens are owed: the next one is available that many
    /// intervals later.
    pub fn take(&self, tokens: u32, now: Instant) {
        let mut debt = self.debt.lock();
        let Missing { at, nanos, .. } = Missing::at(now, *debt);
        let taken = self.interval.as_nanos().saturating_mul(tokens.into());
        *debt = Some(Debt {
            at,
            nanos: nanos.saturating_add(taken),
        });
    }

    /// Takes the next token, and returns the time until it is available. Not generic, so compiled
    /// once for all keys.
    fn draw(&self, now: Instant) -> Duration {
        let interval = self.interval.as_nanos();
        let mut debt = self.debt.lock();
        let Missing { at, nanos, late } = Missing::at(now, *debt);
        // Less than 2^94 each, so only billions of tokens beyond the burst could overflow; then no
        // token is taken.
        let Some(nanos) = nanos.checked_add(interval) else {
            return Duration::MAX;
        };
        let delay = nanos.saturating_add(late).saturating_sub(self.at_once());
        if delay >= Duration::MAX.as_nanos() {
            return Duration::MAX; // No token will ever be available, so none is taken.
        }
        *debt = Some(Debt { at, nanos });
        drop(debt);
        super::from_nanos(delay)
    }

    /// Returns the tokens of a full bucket, in nanoseconds: at most 2^94 times 2^32.
    fn at_once(&self) -> u128 {
        self.interval.as_nanos() * u128::from(self.burst.get())
    }
}

/// The tokens missing from a full bucket at the time of a call.
struct Missing {
    at: Instant,
    nanos: u128,
    /// How much earlier this call's time is than the latest: threads may arrive in another order
    /// than they have read the clock.
    late: u128,
}

impl Missing {
    fn at(now: Instant, debt: Option<Debt>) -> Self {
        let before = debt.unwrap_or(Debt { at: now, nanos: 0 });
        let at = before.at.max(now);
        let passed = at.duration_since(before.at).as_nanos();
        Self {
            at,
            nanos: before.nanos.saturating_sub(passed),
            late: at.duration_since(now).as_nanos(),
        }
    }
}

impl<K> RateLimiter<K> for TokenBucket {
    fn delay(&self, _key: &K, _failures: u32, now: Instant) -> Duration {
        self.draw(now)
    }
}
