//! Two priorities: the order of deliveries, and that keys of low priority do not starve.

use dedup_queue::{Added, DedupQueue, Pending, Retried};

use crate::support::{
    MERGED, MOVED, MS, NEW, after, delaying, get, is_empty, plain, retrying, take_all,
};

/// Documented: one of this many deliveries is low.
const SHARE: u32 = 8;

#[test]
fn low_keys_are_delivered_after_the_others_in_their_order() {
    let queue = plain();
    for key in ["low 1", "low 2"] {
        assert_eq!(queue.low_priority().add(key), Ok(NEW));
    }
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    assert_eq!((queue.stats().ready, queue.stats().low), (4, 2));
    assert_eq!(take_all(&queue), ["a", "b", "low 1", "low 2"]);
    // Takes the short critical sections again.
    queue.add("c").unwrap();
    assert_eq!(take_all(&queue), ["c"]);
}

#[test]
fn an_add_raises_a_low_key_and_a_low_add_lowers_none() {
    let queue = plain();
    queue.low_priority().add("x").unwrap();
    queue.low_priority().add("y").unwrap();
    queue.add("a").unwrap();
    assert_eq!(queue.add("y"), Ok(MOVED));
    assert_eq!(queue.low_priority().add("y"), Ok(MERGED));
    assert_eq!(queue.add("y"), Ok(MERGED));
    assert_eq!(queue.low_priority().add("x"), Ok(MERGED));
    assert_eq!(take_all(&queue), ["a", "y", "x"]);
}

/// The number of normal keys makes no difference.
#[test]
fn one_of_eight_deliveries_is_low_while_both_lanes_have_keys() {
    let queue = DedupQueue::<u32>::new();
    let low = 1_000_000;
    for number in 0..3 {
        queue.low_priority().add(low + number).unwrap();
    }
    let mut places = Vec::new();
    for place in 1..=5 * SHARE {
        queue.add(place).unwrap(); // A key of the other lane is always ready.
        queue.add(low - place).unwrap();
        if *queue.get().unwrap() >= low {
            places.push(place);
        }
    }
    assert_eq!(places, [SHARE, 2 * SHARE, 3 * SHARE]);
}

#[test]
fn a_late_low_key_waits_no_longer_than_its_share() {
    let queue = DedupQueue::<u32>::new();
    for key in 1..=3 * SHARE {
        queue.add(key).unwrap();
    }
    for _ in 0..SHARE {
        queue.get().unwrap().done(); // These deliveries passed no low key.
    }
    queue.low_priority().add(0).unwrap();
    let before = std::iter::from_fn(|| queue.try_get().ok().map(|held| *held));
    let passed = before.take_while(|&key| key != 0).count();
    assert_eq!(u32::try_from(passed), Ok(SHARE - 1));
}

#[test]
fn a_low_add_of_a_held_key_is_delivered_in_the_low_lane() {
    let queue = plain();
    queue.add("x").unwrap();
    let held = get(&queue);
    assert_eq!(queue.low_priority().add("x"), Ok(NEW));
    queue.add("a").unwrap();
    drop(held);
    assert_eq!(take_all(&queue), ["a", "x"]);

    queue.add("x").unwrap();
    let held = get(&queue);
    queue.low_priority().add("x").unwrap();
    assert_eq!(queue.add("x"), Ok(MERGED), "but it is not low any more");
    queue.low_priority().add("b").unwrap();
    drop(held);
    assert_eq!(take_all(&queue), ["x", "b"]);
}

#[test]
fn a_retry_has_the_priority_of_the_failed_delivery() {
    for low in [true, false] {
        let (queue, clock) = retrying();
        if low {
            queue.low_priority().add("x").unwrap();
        } else {
            queue.add("x").unwrap();
        }
        assert_eq!(get(&queue).retry(), after(5));
        clock.advance(5 * MS);
        queue.low_priority().add("other").unwrap();
        queue.add("a").unwrap();
        let expected = if low {
            ["a", "x", "other"]
        } else {
            ["x", "a", "other"]
        };
        assert_eq!(take_all(&queue), expected);
    }
}

/// The worker requested the retry with normal priority.
#[test]
fn a_retry_of_a_normal_delivery_raises_a_low_add_made_meanwhile() {
    let (queue, _clock) = retrying();
    queue.low_priority().add("other").unwrap();
    queue.add("x").unwrap();
    let held = get(&queue);
    queue.low_priority().add("x").unwrap();
    assert_eq!(held.retry(), Retried::Ready);
    assert_eq!(take_all(&queue), ["x", "other"]);
}

#[test]
fn a_delayed_key_falls_due_in_its_lane() {
    let (queue, clock) = delaying();
    queue.low_priority().add_after("low", MS).unwrap();
    queue.low_priority().add_after("moved", MS).unwrap();
    assert_eq!(
        queue.add_after("moved", 2 * MS),
        Ok(MERGED),
        "no other time"
    );
    queue.add_after("a", MS).unwrap();
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["moved", "a", "low"]);
}

#[test]
fn a_yielding_low_add_waits_for_the_back_off_and_is_delivered_last() {
    let (queue, clock) = retrying();
    queue.low_priority().add("x").unwrap();
    get(&queue).retry();
    let added = queue.low_priority().add_after_backoff("x");
    assert_eq!(added, Ok(Added::Merged));
    assert!(is_empty(&queue.try_get()));
    clock.advance(5 * MS);
    queue.add("a").unwrap();
    assert_eq!(take_all(&queue), ["a", "x"]);
}

#[test]
fn a_low_key_is_removed_and_left_over_like_any_other() {
    let (queue, clock) = delaying();
    queue.low_priority().add("x").unwrap();
    assert_eq!(queue.remove(&"x"), Some(Pending::Ready));
    assert_eq!(queue.stats().low, 0);
    queue.low_priority().add("y").unwrap();
    queue.add("a").unwrap();
    let left = queue
        .drain_timeout(dedup_queue::Clock::now(&clock))
        .leftovers
        .unwrap();
    assert_eq!(left.ready, ["a", "y"]);
    assert_eq!(queue.low_priority().add("z").unwrap_err().into_key(), "z");
}
