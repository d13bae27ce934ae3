//! Failures: how they are counted and forgotten, and when keys are given up.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dedup_queue::{
    Builder, DedupRetryQueue, Exponential, FastSlow, Jitter, ManualClock, MaxOf, RateLimiter,
    Retried, Retrying, TokenBucket,
};

use crate::support::{Journal, MS, Queue, after, figures, get, is_empty, retrying, take_all};

type Builds = Builder<&'static str, std::hash::RandomState, ManualClock, Retrying>;

fn builder() -> (Builds, ManualClock) {
    let clock = ManualClock::new();
    let builder = DedupRetryQueue::<&'static str>::builder().clock(clock.clone());
    (builder, clock)
}

/// Lets the key fail this often, from its first delivery on.
fn fail(
    queue: &Queue<Retrying>,
    clock: &ManualClock,
    key: &'static str,
    times: u32,
) -> Vec<Retried> {
    queue.add(key).unwrap();
    let retries = (0..times).map(|_| {
        clock.advance(Duration::from_secs(1000 * 3600));
        get(queue).retry()
    });
    retries.collect()
}

#[test]
fn a_rate_limited_key_waits_longer_each_time_until_its_failures_are_forgotten() {
    let (builder, clock) = builder();
    let queue = builder.limiter(Exponential::new(MS, 1000 * MS)).build();
    assert_eq!(queue.add_rate_limited("one"), Ok(after(1)));
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["one"]);
    assert_eq!(queue.add_rate_limited("one"), Ok(after(2)));
    assert_eq!(queue.failures(&"one"), 2);
    assert_eq!(
        queue.add_rate_limited("two"),
        Ok(after(1)),
        "failures are counted per key"
    );
    queue.forget(&"one");
    assert_eq!(queue.failures(&"one"), 0);
    assert_eq!(queue.add_rate_limited("one"), Ok(after(1)));
    clock.advance(MS);
    assert_eq!(
        take_all(&queue),
        ["two", "one"],
        "the earliest time of each counted"
    );
    clock.advance(MS);
    assert!(is_empty(&queue.try_get()));
}

#[test]
fn failures_are_counted_per_key_and_a_success_forgets_them() {
    let (builder, clock) = builder();
    let queue = builder.limiter(Exponential::new(MS, 1000 * MS)).build();
    assert_eq!(fail(&queue, &clock, "a", 5), [1, 2, 4, 8, 16].map(after));
    assert_eq!((queue.failures(&"a"), queue.failures(&"b")), (5, 0));
    clock.advance(1000 * MS);
    let held = get(&queue);
    assert_eq!(held.failures(), 5);
    held.succeed();
    assert_eq!(queue.failures(&"a"), 0);
    assert_eq!(
        figures(queue.stats()),
        [0; 5],
        "the queue keeps nothing of the key"
    );
    assert_eq!(fail(&queue, &clock, "a", 1), [after(1)]);
}

#[test]
fn limiters_receive_the_failures_of_each_key() {
    let (fast_slow, clock) = builder();
    let queue = fast_slow
        .limiter(FastSlow::new(5 * MS, 10_000 * MS, 3))
        .build();
    assert_eq!(
        fail(&queue, &clock, "a", 5),
        [5, 5, 5, 10_000, 10_000].map(after)
    );
    assert_eq!(queue.failures(&"a"), 5);
    clock.advance(Duration::from_secs(3600));
    get(&queue).succeed();
    assert_eq!(fail(&queue, &clock, "b", 1), [after(5)]);
    assert_eq!(fail(&queue, &clock, "a", 1), [after(5)]);

    let (max_of, clock) = builder();
    let both = MaxOf(
        FastSlow::new(5 * MS, 3000 * MS, 3),
        Exponential::new(MS, 1000 * MS),
    );
    let queue = max_of.limiter(both).build();
    assert_eq!(
        fail(&queue, &clock, "a", 5),
        [5, 5, 5, 3000, 3000].map(after)
    );
    assert_eq!(queue.failures(&"a"), 5);
    queue.forget(&"a");
    assert_eq!(queue.failures(&"a"), 0);
}

#[test]
fn a_key_released_without_a_result_keeps_its_failures() {
    let (queue, clock) = retrying();
    fail(&queue, &clock, "a", 2);
    clock.advance(1000 * MS);
    drop(get(&queue));
    assert_eq!(queue.failures(&"a"), 2);
    assert_eq!(figures(queue.stats()), [0, 0, 0, 0, 1], "it rests");
    assert_eq!(
        fail(&queue, &clock, "a", 1),
        [after(20)],
        "and goes on from there"
    );
}

