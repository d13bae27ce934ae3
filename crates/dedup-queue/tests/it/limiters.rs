//! Rate limiters without a queue.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use dedup_queue::{
    Exponential, FastSlow, Jitter, Jittered, MaxOf, RateLimiter, TokenBucket, WithMaxWait,
    controller_limiter,
};
use proptest::prelude::{any, prop_assert, proptest};

use crate::support::MS;

const SECOND: Duration = Duration::from_secs(1);

fn exact_nanos(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / SECOND.as_nanos()).unwrap();
    Duration::new(seconds, u32::try_from(nanos % SECOND.as_nanos()).unwrap())
}

fn non_zero(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

/// The delays of consecutive failures of one key.
fn delays(limiter: &impl RateLimiter<u32>, failures: u32) -> Vec<Duration> {
    let now = Instant::now();
    (1..=failures)
        .map(|failure| limiter.delay(&0, failure, now))
        .collect()
}

#[test]
fn exponential_delays_double_up_to_their_maximum() {
    let limiter = Exponential::new(MS, SECOND);
    assert_eq!(
        delays(&limiter, 6),
        [1, 2, 4, 8, 16, 32].map(|millis| millis * MS)
    );
    assert_eq!(delays(&limiter, 12)[9..], [512 * MS, SECOND, SECOND]);
}

#[test]
fn exponential_delays_saturate_after_any_number_of_failures() {
    let hour = Duration::from_secs(3600);
    let (short, long) = (
        Exponential::new(MS, 1000 * SECOND),
        Exponential::new(60 * SECOND, 1000 * hour),
    );
    for failures in [1000, 64, 65, 128, 129, u32::MAX] {
        assert_eq!(short.delay(&0, failures, Instant::now()), 1000 * SECOND);
        assert_eq!(long.delay(&0, failures, Instant::now()), 1000 * hour);
    }
    // A base that is a power of two nanoseconds reaches the largest powers exactly, where
    // client-go's product becomes negative.
    let exact = Exponential::new(Duration::from_nanos(1), Duration::MAX);
    for doublings in [62, 63, 64, 93] {
        let expected = exact_nanos(1 << doublings);
        assert_eq!(exact.delay(&0, doublings + 1, Instant::now()), expected);
    }
    assert_eq!(exact.delay(&0, 200, Instant::now()), Duration::MAX);
    let nothing = Exponential::new(Duration::ZERO, SECOND);
    assert_eq!(nothing.delay(&0, u32::MAX, Instant::now()), Duration::ZERO);
    assert_eq!(Exponential::default(), Exponential::new(MS, 1000 * SECOND));
}

#[test]
fn a_fast_slow_limiter_turns_slow_after_its_fast_tries() {
    let limiter = FastSlow::new(5 * MS, 10 * SECOND, 3);
    let expected = [5 * MS, 5 * MS, 5 * MS, 10 * SECOND, 10 * SECOND];
    assert_eq!(delays(&limiter, 5), expected);
}

#[test]
fn the_longer_of_two_delays_counts_and_both_limiters_are_charged() {
    let bucket = std::sync::Arc::new(TokenBucket::new(SECOND, non_zero(1)));
    let limiter = MaxOf(
        FastSlow::new(5 * MS, 3 * SECOND, 3),
        Exponential::new(MS, SECOND),
    );
    let expected = [5 * MS, 5 * MS, 5 * MS, 3 * SECOND, 3 * SECOND];
    assert_eq!(delays(&limiter, 5), expected);
    let both = MaxOf(FastSlow::new(SECOND * 60, SECOND * 60, 1), bucket.clone());
    let now = Instant::now();
    for _ in 0..3 {
        assert_eq!(both.delay(&0, 1, now), SECOND * 60);
    }
    assert_eq!(
        bucket.delay(&0, 1, now),
        3 * SECOND,
        "three tokens are gone"
    );
}

#[test]
fn a_longest_wait_caps_the_delay_of_a_limiter() {
    let limiter = WithMaxWait::new(FastSlow::new(5 * MS, 1000 * SECOND, 3), 500 * SECOND);
    assert_eq!(delays(&limiter, 4), [5 * MS, 5 * MS, 5 * MS, 500 * SECOND]);
}

#[test]
fn a_bucket_grants_its_burst_at_once_and_later_tokens_in_turn() {
    let bucket = TokenBucket::per_second(non_zero(10), non_zero(3));
    let start = Instant::now();
    let at = |millis: u32| RateLimiter::<u32>::delay(&bucket, &0, 1, start + millis * MS);
    let first: Vec<_> = (0..5).map(|_| at(0)).collect();
    let nothing = Duration::ZERO;
    assert_eq!(first, [nothing, nothing, nothing, 100 * MS, 200 * MS]);
    assert_eq!(
        at(250),
        50 * MS,
        "two of the debts are paid, and half of one"
    );
    assert_eq!(at(10_000), nothing);
    assert_eq!(
        [at(10_000), at(10_000), at(10_000)],
        [nothing, nothing, 100 * MS],
        "the bucket holds no more than its burst"
    );
}

#[testkit::test]
fn a_bucket_shows_its_tokens_and_the_time_of_the_next() {
    let bucket = TokenBucket::new(100 * MS, non_zero(3));
    let start = Instant::now();
    let has = |millis: u32| {
        let now = start + millis * MS;
        (bucket.available(now), bucket.wait(now))
    };
    assert_eq!(has(0), (3, Duration::ZERO));
    bucket.take(2, start);
    assert_eq!(has(0), (1, Duration::ZERO));
    bucket.take(1, start);
    assert_eq!(has(0), (0, 100 * MS));
    assert_eq!(has(99), (0, MS));
    assert_eq!(has(250), (2, Duration::ZERO));
    assert_eq!(has(10_000), (3, Duration::ZERO), "no more is kept");
    bucket.take(5, start + 10_000 * MS);
    assert_eq!(has(10_000), (0, 300 * MS), "two tokens are owed");
    assert_eq!(has(10_300), (1, Duration::ZERO));
}

#[test]
fn a_bucket_has_its_burst_with_any_interval() {
    let nothing = Duration::ZERO;
    let bucket = TokenBucket::new(Duration::MAX, non_zero(3));
    let expected = [nothing, nothing, nothing, Duration::MAX, Duration::MAX];
    assert_eq!(delays(&bucket, 5), expected, "and then it never fills");
    let long = Duration::from_secs(u64::MAX / 8);
    let slow = TokenBucket::new(long, non_zero(2));
    assert_eq!(delays(&slow, 4), [nothing, nothing, long, 2 * long]);
    let large = TokenBucket::new(Duration::MAX, NonZeroU32::MAX);
    assert_eq!(delays(&large, 5), [nothing; 5]);
}

#[test]
fn a_bucket_counts_calls_whose_times_are_out_of_order() {
    let bucket = TokenBucket::new(100 * MS, non_zero(1));
    let start = Instant::now();
    let at = |millis: u32| RateLimiter::<u32>::delay(&bucket, &0, 1, start + millis * MS);
    assert_eq!(at(50), Duration::ZERO);
    assert_eq!(
        at(0),
        150 * MS,
        "its place is behind the one that came first"
    );
    assert_eq!(at(50), 200 * MS);
}

#[test]
fn the_default_limiter_equals_client_gos() {
    let limiter = controller_limiter();
    let now = Instant::now();
    let first: Vec<_> = (1..=3)
        .map(|failures| limiter.delay(&0, failures, now))
        .collect();
    assert_eq!(first, [5 * MS, 10 * MS, 20 * MS]);
    for _ in 3..100 {
        assert_eq!(limiter.delay(&0, 1, now), 5 * MS);
    }
    assert_eq!(
        limiter.delay(&0, 1, now),
        100 * MS,
        "the burst of a hundred is over"
    );
    assert_eq!(limiter.delay(&0, 1, now), 200 * MS);
}

#[test]
fn jitter_stays_within_its_bounds_and_scatters() {
    let steady = FastSlow::new(SECOND, SECOND, 1);
    let cases = [
        (Jitter::Percent(10), SECOND, SECOND + 100 * MS),
        (Jitter::Percent(300), SECOND, 4 * SECOND),
        (Jitter::Percent(0), SECOND, SECOND),
        (Jitter::Full, Duration::ZERO, SECOND),
    ];
    for (jitter, least, most) in cases {
        let mut seen = delays(&Jittered::with_seed(steady, jitter, 1), 1000);
        assert!(
            seen.iter().all(|delay| (least..=most).contains(delay)),
            "{jitter:?}"
        );
        let middle = (least + most) / 2;
        let below = seen.iter().filter(|&&delay| delay < middle).count();
        assert!(
            least == most || (400..600).contains(&below),
            "{jitter:?}: {below}"
        );
        seen.sort_unstable();
        seen.dedup();
        assert!(least == most || seen.len() > 990, "{jitter:?}");
    }
}

#[test]
fn jitter_is_reproducible_by_its_seed() {
    let scattered = |seed| {
        let limiter = Jittered::with_seed(FastSlow::new(SECOND, SECOND, 1), Jitter::Full, seed);
        delays(&limiter, 10)
    };
    assert_eq!(scattered(7), scattered(7));
    assert_ne!(scattered(7), scattered(8));
    let own = || {
        delays(
            &Jittered::new(FastSlow::new(SECOND, SECOND, 1), Jitter::Full),
            10,
        )
    };
    assert_ne!(own(), own(), "without a seed each has its own");
}

proptest! {
    /// No limiter overflows or exceeds its maximum, whatever its parameters are.
    #[testkit::test]
    fn no_limiter_overflows(
        (base, max) in (any::<Duration>(), any::<Duration>()),
        failures in any::<u32>(),
        percent in any::<u32>(),
        (interval, burst) in (any::<Duration>(), 1..=u32::MAX),
        seed in any::<u64>(),
    ) {
        let now = Instant::now();
        let exponential = Exponential::new(base, max);
        let delay = exponential.delay(&0, failures, now);
        prop_assert!(delay <= max);
        let doubled = exponential.delay(&0, failures.saturating_add(1), now);
        prop_assert!(doubled >= delay);
        let jittered = Jittered::with_seed(exponential, Jitter::Percent(percent), seed);
        prop_assert!(jittered.delay(&0, failures, now) >= delay);
        let full = Jittered::with_seed(exponential, Jitter::Full, seed);
        prop_assert!(full.delay(&0, failures, now) <= delay);
        let bucket = TokenBucket::new(interval, non_zero(burst));
        for _ in 0..3 {
            let _ = RateLimiter::<i32>::delay(&bucket, &0, failures, now);
        }
        let free = TokenBucket::new(interval, non_zero(burst));
        let wait = free.wait(now);
        prop_assert!(wait.is_zero() && free.available(now) >= burst);
        for _ in 0..3 {
            free.take(burst, now);
        }
        let is_there = RateLimiter::<i32>::delay(&free, &0, 1, now).is_zero();
        prop_assert!((free.available(now) > 0) == is_there);
        let cut = WithMaxWait::new(MaxOf(exponential, bucket), max);
        prop_assert!(cut.delay(&0, failures, now) <= max);
    }
}
