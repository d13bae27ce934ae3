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

    /// How many tokens are there at `now`. For what limits other things than retries, and asks before
    /// it takes.
    pub fn available(&self, now: Instant) -> u32 {
        let Missing { nanos, late, .. } = Missing::at(now, *self.debt.lock());
        let there = self.at_once().saturating_sub(nanos.saturating_add(late));
        let tokens = there.checked_div(self.interval.as_nanos());
        tokens.map_or(u32::MAX, |tokens| u32::try_from(tokens).unwrap_or(u32::MAX))
    }

    /// How long after `now` the next token is there, if none is taken meanwhile: no time if one is.
    pub fn wait(&self, now: Instant) -> Duration {
        let Missing { nanos, late, .. } = Missing::at(now, *self.debt.lock());
        let full = nanos
            .saturating_add(late)
            .saturating_add(self.interval.as_nanos());
        super::from_nanos(full.saturating_sub(self.at_once()))
    }

    /// Takes so many tokens at `now`. Those that are not there are owed: as many intervals more pass
    /// before the next is there.
    pub fn take(&self, tokens: u32, now: Instant) {
        let mut debt = self.debt.lock();
        let Missing { at, nanos, .. } = Missing::at(now, *debt);
        let taken = self.interval.as_nanos().saturating_mul(tokens.into());
        *debt = Some(Debt {
            at,
            nanos: nanos.saturating_add(taken),
        });
    }

    /// Takes the next token, and says when it is there. Compiled once, whatever the keys are.
    fn draw(&self, now: Instant) -> Duration {
        let interval = self.interval.as_nanos();
        let mut debt = self.debt.lock();
        let Missing { at, nanos, late } = Missing::at(now, *debt);
        // Less than 2^94 each, so only billions of tokens beyond the burst could overflow; then none
        // is taken.
        let Some(nanos) = nanos.checked_add(interval) else {
            return Duration::MAX;
        };
        let delay = nanos.saturating_add(late).saturating_sub(self.at_once());
        if delay >= Duration::MAX.as_nanos() {
            return Duration::MAX; // No token will ever be there, so none is taken.
        }
        *debt = Some(Debt { at, nanos });
        drop(debt);
        super::from_nanos(delay)
    }

    /// The tokens of a full bucket, in nanoseconds: 2^94 of them times 2^32 at most.
    fn at_once(&self) -> u128 {
        self.interval.as_nanos() * u128::from(self.burst.get())
    }
}

/// What is missing from a full bucket when it is looked at.
struct Missing {
    at: Instant,
    nanos: u128,
    /// Threads may come in another order than they have read the clock in: so much earlier than the
    /// latest of them.
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
