//! Failures counted by several parties.

use std::num::NonZeroU32;

use dedup_queue::{KeyQueue, ManualClock, Retried, Retrying};
use sync_shim::model::spawn;

use super::{Fixed, Queue, SECOND, beside, is_at_rest, retrying};

/// If the retry is first, the key is in back-off, and the add costs nothing.
#[testkit::model(preemptions = 3)]
fn a_retry_racing_a_rate_limited_add_counts_the_failures_of_a_held_key() {
    let (queue, _clock) = retrying();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let other = beside(&queue, |queue| _ = queue.add_rate_limited(1).unwrap());
    held.retry();
    other.join().unwrap();
    assert!((1..=2).contains(&queue.failures(&1)));
    assert_eq!(queue.stats().delayed, 1);
}

#[testkit::model(preemptions = 3)]
fn two_rate_limited_adds_of_a_held_key_racing_count_both_failures() {
    let (queue, _clock) = retrying();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let other = beside(&queue, |queue| _ = queue.add_rate_limited(1).unwrap());
    queue.add_rate_limited(1).unwrap();
    other.join().unwrap();
    assert_eq!(held.failures(), 2);
    drop(held);
    assert_eq!(queue.stats().delayed, 1);
}

/// No worker holds the key.
#[testkit::model(preemptions = 3)]
fn two_rate_limited_adds_racing_count_one_failure() {
    let (queue, _clock) = retrying();
    let other = beside(&queue, |queue| _ = queue.add_rate_limited(1).unwrap());
    queue.add_rate_limited(1).unwrap();
    other.join().unwrap();
    assert_eq!(queue.failures(&1), 1);
    assert_eq!(queue.stats().delayed, 1);
}

#[testkit::model(preemptions = 2)]
fn a_retry_racing_a_waiting_worker_and_the_clock_is_tried_again() {
    let (queue, clock) = retrying();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let worker = beside(&queue, |queue| queue.get().unwrap().succeed());
    held.retry();
    clock.advance(SECOND);
    worker.join().unwrap();
    assert_eq!(queue.failures(&1), 0);
    is_at_rest(&queue);
}

#[testkit::model(preemptions = 3)]
fn a_retry_racing_an_add_causes_one_delivery() {
    let (queue, _clock) = retrying();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let adder = beside(&queue, |queue| _ = queue.add(1).unwrap());
    held.retry();
    adder.join().unwrap();
    let again = queue.try_get().unwrap();
    assert_eq!(again.failures(), 1);
    again.succeed();
    assert_eq!(queue.stats().delayed, 0);
    is_at_rest(&queue);
}

/// The key has failed before and is held when its back-off ends: the other thread's count does not
/// turn the holder's try into an early one. An add after the retry merges.
#[testkit::model(preemptions = 3)]
fn a_second_failure_racing_a_rate_limited_add_is_counted() {
    let (queue, clock) = retrying();
    queue.add(1).unwrap();
    queue.get().unwrap().retry();
    clock.advance(SECOND);
    let held = queue.get().unwrap();
    let other = beside(&queue, |queue| _ = queue.add_rate_limited(1).unwrap());
    held.retry();
    other.join().unwrap();
    assert!((2..=3).contains(&queue.failures(&1)));
    assert_eq!(queue.stats().delayed, 1);
}

#[testkit::model(preemptions = 3)]
fn an_early_try_racing_the_end_of_its_back_off_returns_to_it_or_is_counted() {
    let (queue, clock) = retrying();
    queue.add(1).unwrap();
    queue.get().unwrap().retry();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let time = spawn(move || clock.advance(SECOND));
    held.retry();
    time.join().unwrap();
    let again = queue.try_get().map(|held| held.failures());
    match again {
        Ok(failures) => assert_eq!(failures, 1, "it went back, and its time has come"),
        Err(_) => assert_eq!(queue.failures(&1), 2),
    }
}

/// Another party counts the first failure, so that the retry gives the key up: the first failure causes no
/// further try. An add after the retry merges.
#[testkit::model(preemptions = 3)]
fn a_key_given_up_racing_its_own_retry_is_not_delivered() {
    let clock = ManualClock::new();
    let queue: Queue<Retrying> = KeyQueue::<u32, _, _, Retrying>::builder()
        .hasher(Fixed::default())
        .clock(clock.clone())
        .max_attempts(NonZeroU32::MIN.saturating_add(1))
        .build();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let other = beside(&queue, |queue| queue.add_rate_limited(1).unwrap());
    let ours = held.retry();
    let theirs = other.join().unwrap();
    assert!(matches!(theirs, Retried::After(_)));
    clock.advance(SECOND);
    let stats = queue.stats();
    let left = usize::from(ours != Retried::GivenUp);
    assert_eq!((stats.ready, stats.delayed, stats.resting), (left, 0, 0));
}

/// An add yields to the back-off while the retry of its key fails: in either order there is one
/// delivery, at the end of the back-off, to a worker that waits for the clock.
#[testkit::model(preemptions = 2)]
fn a_yielding_add_racing_a_retry_waits_for_the_back_off() {
    let (queue, clock) = retrying();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let event = beside(&queue, |queue| _ = queue.add_after_backoff(1).unwrap());
    let worker = beside(&queue, |queue| queue.get().unwrap().succeed());
    held.retry();
    event.join().unwrap();
    let stats = queue.stats();
    assert_eq!(
        (stats.ready, stats.held, stats.dirty, stats.delayed),
        (0, 0, 0, 1)
    );
    clock.advance(SECOND);
    worker.join().unwrap();
    is_at_rest(&queue);
}

/// As above, and the early try succeeds: a waiting worker gets the key at once, in either order.
#[testkit::model(preemptions = 2)]
fn a_yielding_add_racing_a_success_is_delivered_at_once() {
    let (queue, _clock) = retrying();
    queue.add_rate_limited(1).unwrap();
    queue.add(1).unwrap(); // Starts an early try.
    let held = queue.get().unwrap();
    let event = beside(&queue, |queue| _ = queue.add_after_backoff(1).unwrap());
    let worker = beside(&queue, |queue| queue.get().unwrap().succeed());
    held.succeed();
    event.join().unwrap();
    worker.join().unwrap();
    is_at_rest(&queue);
}