#[test]
fn forget_clears_the_failures_of_a_held_key_and_leaves_it_held() {
    let (queue, clock) = retrying();
    fail(&queue, &clock, "a", 3);
    clock.advance(1000 * MS);
    let held = get(&queue);
    held.forget();
    assert_eq!(held.failures(), 0);
    assert_eq!(queue.stats().held, 1);
    assert_eq!(held.retry(), after(5), "the first failure again");
    queue.forget(&"a");
    assert_eq!(
        figures(queue.stats()),
        [0, 0, 0, 1, 0],
        "what is owed stays owed"
    );
    clock.advance(5 * MS);
    drop(get(&queue));
    assert_eq!(figures(queue.stats()), [0; 5]);
}

#[test]
fn a_failure_counted_while_the_key_is_held_counts_for_its_holder() {
    let (queue, _clock) = retrying();
    queue.add("a").unwrap();
    let held = get(&queue);
    assert_eq!(queue.add_rate_limited("a"), Ok(after(5)));
    assert_eq!(held.failures(), 1);
    assert_eq!(
        held.retry(),
        after(10),
        "the second failure, whichever way it is asked for"
    );
    assert_eq!(queue.failures(&"a"), 2);
    assert_eq!(queue.stats().delayed, 1);
}

#[test]
fn a_rate_limited_add_of_a_key_that_waits_counts_nothing_and_calls_no_limiter() {
    struct Counts(Arc<AtomicU32>);
    impl RateLimiter<&'static str> for Counts {
        fn delay(&self, _: &&'static str, failures: u32, _: Instant) -> Duration {
            self.0.fetch_add(1, Relaxed);
            10 * MS * failures
        }
    }
    let calls = Arc::new(AtomicU32::new(0));
    let (builder, clock) = builder();
    let queue = builder.limiter(Counts(Arc::clone(&calls))).build();
    let state = || (queue.failures(&"a"), calls.load(Relaxed));

    assert_eq!(queue.add_rate_limited("a"), Ok(after(10)));
    clock.advance(4 * MS);
    assert_eq!(queue.add_rate_limited("a"), Ok(after(6)), "in back-off");
    queue.add_after("a", MS).unwrap();
    assert_eq!(queue.add_rate_limited("a"), Ok(after(1)), "comes earlier");
    assert_eq!(state(), (1, 1));
    clock.advance(6 * MS);
    assert_eq!(queue.add_rate_limited("a"), Ok(Retried::Ready), "it is due");
    assert_eq!(state(), (1, 1));
    drop(get(&queue));
    assert_eq!(
        queue.add_rate_limited("a"),
        Ok(after(20)),
        "it waits no longer"
    );
    assert_eq!(state(), (2, 2));

    queue.add_after("b", 1000 * MS).unwrap();
    let hastened = queue.add_rate_limited("b");
    assert_eq!(
        hastened,
        Ok(after(10)),
        "a key without a failure is hastened"
    );
    queue.add("c").unwrap();
    assert_eq!(queue.add_rate_limited("c"), Ok(Retried::Ready));
    assert_eq!(queue.failures(&"c"), 0);
}

#[test]
fn a_key_with_many_rate_limited_adds_delays_no_other_key() {
    let (builder, clock) = builder();
    let queue = builder.build(); // With the default limiter, whose bucket all keys share.
    let mut attempts = 0;
    for _ in 0..1_000 {
        queue.add_rate_limited("noisy").unwrap();
        clock.advance(MS);
        attempts += take_all(&queue).len();
    }
    assert!(
        (7..10).contains(&attempts),
        "the back-off doubles: {attempts}"
    );
    queue.add("other").unwrap();
    assert_eq!(get(&queue).retry(), after(5));
}

#[test]
fn the_gaps_of_a_key_follow_the_bucket_and_not_the_number_of_adds() {
    let (builder, clock) = builder();
    let bucket = TokenBucket::new(200 * MS, NonZeroU32::MIN);
    let queue = builder.limiter(bucket).build();
    let (mut attempts, mut since, mut gaps) = (0, 0, Vec::new());
    for step in 0..200 {
        queue.add_rate_limited("a").unwrap();
        if !take_all(&queue).is_empty() {
            attempts += 1;
            gaps.push(step - since);
            since = step;
        }
        clock.advance(100 * MS);
    }
    assert!(attempts >= 60, "{attempts}: {gaps:?}");
    assert!(gaps.iter().all(|&gap| gap <= 3), "{gaps:?}");
}

#[test]
fn a_retry_of_a_dirty_key_is_ready_at_once_and_counted() {
    let (queue, _clock) = retrying();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add("a").unwrap();
    assert_eq!(held.retry(), Retried::Ready);
    assert_eq!(queue.failures(&"a"), 1);
    assert_eq!(figures(queue.stats()), [1, 0, 0, 0, 0]);
}

