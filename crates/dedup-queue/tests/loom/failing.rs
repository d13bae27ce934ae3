//! Failures counted by several.

use sync_shim::model::{check, spawn};

use super::{SECOND, is_at_rest, retrying};

/// A holder's retry against somebody else's count of the same key: both count.
#[test]
fn a_retry_racing_a_rate_limited_add_counts_both_failures() {
    check(
        "a_retry_racing_a_rate_limited_add_counts_both_failures",
        Some(3),
        || {
            let (queue, _clock) = retrying();
            queue.add(1).unwrap();
            let held = queue.get().unwrap();
            let other = {
                let queue = queue.clone();
                spawn(move || _ = queue.add_rate_limited(1).unwrap())
            };
            held.retry();
            other.join().unwrap();
            assert_eq!(queue.failures(&1), 2);
            assert_eq!(queue.stats().delayed, 1);
        },
    );
}

/// Two counts of a key that nobody holds: both count.
#[test]
fn two_rate_limited_adds_racing_count_both_failures() {
    check(
        "two_rate_limited_adds_racing_count_both_failures",
        Some(3),
        || {
            let (queue, _clock) = retrying();
            let other = {
                let queue = queue.clone();
                spawn(move || _ = queue.add_rate_limited(1).unwrap())
            };
            queue.add_rate_limited(1).unwrap();
            other.join().unwrap();
            assert_eq!(queue.failures(&1), 2);
            assert_eq!(queue.stats().delayed, 1);
        },
    );
}

/// A retry against a getter that waits against the clock: it comes again and is taken.
#[test]
fn a_retry_racing_a_waiting_worker_and_the_clock_is_tried_again() {
    check(
        "a_retry_racing_a_waiting_worker_and_the_clock_is_tried_again",
        Some(2),
        || {
            let (queue, clock) = retrying();
            queue.add(1).unwrap();
            let held = queue.get().unwrap();
            let worker = {
                let queue = queue.clone();
                spawn(move || queue.get().unwrap().succeed())
            };
            held.retry();
            clock.advance(SECOND);
            worker.join().unwrap();
            assert_eq!(queue.failures(&1), 0);
            is_at_rest(&queue);
        },
    );
}

/// A retry against an add: one delivery at once, and the failure is counted.
#[test]
fn a_retry_racing_an_add_is_one_delivery() {
    check("a_retry_racing_an_add_is_one_delivery", Some(3), || {
        let (queue, _clock) = retrying();
        queue.add(1).unwrap();
        let held = queue.get().unwrap();
        let adder = {
            let queue = queue.clone();
            spawn(move || _ = queue.add(1).unwrap())
        };
        held.retry();
        adder.join().unwrap();
        let again = queue.try_get().unwrap();
        assert_eq!(again.failures(), 1);
        again.succeed();
        assert_eq!(queue.stats().delayed, 0);
        is_at_rest(&queue);
    });
}
