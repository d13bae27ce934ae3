//! Waiting until the queue is idle: threads and futures, for every way to remove the last entry.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use delay_queue::{DelayQueue, EntryId, ManualClock};
use testkit::{CountingWaker, waker_fn};

use crate::support::{NOW, SECOND, poll, poll_with, queue};

type Numbers = DelayQueue<u32, ManualClock>;

#[testkit::test]
fn a_wait_for_an_idle_queue_returns_at_once() {
    let (queue, clock) = queue::<u32>();
    queue.wait_idle();
    assert!(queue.wait_idle_timeout(NOW));
    assert!(queue.wait_idle_timeout(sync_shim::Clock::now(&clock)));
    let mut future = queue.wait_idle_async();
    assert!(poll(&mut future).is_ready());
    assert!(poll(&mut future).is_ready());
}

#[testkit::test]
fn a_wait_for_an_idle_queue_times_out() {
    let (queue, clock) = queue();
    queue.push(1, Duration::MAX).unwrap();
    assert!(!queue.wait_idle_timeout(NOW));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| queue.wait_idle_timeout(SECOND));
        clock.wait_for_sleepers(1);
        clock.advance(SECOND);
        assert!(!waiter.join().unwrap());
    });
    assert_eq!(queue.len(), 1);
}

#[testkit::test]
fn every_way_to_remove_the_last_entry_ends_the_wait() {
    let ways: [fn(&Numbers, EntryId); 6] = [
        |queue, _| _ = queue.try_take().unwrap(),
        |queue, _| _ = queue.drain_ready(9),
        |queue, _| _ = queue.take_many(&mut Vec::new(), NonZeroUsize::MAX).unwrap(),
        |queue, id| _ = queue.cancel(id).unwrap(),
        |queue, _| queue.clear(),
        |queue, _| _ = queue.close_now(),
    ];
    for take in ways {
        let (queue, _clock) = queue();
        let first = queue.push(1, NOW).unwrap();
        let second = queue.push(2, NOW).unwrap();
        let waker = CountingWaker::new();
        let mut future = queue.wait_idle_async();
        assert!(poll_with(&mut future, &waker.waker()).is_pending());
        assert!(poll_with(&mut future, &waker.waker()).is_pending());
        queue.cancel(first);
        assert_eq!(waker.wakes(), 0);
        take(&queue, second);
        assert_eq!(waker.wakes(), 1);
        assert!(poll(&mut future).is_ready());
    }
}

#[testkit::test]
fn a_later_push_does_not_revoke_the_end_of_a_wait() {
    let (queue, _clock) = queue();
    queue.push(1, NOW).unwrap();
    let mut future = queue.wait_idle_async();
    assert!(poll(&mut future).is_pending());
    queue.try_take().unwrap();
    queue.push(2, NOW).unwrap();
    assert!(poll(&mut future).is_ready());
    assert!(poll(&mut future).is_pending());
}

#[testkit::test]
fn a_queue_that_admits_a_waiting_pusher_is_not_idle() {
    let builder = DelayQueue::builder().clock(ManualClock::new()).bound(1);
    let queue = builder.build().unwrap();
    queue.push(1, NOW).unwrap();
    let mut pusher = queue.push_async(2, NOW);
    assert!(poll(&mut pusher).is_pending());
    let mut future = queue.wait_idle_async();
    assert!(poll(&mut future).is_pending());
    queue.try_take().unwrap();
    assert!(poll(&mut future).is_pending());
    queue.try_take().unwrap();
    assert!(poll(&mut future).is_ready());
}

#[testkit::test]
fn wakers_may_call_back_and_panic() {
    let (queue, _clock) = queue();
    queue.push(1, NOW).unwrap();
    let again = queue.clone();
    let wakers = [
        waker_fn(|| panic!("a waker")),
        waker_fn(move || {
            again.wait_idle();
            again.push(2, NOW).unwrap();
        }),
    ];
    let mut futures = wakers.each_ref().map(|_| queue.wait_idle_async());
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_with(future, waker).is_pending());
    }
    assert_eq!(queue.try_take().unwrap().value, 1);
    assert!(futures.iter_mut().all(|future| poll(future).is_ready()));
    assert_eq!(queue.len(), 1);
}

#[cfg(feature = "channel")]
#[testkit::test]
fn an_offered_entry_keeps_the_queue_from_being_idle() {
    let (queue, _clock) = queue();
    let (receiver, feeder) = queue.channel(0).unwrap();
    queue.push(1, NOW).unwrap();
    crate::support::until(|| queue.is_empty());
    assert!(!queue.wait_idle_timeout(NOW));
    let mut future = queue.wait_idle_async();
    assert!(poll(&mut future).is_pending());
    assert_eq!(receiver.recv().unwrap().value, 1);
    testkit::block_on(future);
    feeder.stop();
}
