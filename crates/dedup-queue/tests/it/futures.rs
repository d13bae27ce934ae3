//! `get_async`: the clock wakes it, and it loses no key.

use std::io;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Instant;

use dedup_queue::{Clock, DedupDelayQueue, DedupQueue, GetError, ManualClock};
use sync_shim::{Alarm, Parker};
use testkit::{CountingWaker, block_on, waker_fn};

use crate::support::{MS, delaying, get, is_closed, is_empty, plain, poll, poll_with, until};

#[test]
fn a_future_is_woken_by_an_add_and_takes_the_key() {
    let queue = plain();
    let waker = CountingWaker::new();
    let mut future = queue.get_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    assert_eq!(queue.stats().waiting, 1);
    queue.add("a").unwrap();
    assert_eq!(waker.wakes(), 1);
    let Poll::Ready(Ok(held)) = poll(&mut future) else {
        panic!("the future was woken for a key")
    };
    assert_eq!(*held, "a");
}

#[test]
fn a_future_is_woken_by_the_clock_when_a_key_falls_due() {
    let (queue, clock) = delaying();
    queue.add_after("a", MS).unwrap();
    let waker = CountingWaker::new();
    let mut future = queue.get_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    assert_eq!(
        clock.next_due(),
        Some(clock.now() + MS),
        "the clock's alarm keeps the time"
    );
    clock.advance(MS);
    assert_eq!(waker.wakes(), 1);
    assert!(matches!(poll(&mut future), Poll::Ready(Ok(held)) if *held == "a"));
}

#[test]
fn an_earlier_key_sets_the_alarm_earlier() {
    let (queue, clock) = delaying();
    queue.add_after("late", 10 * MS).unwrap();
    let mut future = queue.get_async();
    assert!(poll(&mut future).is_pending());
    queue.add_after("early", MS).unwrap();
    assert_eq!(clock.next_due(), Some(clock.now() + MS));
    clock.advance(MS);
    assert!(matches!(poll(&mut future), Poll::Ready(Ok(held)) if *held == "early"));
}

#[test]
fn a_woken_future_that_is_dropped_leaves_the_key_to_another_getter() {
    let queue = plain();
    let (first, second) = (CountingWaker::new(), CountingWaker::new());
    let mut dropped = queue.get_async();
    let mut other = queue.get_async();
    assert!(poll_with(&mut dropped, &first.waker()).is_pending());
    assert!(poll_with(&mut other, &second.waker()).is_pending());
    queue.add("a").unwrap();
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(dropped);
    assert_eq!(second.wakes(), 1, "its wake-up is passed on");
    assert!(poll(&mut other).is_ready());
}

