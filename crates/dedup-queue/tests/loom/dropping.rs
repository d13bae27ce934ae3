//! Futures that are dropped, in each of their states, while they are being notified.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::future::block_on;
use sync_shim::model::spawn;

use dedup_queue::{Clock, Drained, Outcome};

use super::{SECOND, beside, delaying, is_at_rest, plain};

/// Polls once, with a waker that does nothing.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The number of delayed keys that these drains have returned.
fn delayed(drained: impl IntoIterator<Item = Drained<u32>>) -> usize {
    let left = drained.into_iter().filter_map(|drained| drained.leftovers);
    left.map(|left| left.delayed.len()).sum()
}

#[testkit::model(preemptions = 3)]
fn a_drain_dropped_as_the_last_done_ends_it_leaves_the_rest_to_the_next() {
    let (queue, _clock) = delaying();
    queue.add(1).unwrap();
    queue.add_after(2, SECOND).unwrap();
    let held = queue.get().unwrap().into_owned();
    let mut drain = queue.drain_async();
    assert!(poll(&mut drain).is_pending());
    let worker = spawn(move || drop(held));
    drop(drain);
    // Even if the worker has not reported the end yet, the next drain must not overtake it.
    let next = queue.drain();
    worker.join().unwrap();
    assert_eq!(next.outcome, Outcome::Finished);
    // The next drain may have run while the leftovers were being put back. Then a third one gets
    // them.
    assert_eq!(delayed([next, queue.drain()]), 1);
    is_at_rest(&queue);
}

/// The same with another drain at the same time: one of the two, or the next one, returns the rest.
#[testkit::model(preemptions = 3)]
fn a_drain_dropped_as_it_ends_leaves_the_rest_to_another_drain() {
    let (queue, _clock) = delaying();
    queue.add(1).unwrap();
    queue.add_after(2, SECOND).unwrap();
    let held = queue.get().unwrap().into_owned();
    let mut dropped = queue.drain_async();
    assert!(poll(&mut dropped).is_pending());
    let mut other = queue.drain_async();
    assert!(poll(&mut other).is_pending());
    let worker = spawn(move || drop(held));
    drop(dropped);
    worker.join().unwrap();
    let Poll::Ready(other) = poll(&mut other) else {
        panic!("the drains have ended")
    };
    assert_eq!(delayed([other, queue.drain()]), 1);
    is_at_rest(&queue);
}

#[testkit::model(preemptions = 2)]
fn a_drain_dropped_at_the_deadline_of_another_leaves_the_rest_to_that() {
    let (queue, clock) = delaying();
    queue.add(1).unwrap();
    queue.add_after(2, 2 * SECOND).unwrap();
    let held = queue.get().unwrap();
    let mut dropped = queue.drain_async();
    assert!(poll(&mut dropped).is_pending());
    let timed = {
        let (queue, now) = (queue.clone(), clock.now());
        spawn(move || queue.drain_timeout(now))
    };
    drop(dropped);
    let timed = timed.join().unwrap();
    assert_eq!(timed.outcome, Outcome::TimedOut);
    drop(held);
    assert_eq!(delayed([timed, queue.drain()]), 1);
    is_at_rest(&queue);
}

#[testkit::model(preemptions = 3)]
fn a_drain_dropped_as_a_shut_down_ends_it_leaves_the_rest_in_the_queue() {
    let (queue, _clock) = delaying();
    queue.add(1).unwrap();
    queue.add_after(2, SECOND).unwrap();
    let mut drain = queue.drain_async();
    assert!(poll(&mut drain).is_pending());
    let closer = beside(&queue, |queue| {
        assert!(!queue.shut_down(), "the drain has refused adds before");
    });
    drop(drain);
    closer.join().unwrap();
    assert_eq!(*queue.get().unwrap(), 1);
    assert_eq!(delayed([queue.drain()]), 1);
    is_at_rest(&queue);
}

/// The drain is polled with another waker: it is ready, or the new waker is called.
#[testkit::model(preemptions = 3)]
fn a_drain_polled_again_as_it_ends_is_woken_or_ready() {
    let queue = plain();
    queue.add(1).unwrap();
    let held = queue.get().unwrap().into_owned();
    let mut drain = queue.drain_async();
    assert!(poll(&mut drain).is_pending());
    let worker = spawn(move || drop(held));
    assert_eq!(block_on(drain).outcome, Outcome::Finished);
    worker.join().unwrap();
    is_at_rest(&queue);
}

/// The other future is notified, and its alarm is set.
#[testkit::model(preemptions = 2)]
fn a_future_dropped_as_its_alarm_rings_leaves_the_keys_to_the_other_future() {
    let (queue, clock) = delaying();
    queue.add_after(1, SECOND).unwrap();
    let mut dropped = queue.get_async();
    assert!(poll(&mut dropped).is_pending());
    let other = beside(&queue, |queue| *block_on(queue.get_async()).unwrap());
    let time = spawn(move || clock.advance(SECOND));
    drop(dropped);
    assert_eq!(other.join().unwrap(), 1);
    time.join().unwrap();
    is_at_rest(&queue);
}

/// The future is polled again while another one takes its key: it waits again, and is notified of
/// the next key.
#[testkit::model(preemptions = 3)]
fn a_notified_future_that_comes_too_late_is_notified_of_the_next_key() {
    let queue = plain();
    let mut late = queue.get_async();
    assert!(poll(&mut late).is_pending());
    queue.add(1).unwrap();
    let taker = beside(&queue, move |queue| {
        let taken = queue.try_get().map(drop).is_ok();
        queue.add(2).unwrap();
        taken
    });
    let got = *block_on(late).unwrap();
    let was_taken = taker.join().unwrap();
    assert_eq!(got, if was_taken { 2 } else { 1 });
    assert_eq!(queue.stats().waiting, 0);
}

#[testkit::model(preemptions = 2)]
fn an_owned_guard_dropped_racing_a_drain_and_a_getter_ends_the_drain_and_wakes_the_getter() {
    let queue = plain();
    queue.add(1).unwrap();
    let held = queue.get().unwrap().into_owned();
    let getter = beside(&queue, |queue| queue.get().map(drop).is_err());
    let worker = spawn(move || drop(held));
    assert_eq!(queue.drain().outcome, Outcome::Finished);
    assert!(getter.join().unwrap());
    worker.join().unwrap();
    is_at_rest(&queue);
}

/// The add notifies another future. A future that has a key, or was dropped, does not count as
/// waiting.
#[testkit::model(preemptions = 3)]
fn a_future_polled_without_a_notification_stops_waiting_once_it_has_a_key() {
    let queue = plain();
    let mut called = queue.get_async();
    let mut other = queue.get_async();
    assert!(poll(&mut called).is_pending());
    assert!(poll(&mut other).is_pending());
    let adder = beside(&queue, |queue| _ = queue.add(1).unwrap());
    let got = poll(&mut other).is_ready();
    adder.join().unwrap();
    assert_eq!(queue.stats().waiting, usize::from(!got));
    drop(other);
    assert_eq!(poll(&mut called).is_ready(), !got);
    drop(called);
    is_at_rest(&queue);
}
