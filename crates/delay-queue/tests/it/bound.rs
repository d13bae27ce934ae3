//! A bounded queue: pushers that wait for room, and the ways to free it.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use delay_queue::{BuildError, DelayQueue, Due, EntryId, ManualClock, PushError};
use sync_shim::Clock;
use testkit::{CountingWaker, DropCounter};

use crate::support::{NOW, SECOND, drain, poll, poll_with, queue, until};

/// A queue with this bound.
fn bound<T: Send + 'static>(bound: usize) -> (DelayQueue<T, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let builder = DelayQueue::<T>::builder().clock(clock.clone());
    (builder.bound(bound).build().unwrap(), clock)
}

type Pushed = Result<EntryId, PushError<u32>>;

/// A thread that pushes and already waits for room.
fn pusher(queue: &DelayQueue<u32, ManualClock>, value: u32) -> JoinHandle<Pushed> {
    let before = queue.stats().waiting_pushers;
    let thread = {
        let queue = queue.clone();
        thread::spawn(move || queue.push(value, NOW))
    };
    until(|| queue.stats().waiting_pushers == before + 1);
    thread
}

#[test]
fn a_bound_of_zero_is_refused() {
    let built = DelayQueue::<()>::builder().bound(0).build();
    assert_eq!(built.unwrap_err(), BuildError::ZeroBound);
    assert_eq!(
        BuildError::ZeroBound.to_string(),
        "a queue's bound must be at least one"
    );
}

#[test]
fn a_push_to_a_full_queue_returns_the_value() {
    let (queue, _clock) = bound(2);
    queue.try_push(1, NOW).unwrap();
    queue.try_push_at(2, queue.clock().now()).unwrap();
    assert_eq!(queue.try_push(3, NOW), Err(PushError::Full(3)));
    assert_eq!(
        queue.try_push_at(3, queue.clock().now()),
        Err(PushError::Full(3))
    );
    assert_eq!(queue.len(), 2);
    queue.try_take().unwrap();
    queue.try_push(3, NOW).unwrap();
}

#[test]
fn a_push_to_an_unbounded_queue_never_waits() {
    let (queue, _clock) = queue();
    for n in 0..10_000 {
        queue.push(n, SECOND).unwrap();
        queue.push_timeout(n, SECOND, NOW).unwrap();
    }
    assert_eq!(queue.stats().waiting_pushers, 0);
}

#[test]
fn a_queue_with_the_largest_bound_can_be_built() {
    let queue = DelayQueue::<u8>::builder().bound(usize::MAX).build();
    queue.unwrap().push(1, NOW).unwrap();
}

#[testkit::test]
fn waiting_pushers_are_admitted_first_come_first_served() {
    let (queue, _clock) = bound(1);
    queue.push(0, NOW).unwrap();
    let one = pusher(&queue, 1);
    let waker = CountingWaker::new();
    let mut two = queue.push_async(2, NOW);
    assert!(poll_with(&mut two, &waker.waker()).is_pending());
    let three = pusher(&queue, 3);
    for n in 0..=3 {
        assert_eq!(queue.try_take().unwrap().value, n);
    }
    assert!(one.join().unwrap().is_ok());
    assert_eq!(waker.wakes(), 1);
    assert!(poll(&mut two).is_ready());
    assert!(three.join().unwrap().is_ok());
}

#[testkit::test]
fn no_push_overtakes_a_waiting_pusher() {
    let (queue, _clock) = bound(1);
    queue.push(0, NOW).unwrap();
    let one = pusher(&queue, 1);
    queue.try_take().unwrap();
    // The place belongs to the waiting pusher, whether or not it has woken up.
    assert_eq!(queue.try_push(2, NOW), Err(PushError::Full(2)));
    assert!(one.join().unwrap().is_ok());
    assert_eq!(drain(&queue), [1]);
}

#[testkit::test]
fn every_way_to_remove_an_entry_frees_its_place() {
    let (queue, _clock) = bound(1);
    let id = queue.push(0, NOW).unwrap();
    let next = pusher(&queue, 1);
    assert_eq!(queue.cancel(id), Some(0));
    next.join().unwrap().unwrap();

    let next = pusher(&queue, 2);
    assert_eq!(queue.drain_ready(1).len(), 1);
    next.join().unwrap().unwrap();

    let next = pusher(&queue, 3);
    queue.clear();
    next.join().unwrap().unwrap();

    let next = pusher(&queue, 4);
    assert_eq!(queue.take().unwrap().value, 3);
    next.join().unwrap().unwrap();

    let mut future = queue.take_async();
    let next = pusher(&queue, 5);
    assert!(poll(&mut future).is_ready());
    next.join().unwrap().unwrap();
    assert_eq!(drain(&queue), [5]);
}

