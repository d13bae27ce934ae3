//! Random delays, so that keys that failed together are not retried together.
//!
//! The numbers are `SplitMix64`'s: the same seed gives the same delays for the same order of calls.
//! They are not suited where unpredictability is required.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};

use super::RateLimiter;

/// Range of a randomized delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Jitter {
    /// Between the delay and this many percent more. The limiter's delay is the minimum.
    Percent(u32),
    /// Between zero and the delay. Spreads best, and retries earliest.
    Full,
}

/// A limiter with randomized delays.
///
/// ```
/// use dedup_queue::{FastSlow, Jitter, Jittered, RateLimiter};
/// use std::time::{Duration, Instant};
///
/// let second = Duration::from_secs(1);
/// let limiter = Jittered::with_seed(FastSlow::new(second, second, 1), Jitter::Percent(10), 7);
/// let delay = limiter.delay(&"a", 1, Instant::now());
/// assert!((second..=second * 11 / 10).contains(&delay));
/// ```
#[derive(Debug)]
pub struct Jittered<L> {
    limiter: L,
    jitter: Jitter,
    state: AtomicU64,
}

impl<L> Jittered<L> {
    /// Creates a limiter with a random seed, so that no two processes have the same delays.
    pub fn new(limiter: L, jitter: Jitter) -> Self {
        // The only source of randomness in std is the keys of its hasher.
        Self::with_seed(limiter, jitter, RandomState::new().hash_one(0))
    }

    /// Creates a limiter with a given seed. The same seed gives the same delays.
    pub fn with_seed(limiter: L, jitter: Jitter, seed: u64) -> Self {
        Self {
            limiter,
            jitter,
            state: AtomicU64::new(seed),
        }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for Jittered<L> {
    fn delay(&self, key: &K, failures: u32, now: Instant) -> Duration {
        let delay = self.limiter.delay(key, failures, now);
        scatter(delay, self.jitter, &self.state)
    }
}

/// Not generic, so compiled once for all limiters and keys.
fn scatter(delay: Duration, jitter: Jitter, state: &AtomicU64) -> Duration {
    match jitter {
        Jitter::Percent(percent) => {
            // Dividing first would round short delays to zero.
            let most = delay.checked_mul(percent).map_or(delay, |span| span / 100);
            delay.saturating_add(upto(most, state))
        }
        Jitter::Full => upto(delay, state),
    }
}

/// Returns a random duration up to `span`, of which at most 584 years count.
fn upto(span: Duration, state: &AtomicU64) -> Duration {
    let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let scaled = u128::from(next(state)) * (u128::from(span) + 1);
    Duration::from_nanos(u64::try_from(scaled >> 64).unwrap_or(span))
}

fn next(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    // Relaxed: each caller gets a number of its own, and nothing else is read because of it.
    let mut mixed = state.fetch_add(STEP, Relaxed).wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
