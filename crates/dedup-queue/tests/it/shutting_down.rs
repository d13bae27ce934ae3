//! `shut_down`: it refuses adds, delivers ready keys, and closes the queue for good.

use std::thread;
use std::time::Duration;

use dedup_queue::{Outcome, Retried};
use testkit::block_on;

use crate::support::{
    MS, Queue, after, delaying, figures, get, is_closed, is_empty, plain, retrying, take_all, until,
};

#[test]
fn an_add_after_a_shut_down_returns_the_key() {
    let (queue, _clock) = retrying();
    assert!(!queue.is_shut_down());
    assert!(queue.shut_down());
    assert!(!queue.shut_down(), "the queue is already shut down");
    assert!(queue.is_shut_down());
    assert_eq!(queue.add("a").unwrap_err().into_key(), "a");
    assert_eq!(queue.add_after("b", MS).unwrap_err().into_key(), "b");
    assert_eq!(queue.add_rate_limited("c").unwrap_err().into_key(), "c");
    assert_eq!(queue.failures(&"c"), 0, "a refused key is not counted");
    assert_eq!(figures(queue.stats()), [0; 5]);
}

#[test]
fn ready_keys_are_delivered_after_a_shut_down() {
    let queue = plain();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    queue.shut_down();
    assert_eq!(take_all(&queue), ["a", "b"]);
    assert!(is_closed(&queue.try_get()));
    assert!(is_closed(&queue.get()));
}

#[testkit::test]
fn getters_wait_for_a_dirty_key_after_a_shut_down() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add("a").unwrap();
    queue.shut_down();
    assert!(is_empty(&queue.try_get()), "another delivery of it is owed");
    let other = {
        let queue = queue.clone();
        thread::spawn(move || queue.get().map(|held| *held))
    };
    until(|| queue.stats().waiting == 1);
    drop(held);
    assert_eq!(other.join().unwrap().unwrap(), "a");
    for _ in 0..3 {
        assert!(is_closed(&queue.get()));
    }
}

#[test]
fn getters_do_not_wait_for_a_clean_held_key_after_a_shut_down() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.shut_down();
    assert!(
        is_closed(&queue.get()),
        "the key cannot become ready any more"
    );
    drop(held);
    assert!(is_closed(&queue.get()));
}

#[testkit::test]
fn a_shut_down_wakes_every_waiting_worker() {
    let queue = plain();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| is_closed(&queue.get())))
            .collect();
        let future = scope.spawn(|| is_closed(&block_on(queue.get_async())));
        until(|| queue.stats().waiting == 4);
        queue.shut_down();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        assert!(future.join().unwrap());
    });
}

#[testkit::test]
fn the_last_key_taken_after_a_shut_down_ends_the_other_getters() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add("a").unwrap();
    queue.shut_down();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| queue.get().map(|held| *held).is_ok()))
            .collect();
        until(|| queue.stats().waiting == 3);
        drop(held); // One worker gets the key, which closes the queue for the others.
        let got = workers
            .into_iter()
            .filter(|_| true)
            .map(|worker| worker.join().unwrap());
        assert_eq!(got.filter(|&got| got).count(), 1);
    });
}

#[testkit::test]
fn removing_the_last_dirty_key_ends_the_getters_that_wait_for_it() {
    let queue = plain();
    queue.add("a").unwrap();
    let _held = get(&queue);
    queue.add("a").unwrap();
    queue.shut_down();
    thread::scope(|scope| {
        let worker = scope.spawn(|| is_closed(&queue.get()));
        until(|| queue.stats().waiting == 1);
        assert!(queue.remove(&"a").is_some());
        assert!(worker.join().unwrap());
    });
}

#[test]
fn a_shut_down_does_not_wait_for_held_keys() {
    let queue = plain();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    std::mem::forget([get(&queue), get(&queue)]);
    assert!(queue.shut_down());
    assert_eq!(queue.stats().held, 2);
}

#[testkit::test]
fn a_shut_down_ends_every_drain_and_ready_keys_are_still_delivered() {
    let queue = plain();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    let _never_done = get(&queue);
    thread::scope(|scope| {
        let drains: Vec<_> = (0..2).map(|_| scope.spawn(|| queue.drain())).collect();
        until(|| queue.stats().draining == 2);
        queue.shut_down();
        for drain in drains {
            let drained = drain.join().unwrap();
            assert_eq!(
                (drained.outcome, drained.leftovers),
                (Outcome::ShutDown, None)
            );
        }
    });
    assert_eq!(take_all(&queue), ["b"]);
}

#[test]
fn keys_due_at_the_shut_down_are_delivered_and_later_ones_are_left() {
    let (queue, clock) = delaying();
    queue.add_after("due", MS).unwrap();
    queue.add_after("late", 2 * MS).unwrap();
    clock.advance(MS);
    queue.shut_down();
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["due"]);
    assert!(is_closed(&queue.try_get()));
    assert_eq!(queue.stats().delayed, 1);
    let drained = queue.drain();
    assert_eq!(drained.outcome, Outcome::Finished);
    let left = drained.leftovers.unwrap();
    assert_eq!(left.delayed.len(), 1);
    assert_eq!(left.delayed[0].key, "late");
    assert_eq!(queue.stats().delayed, 0);
}

#[test]
fn a_retry_after_a_shut_down_is_left_over_even_without_a_delay() {
    let (queue, clock) = retrying();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    let [a, b, c] = [get(&queue), get(&queue), get(&queue)];
    queue.add("c").unwrap();
    queue.shut_down();
    assert_eq!(a.retry(), Retried::Left);
    assert_eq!(b.retry_after(Duration::ZERO), Retried::Left);
    assert_eq!(c.retry(), Retried::Ready, "it was owed a delivery before");
    clock.advance(MS * 1000);
    assert_eq!(take_all(&queue), ["c"]);
    let left = queue.drain().leftovers.unwrap();
    let mut keys: Vec<_> = left
        .delayed
        .into_iter()
        .map(|delayed| delayed.key)
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b"]);
}

#[testkit::test]
fn a_leader_whose_wait_ends_after_the_shut_down_finds_the_queue_closed() {
    let (queue, clock) = delaying();
    queue.add("held").unwrap();
    let held = get(&queue);
    queue.add("held").unwrap();
    queue.add_after("late", MS).unwrap();
    thread::scope(|scope| {
        let worker = scope.spawn(|| queue.get().map(|held| *held));
        clock.wait_for_sleepers(1);
        queue.shut_down();
        clock.advance(MS);
        until(|| queue.stats().waiting == 1 && clock.sleepers() == 0);
        drop(held);
        assert_eq!(worker.join().unwrap().unwrap(), "held");
    });
}

#[test]
fn retries_before_a_shut_down_return_their_delay() {
    let (queue, _clock) = retrying();
    queue.add("a").unwrap();
    assert_eq!(get(&queue).retry(), after(5));
}

#[test]
fn a_queue_can_be_dropped_before_its_guards() {
    let queue: Queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue).into_owned();
    drop(queue);
    assert_eq!(*held, "a");
    held.done();
}
