//! Waiting until no key is pending or held.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use dedup_queue::{Clock, DedupQueue};
use testkit::{CountingWaker, waker_fn, waker_whose_clone_panics};

use crate::support::{MS, delaying, get, plain, poll, poll_with, retrying};

#[testkit::test]
fn a_queue_without_keys_is_idle_at_once() {
    let (queue, clock) = delaying();
    queue.wait_idle();
    assert!(queue.wait_idle_timeout(MS));
    assert!(queue.wait_idle_timeout(clock.now()));
    assert!(poll(&mut queue.wait_idle_async()).is_ready());
}

#[testkit::test]
fn a_wait_for_idleness_waits_for_ready_held_dirty_and_delayed_keys() {
    let (queue, clock) = delaying();
    let waker = CountingWaker::new();
    let mut idle = queue.wait_idle_async();
    queue.add("a").unwrap();
    queue.add_after("b", MS).unwrap();
    assert!(poll_with(&mut idle, &waker.waker()).is_pending());
    let held = get(&queue);
    queue.add("a").unwrap();
    drop(held);
    get(&queue).done();
    clock.advance(MS);
    let held = get(&queue);
    assert_eq!(waker.wakes(), 0, "a key is held");
    drop(held);
    assert_eq!(waker.wakes(), 1);
    queue.add("c").unwrap();
    assert!(
        poll(&mut idle).is_ready(),
        "the queue was idle and is busy again"
    );
    assert_eq!(waker.wakers(), 0);
}

#[testkit::test]
fn a_wait_for_idleness_ends_when_the_last_key_is_removed() {
    let (queue, _clock) = delaying();
    for delayed in [false, true] {
        _ = if delayed {
            queue.add_after("a", MS)
        } else {
            queue.add("a")
        };
        let mut idle = queue.wait_idle_async();
        assert!(poll(&mut idle).is_pending());
        queue.remove(&"a").unwrap();
        assert!(poll(&mut idle).is_ready());
    }
}

#[testkit::test]
fn a_queue_that_remembers_failures_is_idle() {
    let (queue, clock) = retrying();
    queue.add("a").unwrap();
    get(&queue).retry();
    let mut idle = queue.wait_idle_async();
    assert!(poll(&mut idle).is_pending(), "it is to be tried again");
    clock.advance(1000 * MS);
    get(&queue).done();
    assert_eq!(queue.stats().resting, 1);
    assert!(poll(&mut idle).is_ready());
}

#[testkit::test]
fn a_shut_down_queue_with_delayed_keys_is_idle() {
    let (queue, _clock) = delaying();
    queue.add("a").unwrap();
    queue.add_after("later", MS).unwrap();
    let mut idle = queue.wait_idle_async();
    queue.shut_down();
    assert!(
        poll(&mut idle).is_pending(),
        "ready keys are still delivered"
    );
    get(&queue).done();
    assert!(poll(&mut idle).is_ready());
}

#[testkit::test]
fn every_waiting_thread_and_future_is_woken_when_a_queue_becomes_idle() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = queue.get().unwrap();
    let mut futures = [(); 3].map(|()| queue.wait_idle_async());
    assert!(futures.iter_mut().all(|idle| poll(idle).is_pending()));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| queue.wait_idle());
        }
        drop(held);
    });
    assert!(futures.iter_mut().all(|idle| poll(idle).is_ready()));
}

#[testkit::test]
fn a_wait_for_idleness_ends_at_its_deadline_and_leaves_no_waiter_behind() {
    let (queue, clock) = delaying();
    queue.add("a").unwrap();
    assert!(!queue.wait_idle_timeout(clock.now()));
    let waker = CountingWaker::new();
    let mut idle = queue.wait_idle_async();
    assert!(poll_with(&mut idle, &waker.waker()).is_pending());
    drop(idle);
    assert_eq!(waker.wakers(), 0);
    get(&queue).done();
    assert_eq!(waker.wakes(), 0);
}

#[testkit::test]
fn wakers_of_waits_for_idleness_may_panic_and_use_the_queue() {
    let queue = DedupQueue::<u32>::new();
    queue.add(1).unwrap();
    let mut fragile = queue.wait_idle_async();
    let polled = catch_unwind(AssertUnwindSafe(|| {
        poll_with(&mut fragile, &waker_whose_clone_panics())
    }));
    assert!(polled.is_err());
    let panics = waker_fn(|| panic!("broken on purpose"));
    assert!(poll_with(&mut fragile, &panics).is_pending());
    let mut nosy = queue.wait_idle_async();
    let again = queue.clone();
    let reenters = waker_fn(move || {
        again.add(2).unwrap();
        again.get().unwrap().done();
        again.wait_idle();
    });
    assert!(poll_with(&mut nosy, &reenters).is_pending());
    queue.get().unwrap().done();
    assert!(poll(&mut fragile).is_ready() && poll(&mut nosy).is_ready());
    assert!(queue.is_empty());
}
