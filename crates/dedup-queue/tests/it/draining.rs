//! `drain`: which keys it waits for, how it ends, and which drain returns the rest.

use std::thread;

use dedup_queue::{Outcome, Pending};
use sync_shim::Clock;
use testkit::{CountingWaker, block_on};

use crate::support::{
    MS, delaying, figures, get, is_closed, is_empty, plain, poll, poll_with, retrying, take_all,
    until,
};

#[testkit::test]
fn a_drain_waits_until_every_held_key_is_released() {
    let queue = plain();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    let (a, b) = (get(&queue), get(&queue));
    thread::scope(|scope| {
        let drain = scope.spawn(|| queue.drain());
        until(|| queue.stats().draining == 1);
        drop(a);
        assert_eq!(queue.stats().draining, 1, "one key is still held");
        drop(b);
        let drained = drain.join().unwrap();
        assert_eq!(drained.outcome, Outcome::Finished);
        assert!(drained.leftovers.unwrap().is_empty());
    });
    assert!(is_closed(&queue.get()));
}

/// client-go's drain checks only keys in process, so it returns while keys are queued.
#[testkit::test]
fn a_drain_waits_for_ready_keys_without_a_worker() {
    let queue = plain();
    queue.add("a").unwrap();
    thread::scope(|scope| {
        let drain = scope.spawn(|| queue.drain().outcome);
        until(|| queue.stats().draining == 1);
        assert!(
            queue.add("b").is_err(),
            "a drain refuses adds from its start"
        );
        drop(get(&queue));
        assert_eq!(drain.join().unwrap(), Outcome::Finished);
    });
}

/// In client-go one of two drains may never be woken.
#[testkit::test]
fn two_drains_end_together_and_the_first_returns_the_rest() {
    let (queue, _clock) = delaying();
    queue.add("a").unwrap();
    queue.add_after("later", MS).unwrap();
    let held = get(&queue);
    thread::scope(|scope| {
        let first = scope.spawn(|| queue.drain());
        until(|| queue.stats().draining == 1);
        let second = scope.spawn(|| queue.drain());
        until(|| queue.stats().draining == 2);
        drop(held);
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert_eq!([first.outcome, second.outcome], [Outcome::Finished; 2]);
        assert_eq!(first.leftovers.unwrap().delayed[0].key, "later");
        assert_eq!(second.leftovers, None);
    });
}

#[testkit::test]
fn a_dirty_key_is_delivered_during_a_drain() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add("a").unwrap();
    thread::scope(|scope| {
        let drain = scope.spawn(|| queue.drain().outcome);
        until(|| queue.stats().draining == 1);
        assert!(is_empty(&queue.try_get()), "not closed: it comes again");
        drop(held);
        assert_eq!(queue.stats().draining, 1);
        drop(get(&queue));
        assert_eq!(drain.join().unwrap(), Outcome::Finished);
    });
    assert!(is_closed(&queue.try_get()));
}

#[test]
fn a_drain_of_an_idle_queue_returns_at_once() {
    let (queue, clock) = delaying();
    queue.add_after("late", 2 * MS).unwrap();
    queue.add_after("early", MS).unwrap();
    let due = clock.now() + MS;
    let drained = queue.drain();
    assert_eq!(drained.outcome, Outcome::Finished);
    let left = drained.leftovers.unwrap();
    assert!(left.ready.is_empty() && left.held.is_empty());
    let keys: Vec<_> = left.delayed.iter().map(|delayed| delayed.key).collect();
    assert_eq!(keys, ["early", "late"], "the earliest first");
    assert_eq!(left.delayed[0].due, Some(due));
    let again = queue.drain();
    assert_eq!(again.outcome, Outcome::Finished);
    assert!(
        again.leftovers.unwrap().is_empty(),
        "it was taken by the first"
    );
}

#[testkit::test]
fn a_drain_stops_deliveries_at_its_deadline_and_returns_the_rest() {
    let (queue, clock) = delaying();
    for key in ["held", "dirty", "put off", "ready"] {
        queue.add(key).unwrap();
    }
    let guards = [get(&queue), get(&queue), get(&queue)];
    queue.add("dirty").unwrap();
    queue.add_after("put off", 20 * MS).unwrap();
    queue.add_after("later", 10 * MS).unwrap();
    let later = clock.now() + 10 * MS;
    thread::scope(|scope| {
        let drain = scope.spawn(|| queue.drain_timeout(5 * MS));
        clock.wait_for_sleepers(1);
        let worker = scope.spawn(|| {
            // The thread would add "ready" before the deadline only if that came later.
            drop(queue.get());
            is_closed(&queue.get())
        });
        until(|| queue.stats().waiting == 1);
        clock.advance(5 * MS);
        let drained = drain.join().unwrap();
        assert_eq!(drained.outcome, Outcome::TimedOut);
        assert!(worker.join().unwrap(), "delivery has stopped");
        let mut left = drained.leftovers.unwrap();
        assert!(left.ready.is_empty());
        assert_eq!(left.delayed.len(), 1);
        assert_eq!(
            (left.delayed[0].key, left.delayed[0].due),
            ("later", Some(later))
        );
        left.held.sort_by_key(|held| held.key);
        let held: Vec<_> = left
            .held
            .iter()
            .map(|held| (held.key, held.pending))
            .collect();
        assert_eq!(
            held,
            [
                ("dirty", Some(Pending::Dirty)),
                ("held", None),
                ("put off", Some(Pending::Delayed))
            ]
        );
        assert_eq!(left.held[2].due, Some(clock.now() + 15 * MS));
    });
    assert_eq!(figures(queue.stats()), [0, 3, 0, 0, 0]);
    drop(guards);
    assert_eq!(
        figures(queue.stats()),
        [0; 5],
        "returned keys are not delivered again"
    );
}