#[test]
fn a_retry_without_delay_is_ready_at_once() {
    let (builder, _clock) = builder();
    let nothing = Duration::ZERO;
    let queue = builder.limiter(FastSlow::new(nothing, nothing, 1)).build();
    assert_eq!(queue.add_rate_limited("a"), Ok(Retried::Ready));
    assert_eq!(get(&queue).retry(), Retried::Ready);
    assert_eq!(figures(queue.stats()), [1, 0, 0, 0, 0]);
}

#[test]
fn a_key_is_given_up_after_its_last_attempt_and_the_hook_receives_it() {
    for attempts in [1, 3] {
        let letters = Journal::new();
        let (builder, clock) = builder();
        let queue = builder
            .max_attempts(NonZeroU32::new(attempts).unwrap())
            .dead_letter({
                let letters = letters.clone();
                move |key, failures| letters.write((key, failures))
            })
            .build();
        let retries = fail(&queue, &clock, "a", attempts);
        assert_eq!(retries.last(), Some(&Retried::GivenUp));
        assert_eq!(
            retries
                .iter()
                .filter(|&&retried| retried == Retried::GivenUp)
                .count(),
            1
        );
        assert_eq!(letters.entries(), [("a", attempts)]);
        assert_eq!(figures(queue.stats()), [0; 5], "it is forgotten");
        assert_eq!(queue.failures(&"a"), 0);
    }
}

#[test]
fn a_dirty_key_that_is_given_up_is_delivered_once_more_without_failures() {
    let letters = Journal::new();
    let (builder, _clock) = builder();
    let hook = letters.clone();
    let queue = builder
        .max_attempts(NonZeroU32::MIN)
        .dead_letter(move |key, failures| hook.write((key, failures)))
        .build();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add("a").unwrap();
    assert_eq!(held.retry(), Retried::GivenUp);
    assert_eq!(letters.entries(), [("a", 1)]);
    assert_eq!(get(&queue).failures(), 0);
    assert_eq!(
        queue.add_rate_limited("b"),
        Ok(Retried::GivenUp),
        "an add counts as well"
    );
    assert_eq!(letters.entries(), [("a", 1), ("b", 1)]);
}

#[test]
fn the_dead_letter_hook_may_use_the_queue_and_its_panic_reaches_the_caller() {
    let (builder, _clock) = builder();
    let shared = Arc::new(Mutex::new(None::<Queue<Retrying>>));
    let hook = Arc::clone(&shared);
    let queue = builder
        .max_attempts(NonZeroU32::MIN)
        .dead_letter(move |key, _| {
            let queue = hook.lock().unwrap().clone().unwrap();
            assert_eq!(queue.stats().held, 0, "the key is let go already");
            queue.add(key).unwrap();
            panic!("a panic of the hook");
        })
        .build();
    *shared.lock().unwrap() = Some(queue.clone());
    queue.add("a").unwrap();
    let held = get(&queue);
    let retried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| held.retry()));
    assert!(retried.is_err());
    assert_eq!(figures(queue.stats()), [1, 0, 0, 0, 0]);
    *shared.lock().unwrap() = None; // Breaks the reference cycle of the queue and its hook.
}

#[test]
fn a_limiter_that_panics_leaves_the_key_done_and_no_failure_counted() {
    struct Broken;
    impl RateLimiter<&'static str> for Broken {
        fn delay(&self, _: &&'static str, _: u32, _: Instant) -> Duration {
            panic!("broken limiter")
        }
    }
    let (builder, _clock) = builder();
    let queue = builder.limiter(Broken).build();
    queue.add("a").unwrap();
    let held = get(&queue);
    let retried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| held.retry()));
    assert!(retried.is_err());
    assert_eq!(figures(queue.stats()), [0; 5]);
    let adds = std::panic::AssertUnwindSafe(|| queue.add_rate_limited("a"));
    assert!(std::panic::catch_unwind(adds).is_err());
    assert_eq!(figures(queue.stats()), [0; 5]);
}

