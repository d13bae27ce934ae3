//! The expiry of failures.

use std::time::Duration;

use dedup_queue::{DEFAULT_FAILURE_EXPIRY, DedupRetryQueue, ManualClock, Retrying};

use crate::support::{MS, Queue, figures, get};

fn queue(expiry: impl Into<Option<Duration>>) -> (Queue<Retrying>, ManualClock) {
    let clock = ManualClock::new();
    let builder = DedupRetryQueue::<&'static str>::builder().clock(clock.clone());
    (builder.failure_expiry(expiry).build(), clock)
}

/// A key that has failed once and is released without a result.
fn rest(queue: &Queue<Retrying>, clock: &ManualClock, key: &'static str) {
    queue.add(key).unwrap();
    get(queue).retry();
    clock.advance(5 * MS);
    drop(get(queue));
}

/// client-go keeps failures forever unless `Forget` is called.
#[test]
fn failures_of_a_resting_key_expire() {
    let (queue, clock) = queue(100 * MS);
    rest(&queue, &clock, "a");
    clock.advance(99 * MS);
    assert_eq!(queue.failures(&"a"), 1);
    rest(&queue, &clock, "b");
    assert_eq!(
        figures(queue.stats()),
        [0, 0, 0, 0, 1],
        "the first has expired meanwhile"
    );
    assert_eq!((queue.failures(&"a"), queue.failures(&"b")), (0, 1));
    clock.advance(100 * MS);
    assert_eq!(figures(queue.stats()), [0; 5]);
}

#[test]
fn failures_do_not_expire_while_the_key_is_held_or_delayed_or_ready() {
    let (queue, clock) = queue(MS);
    queue.add("a").unwrap();
    get(&queue).retry_after(1000 * MS);
    clock.advance(1000 * MS);
    get(&queue).retry();
    clock.advance(1000 * MS);
    let held = get(&queue);
    clock.advance(1000 * MS);
    assert_eq!(held.failures(), 1);
    queue.add("a").unwrap();
    drop(held);
    clock.advance(1000 * MS);
    assert_eq!(queue.failures(&"a"), 1, "it is ready");
    drop(get(&queue));
    clock.advance(MS);
    assert_eq!(queue.failures(&"a"), 0);
}

/// No other call reads the clock while the key becomes idle.
#[test]
fn the_expiry_counts_from_the_release_of_the_key() {
    let (queue, clock) = queue(100 * MS);
    queue.add("a").unwrap();
    get(&queue).retry();
    clock.advance(5 * MS);
    let held = get(&queue);
    clock.advance(1000 * MS);
    drop(held);
    clock.advance(99 * MS);
    assert_eq!(queue.failures(&"a"), 1);
    queue.add("a").unwrap();
    clock.advance(1000 * MS);
    queue.remove(&"a");
    clock.advance(99 * MS);
    assert_eq!(queue.failures(&"a"), 1);
    clock.advance(MS);
    assert_eq!(queue.failures(&"a"), 0);
}

#[test]
fn an_add_before_the_expiry_keeps_the_failures() {
    let (queue, clock) = queue(100 * MS);
    rest(&queue, &clock, "a");
    clock.advance(99 * MS);
    queue.add("a").unwrap();
    clock.advance(500 * MS);
    let held = get(&queue);
    assert_eq!(held.failures(), 1);
    drop(held);
    clock.advance(100 * MS);
    queue.add("a").unwrap();
    assert_eq!(get(&queue).failures(), 0, "too late");
}

#[test]
fn failures_without_an_expiry_are_kept_until_they_are_forgotten() {
    let (queue, clock) = queue(None);
    rest(&queue, &clock, "a");
    clock.advance(Duration::from_secs(24 * 365 * 3600));
    assert_eq!(queue.failures(&"a"), 1);
    queue.forget(&"a");
    assert_eq!(figures(queue.stats()), [0; 5]);
}

#[test]
fn failures_expire_after_an_hour_by_default() {
    let clock = ManualClock::new();
    let queue: Queue<_> = DedupRetryQueue::<&'static str>::builder()
        .clock(clock.clone())
        .build();
    rest(&queue, &clock, "a");
    clock.advance(DEFAULT_FAILURE_EXPIRY.saturating_sub(MS));
    assert_eq!(queue.failures(&"a"), 1);
    clock.advance(MS);
    assert_eq!(queue.failures(&"a"), 0);
    assert_eq!(DEFAULT_FAILURE_EXPIRY, Duration::from_secs(3600));
}
