//! Adds that yield to the back-off of their key.

use dedup_queue::{Pending, Policy, Retried};

use crate::support::{
    MERGED, MOVED, MS, NEW, Queue, after, figures, get, is_closed, is_empty, retrying, take_all,
};

/// The default limiter's first delay.
const FIRST: u32 = 5;

/// A key that has failed once and is in its back-off.
fn failed() -> (Queue<dedup_queue::Retrying>, dedup_queue::ManualClock) {
    let (queue, clock) = retrying();
    queue.add("a").unwrap();
    assert_eq!(get(&queue).retry(), after(FIRST.into()));
    (queue, clock)
}

#[test]
fn a_yielding_add_of_a_key_without_a_back_off_acts_like_an_add() {
    let (queue, _clock) = retrying();
    assert_eq!(queue.add_after_backoff("a"), Ok(NEW));
    assert_eq!(queue.add_after_backoff("a"), Ok(MERGED));
    assert_eq!(queue.add("a"), Ok(MERGED));
    get(&queue).succeed();
    assert_eq!(queue.add_after_backoff("a"), Ok(NEW));
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn yielding_adds_cause_no_try_before_the_end_of_the_back_off() {
    let (queue, clock) = failed();
    for _ in 1..FIRST {
        clock.advance(MS);
        assert_eq!(queue.add_after_backoff("a"), Ok(MERGED));
        assert!(is_empty(&queue.try_get()));
    }
    clock.advance(MS);
    assert_eq!(get(&queue).failures(), 1);
    // The back-off is over but still remembered: the add is due now.
    assert_eq!(queue.add_after_backoff("a"), Ok(NEW));
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn an_add_makes_a_key_ready_before_and_after_a_yielding_add() {
    let (queue, _clock) = failed();
    queue.add_after_backoff("a").unwrap();
    assert_eq!(queue.add("a"), Ok(MOVED));
    assert_eq!(queue.add_after_backoff("a"), Ok(MERGED));
    let held = get(&queue);
    queue.add_after_backoff("a").unwrap();
    queue.add("a").unwrap();
    queue.add_after_backoff("a").unwrap();
    assert_eq!(held.retry(), Retried::Ready);
}

#[test]
fn a_yielding_add_of_a_held_key_waits_for_its_result() {
    for fails in [true, false] {
        let (queue, clock) = failed();
        clock.advance(FIRST * MS);
        let held = get(&queue);
        assert_eq!(queue.add_after_backoff("a"), Ok(NEW));
        assert_eq!(figures(queue.stats()), [0, 1, 1, 0, 0]);
        if fails {
            assert_eq!(held.retry(), after((2 * FIRST).into()));
            assert_eq!(figures(queue.stats()), [0, 0, 0, 1, 0]);
            clock.advance((2 * FIRST - 1) * MS);
            assert!(is_empty(&queue.try_get()));
            clock.advance(MS);
        } else {
            held.succeed();
        }
        assert_eq!(take_all(&queue), ["a"]);
    }
}

/// A dropped early try has neither failed nor succeeded: the earlier failures count.
#[test]
fn a_dropped_early_try_leaves_a_yielding_add_to_the_end_of_the_back_off() {
    let (queue, clock) = failed();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add_after_backoff("a").unwrap();
    drop(held);
    assert_eq!(figures(queue.stats()), [0, 0, 0, 1, 0]);
    clock.advance(FIRST * MS);
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn a_yielding_add_keeps_a_delivery_due_before_the_end_of_the_back_off() {
    let (queue, clock) = failed();
    queue.add_after("a", MS).unwrap();
    assert_eq!(queue.add_after_backoff("a"), Ok(MERGED));
    clock.advance(MS);
    let held = get(&queue);
    queue.add_after("a", MS).unwrap();
    assert_eq!(queue.add_after_backoff("a"), Ok(MOVED));
    assert_eq!(queue.add_after_backoff("a"), Ok(MERGED));
    held.retry();
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn a_yielding_add_moves_a_later_delivery_to_the_end_of_the_back_off() {
    let clock = dedup_queue::ManualClock::new();
    let builder = dedup_queue::DedupRetryQueue::<&str>::builder().clock(clock.clone());
    let queue = builder.policy(Policy::Latest).build();
    queue.add("a").unwrap();
    queue.try_get().unwrap().retry();
    queue.add_after("a", 1_000 * MS).unwrap();
    assert_eq!(queue.add_after_backoff("a"), Ok(MOVED));
    clock.advance(FIRST * MS);
    assert_eq!(*queue.try_get().unwrap(), "a");
}

#[test]
fn a_yielding_add_of_a_held_delayed_key_is_delivered_after_a_success() {
    let (queue, _clock) = failed();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add_after("a", 1_000 * MS).unwrap();
    queue.add_after_backoff("a").unwrap();
    assert_eq!(figures(queue.stats()), [0, 1, 0, 1, 0]);
    held.succeed();
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn a_yielding_add_can_be_removed_for_good() {
    let (queue, _clock) = failed();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add_after_backoff("a").unwrap();
    assert_eq!(queue.remove(&"a"), Some(Pending::Dirty));
    queue.add_after("a", MS).unwrap();
    held.succeed();
    assert_eq!(figures(queue.stats()), [0, 0, 0, 1, 0], "delayed as asked");
}

#[test]
fn a_yielding_add_is_left_over_if_its_key_fails_after_the_shut_down() {
    let (queue, _clock) = failed();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add_after_backoff("a").unwrap();
    queue.shut_down();
    assert_eq!(queue.add_after_backoff("a").unwrap_err().into_key(), "a");
    assert!(is_empty(&queue.try_get()), "it may come once more");
    assert_eq!(held.retry(), Retried::Left);
    assert!(is_closed(&queue.try_get()));
    let left = queue.drain().leftovers.unwrap();
    assert_eq!(left.delayed.len(), 1);
}

#[test]
fn a_given_up_key_is_delivered_for_a_yielding_add() {
    let (clock, most) = (dedup_queue::ManualClock::new(), std::num::NonZeroU32::MIN);
    let builder = dedup_queue::DedupRetryQueue::<&str>::builder().clock(clock);
    let queue = builder.max_attempts(most).build();
    queue.add("a").unwrap();
    let held = queue.try_get().unwrap();
    queue.add_after_backoff("a").unwrap();
    assert_eq!(held.retry(), Retried::GivenUp);
    assert_eq!(queue.try_get().unwrap().failures(), 0, "as if it were new");
}

#[test]
fn a_yielding_add_that_falls_due_while_its_key_is_held_yields_no_longer() {
    let (queue, clock) = failed();
    clock.advance(FIRST * MS);
    let held = get(&queue);
    queue.add_after("a", MS).unwrap();
    queue.add_after_backoff("a").unwrap();
    clock.advance(MS);
    assert_eq!(queue.stats().dirty, 1);
    assert_eq!(held.retry(), Retried::Ready);
}
