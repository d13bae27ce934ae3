//! Delays before a key is retried.
//!
//! Not for: counting failures. The queue stores a key's count with the key, where it is forgotten
//! and expires, and passes it to the limiter. So most limiters have no state, and none needs
//! cleaning up.
//!
//! # Guarantees
//! 1. Arithmetic saturates: a delay is never negative and never wraps. A delay that is too long is
//!    `Duration::MAX`, which no clock reaches.
//! 2. A limiter is called with no lock of the queue held. If it blocks or panics, only its caller
//!    is affected.

mod bucket;
mod combine;
mod exponential;
mod fast_slow;
mod jitter;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use bucket::TokenBucket;
pub use combine::{MaxOf, WithMaxWait};
pub use exponential::Exponential;
pub use fast_slow::FastSlow;
pub use jitter::{Jitter, Jittered};

/// Determines how long a key that has failed waits for its next attempt.
///
/// ```
/// use dedup_queue::RateLimiter;
/// use std::time::{Duration, Instant};
///
/// /// One second more after each failure.
/// struct Linear;
///
/// impl<K> RateLimiter<K> for Linear {
///     fn delay(&self, _key: &K, failures: u32, _now: Instant) -> Duration {
///         Duration::from_secs(failures.into())
///     }
/// }
/// # assert_eq!(Linear.delay(&"a", 3, Instant::now()), Duration::from_secs(3));
/// ```
pub trait RateLimiter<K>: Send + Sync {
    /// Returns the delay after the `failures`-th failure in a row, counted from 1. `now` is the
    /// time by the queue's clock.
    ///
    /// Called for failures that count: not for an attempt before the key's back-off was over (see
    /// [`retry`](crate::Held::retry)). A result may be discarded: if two threads count failures of
    /// one key at once, one of them calls again with the higher number.
    #[doc(alias = "When")]
    fn delay(&self, key: &K, failures: u32, now: Instant) -> Duration;
}

impl<K, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Box<L> {
    fn delay(&self, key: &K, failures: u32, now: Instant) -> Duration {
        (**self).delay(key, failures, now)
    }
}

/// One limiter for several queues.
impl<K, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Arc<L> {
    fn delay(&self, key: &K, failures: u32, now: Instant) -> Duration {
        (**self).delay(key, failures, now)
    }
}

/// `Duration::from_nanos_u128`, which the minimum Rust version lacks. Saturates.
fn from_nanos(nanos: u128) -> Duration {
    const SECOND: u128 = Duration::from_secs(1).as_nanos();
    match (u64::try_from(nanos / SECOND), u32::try_from(nanos % SECOND)) {
        (Ok(seconds), Ok(nanos)) => Duration::new(seconds, nanos),
        _ => Duration::MAX,
    }
}
