//! `add_after`: when a delayed key is delivered, and how often.

use std::thread;
use std::time::Duration;

use sync_shim::Clock;

use crate::support::{
    MERGED, MOVED, MS, NEW, delaying, figures, get, is_empty, take_all, timed_out,
};

#[test]
fn a_delayed_key_is_delivered_once_when_it_is_due() {
    let (queue, clock) = delaying();
    assert_eq!(queue.add_after("a", 50 * MS), Ok(NEW));
    assert_eq!(figures(queue.stats()), [0, 0, 0, 1, 0]);
    clock.advance(Duration::from_nanos(49_999_999));
    assert!(is_empty(&queue.try_get()), "never early");
    clock.advance(Duration::from_nanos(1));
    assert_eq!(take_all(&queue), ["a"]);
    clock.advance(Duration::from_secs(10));
    assert!(is_empty(&queue.try_get()));
}

#[test]
fn the_earlier_of_two_delays_of_a_key_counts_and_there_is_one_delivery() {
    for (first, second, due, added) in [(50, 70, 50, MERGED), (50, 30, 30, MOVED)] {
        let (queue, clock) = delaying();
        queue.add_after("a", first * MS).unwrap();
        assert_eq!(queue.add_after("a", second * MS), Ok(added));
        clock.advance((due - 1) * MS);
        assert!(is_empty(&queue.try_get()));
        clock.advance(MS);
        assert_eq!(take_all(&queue), ["a"]);
        clock.advance(100 * MS);
        assert!(is_empty(&queue.try_get()), "the longer delay is gone");
    }
}

#[testkit::test]
fn a_shorter_delay_overtakes_a_longer_one_while_a_worker_waits() {
    let (queue, clock) = delaying();
    queue.add_after("slow", 1000 * MS).unwrap();
    thread::scope(|scope| {
        let worker = scope.spawn(|| queue.get().map(|held| *held));
        clock.wait_for_sleepers(1);
        assert_eq!(clock.next_due(), Some(clock.now() + 1000 * MS));
        queue.add_after("quick", 50 * MS).unwrap();
        while clock.next_due() != Some(clock.now() + 50 * MS) {
            thread::yield_now();
        }
        clock.advance(50 * MS);
        assert_eq!(worker.join().unwrap().unwrap(), "quick");
        let worker = scope.spawn(|| queue.get().map(|held| *held));
        clock.wait_for_sleepers(1);
        queue.add_after("third", 200 * MS).unwrap();
        while clock.next_due() != Some(clock.now() + 200 * MS) {
            thread::yield_now();
        }
        clock.advance(200 * MS);
        assert_eq!(worker.join().unwrap().unwrap(), "third");
    });
    clock.advance(1000 * MS);
    assert_eq!(take_all(&queue), ["slow"]);
}

#[test]
fn keys_that_fall_due_together_are_delivered_in_the_order_of_their_times() {
    let (queue, clock) = delaying();
    for (key, delay) in [
        ("third", 30),
        ("second", 20),
        ("first", 10),
        ("also third", 30),
    ] {
        queue.add_after(key, delay * MS).unwrap();
    }
    clock.advance(1000 * MS);
    assert_eq!(take_all(&queue), ["first", "second", "third", "also third"]);
}

#[test]
fn a_zero_delay_makes_a_key_ready_at_once() {
    let (queue, clock) = delaying();
    assert_eq!(queue.add_after("a", Duration::ZERO), Ok(NEW));
    assert_eq!(queue.add_at("b", clock.now()), Ok(NEW));
    let now = clock.now();
    clock.advance(MS);
    assert_eq!(queue.add_at("c", now), Ok(NEW), "a time that has passed");
    assert_eq!(figures(queue.stats()), [3, 0, 0, 0, 0]);
    assert_eq!(take_all(&queue), ["a", "b", "c"]);
}

