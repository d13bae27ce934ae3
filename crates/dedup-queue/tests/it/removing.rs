//! Cancelling a delivery.

use dedup_queue::{DedupQueue, Pending};

use crate::support::{MS, delaying, figures, get, is_empty, plain, retrying, take_all};

#[test]
fn a_removed_ready_key_is_not_delivered_and_the_others_keep_their_order() {
    let queue = plain();
    for key in ["a", "b", "c", "d"] {
        queue.add(key).unwrap();
    }
    assert_eq!(queue.remove(&"c"), Some(Pending::Ready));
    assert_eq!(queue.remove(&"c"), None);
    assert_eq!(queue.remove(&"a"), Some(Pending::Ready));
    assert_eq!(queue.remove(&"d"), Some(Pending::Ready));
    queue.add("e").unwrap();
    assert_eq!(take_all(&queue), ["b", "e"]);
}

#[test]
fn removing_a_held_key_cancels_its_next_delivery_only() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue);
    assert_eq!(queue.remove(&"a"), None, "it is owed nothing");
    queue.add("a").unwrap();
    assert_eq!(queue.remove(&"a"), Some(Pending::Dirty));
    assert_eq!(figures(queue.stats()), [0, 1, 0, 0, 0]);
    drop(held);
    assert!(is_empty(&queue.try_get()));
}

#[test]
fn remove_delayed_cancels_only_a_delayed_add() {
    let (queue, clock) = delaying();
    queue.add_after("a", MS).unwrap();
    assert!(queue.remove_delayed(&"a"));
    assert!(!queue.remove_delayed(&"a"));
    queue.add("b").unwrap();
    assert!(!queue.remove_delayed(&"b"), "it is owed now");
    let held = get(&queue);
    queue.add_after("b", MS).unwrap();
    assert!(queue.remove_delayed(&"b"));
    drop(held);
    queue.add_after("c", MS).unwrap();
    assert_eq!(queue.remove(&"c"), Some(Pending::Delayed));
    clock.advance(MS);
    assert!(is_empty(&queue.try_get()));
    assert_eq!(figures(queue.stats()), [0; 5]);
}

#[test]
fn remove_delayed_does_not_cancel_an_add_that_has_fallen_due() {
    let (queue, clock) = delaying();
    queue.add_after("a", MS).unwrap();
    clock.advance(MS);
    assert!(!queue.remove_delayed(&"a"));
    assert_eq!(queue.remove(&"a"), Some(Pending::Ready));
}

#[test]
fn a_removed_key_keeps_its_failures_until_they_are_forgotten() {
    let (queue, _clock) = retrying();
    queue.add_rate_limited("a").unwrap();
    assert_eq!(queue.remove(&"a"), Some(Pending::Delayed));
    assert_eq!(queue.failures(&"a"), 1);
    queue.forget(&"a");
    assert_eq!(figures(queue.stats()), [0; 5]);
}

#[test]
fn keys_can_be_looked_up_by_a_borrowed_form() {
    let queue = DedupQueue::<String>::new();
    queue.add("a".to_owned()).unwrap();
    assert_eq!(queue.remove("a"), Some(Pending::Ready));
    assert_eq!(queue.remove("b"), None);
}