#[test]
fn a_limiter_may_use_the_queue_and_is_called_again_if_the_count_changes() {
    struct Nosy(Mutex<Option<Queue<Retrying>>>, AtomicU32);
    impl RateLimiter<&'static str> for Nosy {
        fn delay(&self, key: &&'static str, failures: u32, _: Instant) -> Duration {
            if self.1.fetch_add(1, Relaxed) == 0 {
                let queue = self.0.lock().unwrap().clone().unwrap();
                queue.forget(key); // During the call of the limiter.
            }
            MS * failures
        }
    }
    let (builder, clock) = builder();
    let limiter = Arc::new(Nosy(Mutex::new(None), AtomicU32::new(1)));
    let queue = builder.limiter(Arc::clone(&limiter)).build();
    *limiter.0.lock().unwrap() = Some(queue.clone());
    assert_eq!(fail(&queue, &clock, "a", 2), [after(1), after(2)]);
    clock.advance(1000 * MS);
    limiter.1.store(0, Relaxed);
    assert_eq!(
        get(&queue).retry(),
        after(1),
        "the first failure after the forgetting"
    );
    assert_eq!(limiter.1.load(Relaxed), 2);
    limiter.1.store(0, Relaxed);
    assert_eq!(queue.add_rate_limited("a"), Ok(after(1)));
    assert_eq!(queue.failures(&"a"), 1);
    *limiter.0.lock().unwrap() = None; // Breaks the reference cycle of the queue and its limiter.
}

#[test]
fn jitter_of_a_queue_scatters_its_retries_reproducibly() {
    let scattered = |seed| {
        let (builder, clock) = builder();
        let queue = builder
            .limiter(FastSlow::new(100 * MS, 100 * MS, 1))
            .jitter_with_seed(Jitter::Percent(50), seed)
            .build();
        let retries = fail(&queue, &clock, "a", 5);
        let bounds = 100 * MS..=150 * MS;
        let within = |retried: &Retried| matches!(retried, Retried::After(d) if bounds.contains(d));
        assert!(retries.iter().all(within));
        retries
    };
    assert_eq!(scattered(1), scattered(1));
    assert_ne!(scattered(1), scattered(2));
    let (builder, clock) = builder();
    let queue = builder.jitter(Jitter::Full).build();
    assert!(matches!(fail(&queue, &clock, "a", 1)[..], [Retried::After(d)] if d <= 5 * MS));
}

/// A limiter that must not be called.
struct Silent;

impl RateLimiter<&'static str> for Silent {
    fn delay(&self, _key: &&'static str, failures: u32, _now: Instant) -> Duration {
        panic!("asked for failure {failures}")
    }
}

#[test]
fn a_retry_with_an_explicit_delay_counts_a_failure_and_calls_no_limiter() {
    let (builder, clock) = builder();
    let queue = builder.limiter(Silent).build();
    queue.add("a").unwrap();
    for failures in 1..4 {
        assert_eq!(get(&queue).retry_failed_after(7 * MS), after(7));
        assert_eq!(queue.failures(&"a"), failures);
        clock.advance(6 * MS);
        assert!(is_empty(&queue.try_get()));
        clock.advance(MS);
    }
    assert_eq!(get(&queue).failures(), 3);
}

#[test]
fn a_limiter_counts_failures_with_an_explicit_delay() {
    let (builder, clock) = builder();
    let queue = builder.limiter(Exponential::new(MS, 1000 * MS)).build();
    queue.add("a").unwrap();
    get(&queue).retry_failed_after(100 * MS);
    clock.advance(100 * MS);
    get(&queue).retry_failed_after(Duration::ZERO);
    assert_eq!(get(&queue).retry(), after(4), "its third");
}

#[test]
fn a_failed_last_attempt_with_an_explicit_delay_gives_the_key_up() {
    let (builder, _clock) = builder();
    let dead = Journal::new();
    let hook = dead.clone();
    let builder = builder.max_attempts(NonZeroU32::MIN.saturating_add(1));
    let queue = builder
        .dead_letter(move |key, failures| hook.write((key, failures)))
        .build();
    queue.add("a").unwrap();
    assert_eq!(
        get(&queue).retry_failed_after(Duration::ZERO),
        Retried::Ready
    );
    assert_eq!(
        get(&queue).retry_failed_after(Duration::ZERO),
        Retried::GivenUp
    );
    assert_eq!(dead.entries(), [("a", 2)]);
}

/// A key added during its back-off is tried early. The failure of the early try is not counted, but
/// a longer delay that the worker requests is kept.
#[test]
fn an_early_try_returns_to_its_back_off_or_to_a_longer_explicit_delay() {
    for (said, expected) in [(1, 5), (30, 30)] {
        let (queue, clock) = retrying();
        queue.add("a").unwrap();
        assert_eq!(get(&queue).retry(), after(5));
        queue.add("a").unwrap();
        let said = said * MS;
        assert_eq!(get(&queue).retry_failed_after(said), after(expected));
        assert_eq!(queue.failures(&"a"), 1);
        queue.add("a").unwrap();
        assert_eq!(
            get(&queue).retry(),
            after(expected),
            "that is its back-off now"
        );
        clock.advance(Duration::from_millis(expected));
        assert_eq!(take_all(&queue), ["a"]);
    }
}