/// In client-go the delayed add fires as well, later.
#[test]
fn an_add_replaces_a_delayed_add() {
    let (queue, clock) = delaying();
    queue.add_after("a", 10 * MS).unwrap();
    assert_eq!(queue.add("a"), Ok(MOVED));
    assert_eq!(figures(queue.stats()), [1, 0, 0, 0, 0]);
    assert_eq!(take_all(&queue), ["a"]);
    clock.advance(10 * MS);
    assert!(is_empty(&queue.try_get()), "there is no second delivery");
}

#[test]
fn a_delayed_add_of_a_ready_or_dirty_key_is_merged() {
    let (queue, clock) = delaying();
    queue.add("a").unwrap();
    assert_eq!(queue.add_after("a", MS), Ok(MERGED));
    let held = get(&queue);
    queue.add("a").unwrap();
    assert_eq!(queue.add_after("a", MS), Ok(MERGED));
    assert_eq!(figures(queue.stats()), [0, 1, 1, 0, 0]);
    drop(held);
    assert_eq!(take_all(&queue), ["a"]);
    clock.advance(MS);
    assert!(is_empty(&queue.try_get()));
}

#[test]
fn a_key_that_falls_due_while_it_is_held_is_delivered_after_its_release() {
    let (queue, clock) = delaying();
    queue.add("a").unwrap();
    let held = get(&queue);
    assert_eq!(queue.add_after("a", MS), Ok(NEW));
    assert_eq!(figures(queue.stats()), [0, 1, 0, 1, 0]);
    clock.advance(MS);
    assert_eq!(figures(queue.stats()), [0, 1, 1, 0, 0], "it is dirty");
    drop(held);
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn a_key_released_before_it_falls_due_keeps_its_time() {
    let (queue, clock) = delaying();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add_after("a", 2 * MS).unwrap();
    clock.advance(MS);
    drop(held);
    assert_eq!(figures(queue.stats()), [0, 0, 0, 1, 0]);
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn the_longest_delays_never_end_and_block_no_other_key() {
    let (queue, clock) = delaying();
    queue.add_after("never", Duration::MAX).unwrap();
    queue
        .add_after("centuries", Duration::from_secs(u64::MAX / 2))
        .unwrap();
    queue.add_after("soon", MS).unwrap();
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["soon"]);
    clock.advance(Duration::from_secs(24 * 365 * 100 * 3600));
    assert!(is_empty(&queue.try_get()));
    assert!(timed_out(&queue.get_timeout(Duration::ZERO)));
    assert_eq!(queue.add("never"), Ok(MOVED), "it can be had still");
    let left = queue.drain_timeout(clock.now()).leftovers.unwrap();
    assert_eq!(left.ready, ["never"]);
    assert_eq!(left.delayed[0].due, None);
}

#[test]
fn a_key_that_falls_due_queues_behind_ready_keys() {
    let (queue, clock) = delaying();
    queue.add_after("delayed", MS).unwrap();
    queue.add("before").unwrap();
    clock.advance(MS);
    queue.add("after").unwrap();
    assert_eq!(take_all(&queue), ["before", "delayed", "after"]);
}

#[test]
fn a_key_that_has_fallen_due_is_delivered_before_keys_added_later() {
    let (queue, clock) = delaying();
    for key in ["a", "b"] {
        queue.add(key).unwrap();
    }
    queue.add_after("due", MS).unwrap();
    clock.advance(2 * MS);
    let first = get(&queue);
    first.done();
    queue.add("late").unwrap();
    assert_eq!(take_all(&queue), ["b", "due", "late"]);
}

#[test]
fn a_retry_after_a_delay_counts_nothing_and_keeps_an_earlier_time() {
    let (queue, clock) = delaying();
    queue.add("a").unwrap();
    let held = get(&queue);
    assert_eq!(held.retry_after(10 * MS), crate::support::after(10));
    assert_eq!(figures(queue.stats()), [0, 0, 0, 1, 0]);
    clock.advance(10 * MS);
    let held = get(&queue);
    queue.add_after("a", MS).unwrap();
    held.retry_after(10 * MS);
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["a"]);
    assert_eq!(figures(queue.stats()), [0; 5]);
}
