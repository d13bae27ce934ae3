//! The effect of `add_after` on a key that is already delayed.

use std::hash::RandomState;

use dedup_queue::{Added, DedupDelayQueue, DedupRetryQueue, ManualClock, Policy};
use sync_shim::Clock;

use crate::support::{MERGED, MOVED, MS, Queue, get, take_all};

type Delays = DedupDelayQueue<&'static str, RandomState, ManualClock>;

fn queue(policy: Policy) -> (Delays, ManualClock) {
    let clock = ManualClock::new();
    let queue = DedupDelayQueue::<&'static str>::builder()
        .clock(clock.clone())
        .policy(policy);
    (queue.build(), clock)
}

/// Returns the milliseconds after which the key is delivered, when it is added with these delays at
/// these times.
fn comes(policy: Policy, adds: &[(u64, u32)]) -> (u64, Vec<Added>) {
    let (queue, clock) = queue(policy);
    let start = clock.now();
    let mut adds = adds.iter().copied().peekable();
    let mut added = Vec::new();
    for millisecond in 0..1000 {
        while let Some((_, delay)) = adds.next_if(|&(at, _)| at == millisecond) {
            added.push(queue.add_after("a", delay * MS).unwrap());
        }
        if !take_all(&queue).is_empty() {
            assert_eq!(queue.stats().delayed, 0, "one delivery");
            assert!(adds.peek().is_none());
            return (millisecond, added);
        }
        assert_eq!(
            clock.now() - start,
            MS * u32::try_from(millisecond).unwrap()
        );
        clock.advance(MS);
    }
    unreachable!("the key is delivered within a second")
}

#[test]
fn earliest_never_delays_a_delivery() {
    assert_eq!(comes(Policy::Earliest, &[(0, 50), (10, 70)]).0, 50);
    assert_eq!(comes(Policy::Earliest, &[(0, 50), (10, 20)]).0, 30);
    assert_eq!(Policy::default(), Policy::Earliest);
}

#[test]
fn latest_never_hastens_a_delivery() {
    assert_eq!(
        comes(Policy::Latest, &[(0, 50), (10, 70)]),
        (80, vec![Added::New, MOVED])
    );
    assert_eq!(
        comes(Policy::Latest, &[(0, 50), (10, 20)]),
        (50, vec![Added::New, MERGED])
    );
    assert_eq!(comes(Policy::Latest, &[(0, 50), (10, 0)]).0, 50);
}

#[test]
fn debounce_takes_the_newest_time() {
    assert_eq!(comes(Policy::Debounce, &[(0, 50), (10, 70)]).0, 80);
    assert_eq!(comes(Policy::Debounce, &[(0, 50), (10, 20)]).0, 30);
    assert_eq!(
        comes(Policy::Debounce, &[(0, 50), (40, 50), (80, 50), (120, 50)]).0,
        170
    );
    assert_eq!(comes(Policy::Debounce, &[(0, 50), (10, 0)]).0, 10);
}

#[test]
fn debounce_with_a_longest_wait_delivers_in_the_end() {
    let policy = Policy::DebounceMaxWait(100 * MS);
    assert_eq!(comes(policy, &[(0, 50), (40, 50)]).0, 90);
    assert_eq!(
        comes(policy, &[(0, 50), (40, 50), (80, 50)]).0,
        100,
        "not 130"
    );
    assert_eq!(
        comes(policy, &[(0, 500)]).0,
        100,
        "for the first call as well"
    );
    assert_eq!(comes(policy, &[(0, 50), (30, 5)]).0, 35);
}

#[test]
fn an_add_makes_a_key_ready_under_every_policy() {
    let policies = [
        Policy::Earliest,
        Policy::Latest,
        Policy::Debounce,
        Policy::DebounceMaxWait(MS),
    ];
    for policy in policies {
        let (queue, _clock) = queue(policy);
        queue.add_after("a", 50 * MS).unwrap();
        assert_eq!(queue.add("a"), Ok(MOVED));
        assert_eq!(take_all(&queue), ["a"]);
    }
}

#[test]
fn retries_use_the_earliest_time_under_every_policy() {
    for policy in [Policy::Latest, Policy::Debounce] {
        let clock = ManualClock::new();
        let queue: Queue<_> = DedupRetryQueue::<&'static str>::builder()
            .clock(clock.clone())
            .policy(policy)
            .build();
        queue.add("a").unwrap();
        let held = get(&queue);
        queue.add_after("a", 2 * MS).unwrap();
        held.retry(); // Requests five milliseconds, but an earlier time was set.
        clock.advance(2 * MS);
        assert_eq!(take_all(&queue), ["a"], "{policy:?}");
    }
}

#[test]
fn each_key_has_its_own_time() {
    let (queue, clock) = queue(Policy::Latest);
    queue.add_after("a", MS).unwrap();
    queue.add_after("b", 2 * MS).unwrap();
    queue.add_after("a", 3 * MS).unwrap();
    clock.advance(2 * MS);
    assert_eq!(take_all(&queue), ["b"]);
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["a"]);
}