#[testkit::test]
fn a_drain_admits_as_many_pushers_as_it_takes_entries() {
    let (queue, _clock) = bound(3);
    for n in 0..3 {
        queue.push(n, NOW).unwrap();
    }
    let pushers: Vec<_> = (3..8).map(|n| pusher(&queue, n)).collect();
    assert_eq!(drain(&queue), [0, 1, 2]);
    assert_eq!(queue.stats().waiting_pushers, 2);
    assert_eq!(drain(&queue), [3, 4, 5]);
    assert_eq!(drain(&queue), [6, 7]);
    for pusher in pushers {
        pusher.join().unwrap().unwrap();
    }
}

#[testkit::test]
fn the_due_time_is_fixed_at_the_call_and_not_when_the_push_is_admitted() {
    let (queue, clock) = bound(1);
    let start = clock.now();
    queue.push(0, NOW).unwrap();
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || queue.push(1, 5 * SECOND))
    };
    until(|| queue.stats().waiting_pushers == 1);
    let mut future = queue.push_async(2, 6 * SECOND);
    clock.advance(3 * SECOND);
    assert!(poll(&mut future).is_pending());
    queue.try_take().unwrap();
    waiting.join().unwrap().unwrap();
    assert_eq!(queue.peek_due(), Some(Due::At(start + 5 * SECOND)));
    clock.advance(2 * SECOND);
    queue.try_take().unwrap();
    assert!(poll(&mut future).is_ready());
    assert_eq!(queue.peek_due(), Some(Due::At(start + 6 * SECOND)));
}

#[testkit::test]
fn an_admitted_entry_wakes_a_waiting_taker() {
    let (queue, clock) = bound(1);
    queue.push(0, Duration::MAX).unwrap();
    let id = queue.push_async(1, SECOND);
    let mut id = id;
    assert!(poll(&mut id).is_pending());
    let taker = crate::support::taker(&queue);
    crate::support::wait_asleep(&queue, 1);
    queue.clear();
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(taker.join().unwrap().unwrap().value, 1);
}

#[testkit::test]
fn a_push_that_times_out_returns_the_value() {
    let (queue, clock) = bound(1);
    queue.push(0, SECOND).unwrap();
    assert_eq!(queue.push_timeout(1, NOW, NOW), Err(PushError::TimedOut(1)));
    let deadline = clock.now() + SECOND;
    let waiting = [SECOND, 2 * SECOND].map(|timeout| {
        let queue = queue.clone();
        thread::spawn(move || queue.push_timeout(2, NOW, timeout))
    });
    clock.wait_for_sleepers(2);
    clock.advance(SECOND);
    let [short, long] = waiting;
    assert_eq!(short.join().unwrap(), Err(PushError::TimedOut(2)));
    assert_eq!(queue.stats().waiting_pushers, 1);
    queue.try_take().unwrap();
    assert!(long.join().unwrap().is_ok());
    assert_eq!(
        queue.push_timeout(3, NOW, deadline),
        Err(PushError::TimedOut(3)),
        "the deadline has passed"
    );
    queue.try_take().unwrap();
    assert!(
        queue.push_timeout(3, NOW, deadline).is_ok(),
        "there is room"
    );
}

#[test]
fn pushes_at_an_instant_wait_for_room_and_keep_their_due_time() {
    let (queue, clock) = bound(1);
    queue.push(0, NOW).unwrap();
    let due = clock.now() + 5 * SECOND;
    assert_eq!(
        queue.push_at_timeout(1, due, NOW),
        Err(PushError::TimedOut(1))
    );
    let mut future = queue.push_at_async(2, due);
    assert!(poll(&mut future).is_pending());
    queue.try_take().unwrap();
    assert!(poll(&mut future).is_ready());
    assert_eq!(queue.peek_due(), Some(Due::At(due)));
    queue.clear();
    queue.push_at_timeout(3, due, clock.now()).unwrap();
    assert_eq!(queue.peek_due(), Some(Due::At(due)));
}