#[test]
fn a_batch_future_takes_up_to_its_limit_and_none_if_it_is_dropped() {
    let queue = plain();
    let two = std::num::NonZeroUsize::new(2).unwrap();
    let waker = CountingWaker::new();
    let mut dropped = queue.get_batch_async(two);
    let mut future = queue.get_batch_async(two);
    assert!(poll(&mut dropped).is_pending());
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    drop(dropped);
    assert_eq!(waker.wakes(), 1);
    let Poll::Ready(Ok(batch)) = poll(&mut future) else {
        panic!("keys are ready")
    };
    assert_eq!(
        batch.iter().map(|held| **held).collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert_eq!((queue.stats().held, queue.stats().ready), (2, 1));
    let Poll::Ready(Ok(rest)) = poll(&mut future) else {
        panic!("a future that is polled again takes the next batch")
    };
    assert_eq!(*rest[0], "c");
    queue.shut_down();
    assert!(matches!(
        poll(&mut future),
        Poll::Ready(Err(GetError::Closed))
    ));
}

#[test]
fn a_dropped_future_no_longer_counts_as_waiting() {
    let queue = plain();
    let waker = CountingWaker::new();
    let mut future = queue.get_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    drop(future);
    assert_eq!((queue.stats().waiting, waker.wakers()), (0, 0));
    queue.add("a").unwrap();
    assert_eq!(waker.wakes(), 0);
    drop(get(&queue));
    let unpolled = queue.get_async();
    drop(unpolled);
}

#[testkit::test]
fn threads_and_futures_share_the_keys_of_a_queue() {
    let queue = DedupQueue::<u32>::new();
    thread::scope(|scope| {
        let future = scope.spawn(|| *block_on(queue.get_async()).unwrap());
        let thread = scope.spawn(|| *queue.get().unwrap());
        until(|| queue.stats().waiting == 2);
        queue.add(1).unwrap();
        queue.add(2).unwrap();
        let mut keys = [future.join().unwrap(), thread.join().unwrap()];
        keys.sort_unstable();
        assert_eq!(keys, [1, 2]);
    });
}

#[testkit::test]
fn futures_run_on_any_executor() {
    let queue = DedupDelayQueue::<u32>::new();
    let executor = async_executor::Executor::new();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            executor.spawn(async {
                let mut sum = 0;
                while let Ok(key) = queue.get_async().await {
                    sum += *key;
                }
                sum
            })
        })
        .collect();
    let sum = futures_lite::future::block_on(executor.run(async {
        for key in 0..100 {
            queue.add_after(key, MS / 100 * (key % 7)).unwrap();
        }
        while queue.stats().delayed > 0 {
            futures_lite::future::yield_now().await;
        }
        queue.shut_down();
        let mut sum = 0;
        for task in tasks {
            sum += task.await;
        }
        sum
    }));
    assert_eq!(sum, 4950);
}

#[test]
fn a_shut_down_ends_waiting_futures() {
    let queue = plain();
    let mut future = queue.get_async();
    assert!(poll(&mut future).is_pending());
    queue.shut_down();
    assert!(matches!(poll(&mut future), Poll::Ready(got) if is_closed(&got)));
}

/// A clock without alarms.
#[derive(Clone, Debug)]
struct NoAlarms(ManualClock);

impl Clock for NoAlarms {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.park_until(parker, when)
    }

    fn wake_at(&self, _: Instant, _: Waker) -> io::Result<Alarm> {
        Err(io::Error::other("no thread"))
    }
}

#[testkit::test]
fn a_future_without_an_alarm_returns_an_error_and_does_not_hang() {
    let clock = NoAlarms(ManualClock::new());
    let queue = DedupDelayQueue::<u32>::builder()
        .clock(clock.clone())
        .build();
    queue.add_after(1, MS).unwrap();
    let waker = CountingWaker::new();
    let mut future = queue.get_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    assert_eq!(waker.wakes(), 1);
    assert!(matches!(
        poll(&mut future),
        Poll::Ready(Err(GetError::NoAlarm(_)))
    ));
    clock.0.advance(MS);
    assert_eq!(
        *block_on(queue.get_async()).unwrap(),
        1,
        "a ready key is taken without an alarm"
    );
}

#[test]
fn a_waker_may_use_the_queue_and_may_panic() {
    let queue = plain();
    let woken = queue.clone();
    let waker = waker_fn(move || {
        assert_eq!(woken.len(), 1);
        woken.add("b").unwrap();
        panic!("a panic of the waker");
    });
    let mut future = queue.get_async();
    assert!(poll_with(&mut future, &waker).is_pending());
    queue.add("a").unwrap();
    assert_eq!(queue.len(), 2);
    assert!(poll(&mut future).is_ready());
    assert!(!is_empty(&queue.try_get()));
}

#[test]
fn a_queue_may_be_dropped_while_its_alarm_is_set() {
    let (queue, clock) = delaying();
    queue.add_after("a", MS).unwrap();
    let mut future = queue.get_async();
    assert!(poll(&mut future).is_pending());
    drop((future, queue));
    clock.advance(MS);
    assert_eq!(clock.sleepers(), 0);
}