#[test]
fn a_drain_with_a_past_deadline_returns_all_keys_at_once() {
    let (queue, clock) = delaying();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    let held = get(&queue);
    let drained = queue.drain_timeout(clock.now());
    assert_eq!(drained.outcome, Outcome::TimedOut);
    let left = drained.leftovers.unwrap();
    assert_eq!(left.ready, ["b"]);
    assert_eq!(left.held[0].key, "a");
    assert!(is_closed(&queue.get()));
    drop(held);
}

#[testkit::test]
fn the_earliest_deadline_ends_all_drains_and_the_first_drain_returns_the_rest() {
    let (queue, clock) = delaying();
    queue.add("a").unwrap();
    let _held = get(&queue);
    thread::scope(|scope| {
        let patient = scope.spawn(|| queue.drain());
        until(|| queue.stats().draining == 1);
        let hasty = scope.spawn(|| queue.drain_timeout(MS));
        clock.wait_for_sleepers(1);
        until(|| queue.stats().draining == 2);
        clock.advance(MS);
        let (patient, hasty) = (patient.join().unwrap(), hasty.join().unwrap());
        assert_eq!([patient.outcome, hasty.outcome], [Outcome::TimedOut; 2]);
        assert_eq!(patient.leftovers.unwrap().held[0].key, "a");
        assert_eq!(hasty.leftovers, None);
    });
}

#[test]
fn a_retry_after_the_deadline_of_a_drain_is_left_for_the_next_drain() {
    let (queue, clock) = retrying();
    queue.add("a").unwrap();
    let held = get(&queue);
    let left = queue.drain_timeout(clock.now()).leftovers.unwrap();
    assert_eq!(left.held[0].key, "a");
    assert_eq!(held.retry(), dedup_queue::Retried::Left);
    let left = queue.drain().leftovers.unwrap();
    assert_eq!(left.delayed[0].key, "a", "it is not lost");
    assert_eq!(figures(queue.stats()), [0; 5]);
}

#[testkit::test]
fn a_drain_ends_when_the_last_ready_key_is_removed() {
    let queue = plain();
    queue.add("a").unwrap();
    thread::scope(|scope| {
        let drain = scope.spawn(|| queue.drain().outcome);
        until(|| queue.stats().draining == 1);
        queue.remove(&"a");
        assert_eq!(drain.join().unwrap(), Outcome::Finished);
    });
}

#[testkit::test]
fn a_drain_after_a_shut_down_waits_like_any_other() {
    let queue = plain();
    queue.add("a").unwrap();
    queue.shut_down();
    thread::scope(|scope| {
        let drain = scope.spawn(|| queue.drain().outcome);
        until(|| queue.stats().draining == 1);
        assert_eq!(take_all(&queue), ["a"]);
        assert_eq!(drain.join().unwrap(), Outcome::Finished);
    });
}

#[testkit::test]
fn a_drain_future_is_woken_at_its_end() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue);
    let mut drain = queue.drain_async();
    assert!(queue.add("b").is_ok(), "it begins with the first poll");
    let (early, late) = (CountingWaker::new(), CountingWaker::new());
    assert!(poll_with(&mut drain, &early.waker()).is_pending());
    assert!(queue.add("c").is_err());
    assert!(poll_with(&mut drain, &late.waker()).is_pending());
    drop(held);
    drop(get(&queue));
    assert_eq!(
        (early.wakes(), late.wakes()),
        (0, 1),
        "the last waker counts"
    );
    let drained = block_on(drain);
    assert_eq!(drained.outcome, Outcome::Finished);
    assert!(drained.leftovers.unwrap().is_empty());
}

#[test]
fn the_answer_of_a_dropped_drain_goes_to_the_next_one() {
    let (queue, _clock) = delaying();
    queue.add("a").unwrap();
    queue.add_after("later", MS).unwrap();
    let held = get(&queue);
    let mut waits = queue.drain_async();
    let mut told = queue.drain_async();
    assert!(poll(&mut waits).is_pending());
    assert!(poll(&mut told).is_pending());
    drop(waits); // That drain has ended, so the second one is the first now.
    assert_eq!(queue.stats().draining, 1);
    drop(held);
    assert_eq!(queue.stats().draining, 0);
    drop(told);
    let left = queue.drain().leftovers.unwrap();
    assert_eq!(left.delayed[0].key, "later");
}

/// After a drain, client-go's delaying layer has no loop any more, and an `AddAfter` may block
/// forever. This queue has no such loop.
#[test]
fn a_drained_queue_refuses_delayed_adds_and_leaves_no_sleeper_behind() {
    let (queue, clock) = delaying();
    queue.add_after("a", MS).unwrap();
    assert_eq!(queue.drain().outcome, Outcome::Finished);
    for _ in 0..2000 {
        assert!(queue.add_after("b", MS).is_err());
    }
    assert_eq!(clock.sleepers(), 0);
}