#[test]
fn a_dropped_push_future_drops_its_value() {
    let (queue, _clock) = bound(1);
    let values = DropCounter::new();
    queue.push(values.token(), NOW).unwrap();
    let unpolled = queue.push_async(values.token(), NOW);
    let mut waiting = queue.push_async(values.token(), NOW);
    assert!(poll(&mut waiting).is_pending());
    assert_eq!(queue.stats().waiting_pushers, 1);
    drop(unpolled);
    assert_eq!(values.alive(), 2);
    drop(waiting);
    assert_eq!((values.alive(), queue.stats().waiting_pushers), (1, 0));
    drop(queue.try_take());
    assert_eq!((values.alive(), queue.len()), (0, 0));
}

#[test]
fn a_push_future_dropped_after_its_admission_leaves_the_entry() {
    let (queue, _clock) = bound(1);
    queue.push(0, NOW).unwrap();
    let mut future = queue.push_async(1, NOW);
    assert!(poll(&mut future).is_pending());
    assert_eq!(drain(&queue), [0]);
    drop(future); // It was admitted but not polled again.
    assert_eq!(drain(&queue), [1]);
}

#[test]
fn a_push_future_is_woken_by_the_waker_of_its_last_poll() {
    let (queue, _clock) = bound(1);
    queue.push(0, NOW).unwrap();
    let (old, new) = (CountingWaker::new(), CountingWaker::new());
    let mut future = queue.push_async(1, NOW);
    assert!(poll_with(&mut future, &old.waker()).is_pending());
    assert!(poll_with(&mut future, &new.waker()).is_pending());
    assert_eq!(old.wakers(), 0, "the old waker is dropped");
    queue.clear();
    assert_eq!((old.wakes(), new.wakes()), (0, 1));
    let std::task::Poll::Ready(Ok(id)) = poll(&mut future) else {
        panic!("there was room");
    };
    assert_eq!(queue.cancel(id), Some(1));
}

#[testkit::test]
fn close_returns_the_values_of_all_waiting_pushers() {
    let (queue, _clock) = bound(1);
    queue.push(0, NOW).unwrap();
    let thread = pusher(&queue, 1);
    let mut future = queue.push_async(2, NOW);
    assert!(poll(&mut future).is_pending());
    let late = queue.push_async(3, NOW);
    queue.close();
    assert_eq!(thread.join().unwrap(), Err(PushError::Closed(1)));
    assert_eq!(testkit::block_on(future), Err(PushError::Closed(2)));
    assert_eq!(testkit::block_on(late), Err(PushError::Closed(3)));
    assert_eq!(drain(&queue), [0]);
}

#[testkit::test]
fn close_now_admits_no_waiting_pusher() {
    let (queue, _clock) = bound(1);
    queue.push(0, SECOND).unwrap();
    let thread = pusher(&queue, 1);
    assert_eq!(queue.close_now().len(), 1);
    assert_eq!(thread.join().unwrap(), Err(PushError::Closed(1)));
    assert!(queue.is_empty());
}

#[testkit::test]
fn the_bound_holds_under_concurrent_pushes_and_takes() {
    const EACH: u32 = 500;
    let (queue, _clock) = bound(7);
    let pushers: Vec<_> = (0..4)
        .map(|_| {
            let queue = queue.clone();
            thread::spawn(move || {
                for n in 0..EACH {
                    match n % 3 {
                        0 => _ = queue.push(n, NOW).unwrap(),
                        1 => _ = testkit::block_on(queue.push_async(n, NOW)).unwrap(),
                        _ => _ = queue.push_timeout(n, NOW, Duration::MAX).unwrap(),
                    }
                }
            })
        })
        .collect();
    let mut taken = 0;
    while taken < 4 * EACH {
        assert!(queue.len() <= 7);
        queue.take().unwrap();
        taken += 1;
    }
    for pusher in pushers {
        pusher.join().unwrap();
    }
    assert!(queue.is_empty());
}

#[test]
#[should_panic(expected = "polled after completion")]
fn a_push_future_polled_after_completion_panics() {
    let (queue, _clock) = queue();
    let mut future = queue.push_async(1, NOW);
    assert!(poll(&mut future).is_ready());
    let _ = poll(&mut future);
}

/// As in user code, neither the type of the queue nor that of the builder is written.
#[test]
fn the_type_of_a_builder_is_inferred_from_its_queue() {
    let annotated: DelayQueue<u64> = DelayQueue::builder().bound(8).build().unwrap();
    annotated.push(1, NOW).unwrap();
    let inferred = DelayQueue::builder().bound(1).build().unwrap();
    inferred.push("one", NOW).unwrap();
    let builder = DelayQueue::builder().clock(ManualClock::new());
    let with_a_clock = builder.build().unwrap();
    assert!(with_a_clock.push('c', NOW).is_ok());
}
