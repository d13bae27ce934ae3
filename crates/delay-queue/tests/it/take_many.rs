//! Taking in batches: their size, their buffers, and the notifications of other takers.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use delay_queue::{BATCH_ROOM, DelayQueue, Expired, ManualClock, TakeError};
use testkit::{CountingWaker, block_on};

use crate::support::{NOW, SECOND, Witness, poll, poll_with, queue, until, wait_asleep};

fn most(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

fn values<T: Copy>(batch: &[Expired<T>]) -> Vec<T> {
    batch.iter().map(|expired| expired.value).collect()
}

#[test]
fn a_batch_appends_the_due_entries_in_order_up_to_its_limit() {
    let (queue, clock) = queue();
    for n in (0..10).rev() {
        queue.push(n, n * SECOND).unwrap();
    }
    clock.advance(6 * SECOND);
    let mut batch = Vec::new();
    assert_eq!(queue.try_take_many(&mut batch, most(4)).unwrap(), 4);
    assert_eq!(queue.take_many(&mut batch, most(100)).unwrap(), 3);
    assert_eq!(values(&batch), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!((queue.len(), queue.stats().taken), (3, 7));
}

#[test]
fn an_empty_batch_returns_the_reason_and_leaves_the_buffer_unchanged() {
    let (queue, clock) = queue();
    queue.push(1, NOW).unwrap();
    let mut batch = Vec::new();
    queue.try_take_many(&mut batch, most(2)).unwrap();
    let mut take = || {
        let taken = queue.try_take_many(&mut batch, most(2)).map(|_| ());
        assert_eq!(values(&batch), [1]);
        taken
    };
    assert!(matches!(take(), Err(TakeError::Empty)));
    let later = queue.push(2, SECOND).unwrap();
    assert!(matches!(take(), Err(TakeError::NotDue)));
    queue.cancel(later);
    queue.close();
    assert!(matches!(take(), Err(TakeError::Closed)));
    let mut none = Vec::new();
    assert!(queue.take_many(&mut none, most(1)).unwrap_err().is_closed());
    drop(clock);
}

#[testkit::test]
fn a_batch_waits_for_one_entry_and_takes_all_entries_due_with_it() {
    let (queue, clock) = queue();
    let taker = {
        let queue = queue.clone();
        thread::spawn(move || {
            let mut batch = Vec::new();
            queue.take_many(&mut batch, most(8)).unwrap();
            values(&batch)
        })
    };
    wait_asleep(&queue, 1);
    for n in 0..3 {
        queue.push(n, SECOND).unwrap();
    }
    queue.push(9, 2 * SECOND).unwrap();
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(taker.join().unwrap(), [0, 1, 2]);
    assert_eq!(queue.len(), 1);
}

#[testkit::test]
fn a_batch_ends_empty_at_its_timeout() {
    let (queue, clock) = queue::<u8>();
    let mut batch = Vec::new();
    let taken = queue.take_many_timeout(&mut batch, most(2), NOW);
    assert!(matches!(taken, Err(TakeError::TimedOut)));
    let waiting = {
        let (queue, deadline) = (queue.clone(), sync_shim::Clock::now(&clock) + SECOND);
        thread::spawn(move || queue.take_many_timeout(&mut Vec::new(), most(2), deadline))
    };
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert!(matches!(waiting.join().unwrap(), Err(TakeError::TimedOut)));
    assert_eq!(queue.stats().waiting_takers, 0);
    queue.push(1, NOW).unwrap();
    let taken = queue.take_many_timeout(&mut batch, most(2), Duration::MAX);
    assert_eq!(taken.unwrap(), 1);
}

/// The first entry is due by the last known time, the second one only by the current time.
#[testkit::test]
fn a_batch_takes_entries_that_fell_due_since_the_last_reading_of_the_clock() {
    for future in [false, true] {
        let (queue, clock) = Witness::queue();
        queue.push(1, NOW).unwrap();
        queue.push(2, SECOND).unwrap();
        clock.advance(SECOND);
        clock.looks();
        let mut batch = Vec::new();
        if future {
            assert_eq!(
                block_on(queue.take_many_async(&mut batch, most(9))).unwrap(),
                2
            );
        } else {
            assert_eq!(queue.take_many(&mut batch, most(9)).unwrap(), 2);
        }
        assert_eq!(values(&batch), [1, 2]);
        assert_eq!(clock.looks(), 1, "once for the batch");
    }
}

#[test]
fn a_batch_is_limited_by_the_reserved_room_of_its_buffer() {
    let (queue, _clock) = queue();
    let count = 4 * BATCH_ROOM;
    for n in 0..count {
        queue.push(n, NOW).unwrap();
    }
    let mut batch = Vec::new();
    let first = queue.try_take_many(&mut batch, NonZeroUsize::MAX).unwrap();
    assert!(first < count, "its buffer had no room");
    assert!(first >= BATCH_ROOM);
    batch.clear();
    batch.reserve_exact(count);
    let room = batch.capacity();
    let second = queue.take_many(&mut batch, NonZeroUsize::MAX).unwrap();
    assert_eq!(first + second, count);
    assert_eq!(batch.capacity(), room);
}

#[test]
fn a_reused_buffer_does_not_grow() {
    let (queue, _clock) = queue();
    let mut batch = Vec::with_capacity(16);
    let memory = (batch.as_ptr(), batch.capacity());
    for n in 0..1_000 {
        queue.push(n, NOW).unwrap();
    }
    let mut taken = 0;
    while let Ok(count) = queue.try_take_many(&mut batch, most(16)) {
        assert!(
            batch
                .drain(..)
                .map(|one| one.value)
                .eq(taken..taken + count)
        );
        taken += count;
    }
    assert_eq!(taken, 1_000);
    assert_eq!((batch.as_ptr(), batch.capacity()), memory);
}

#[testkit::test]
fn all_places_freed_by_a_batch_go_to_waiting_pushers() {
    let builder = DelayQueue::builder().clock(ManualClock::new());
    let queue = builder.bound(3).build().unwrap();
    for n in 0..3 {
        queue.push(n, NOW).unwrap();
    }
    let pushers: Vec<_> = (3..6)
        .map(|n| {
            let queue = queue.clone();
            thread::spawn(move || queue.push(n, NOW).is_ok())
        })
        .collect();
    until(|| queue.stats().waiting_pushers == 3);
    let mut batch = Vec::new();
    assert_eq!(queue.try_take_many(&mut batch, most(9)).unwrap(), 3);
    assert_eq!(values(&batch), [0, 1, 2]);
    for pusher in pushers {
        assert!(pusher.join().unwrap());
    }
    assert_eq!(queue.len(), 3);
}

/// The future was woken for an entry that is in another consumer's batch: the next entry wakes another future.
#[test]
fn an_entry_taken_in_a_batch_consumes_no_later_wake_up() {
    let (queue, _clock) = queue();
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    let mut futures = [queue.take_async(), queue.take_async()];
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_with(future, &waker.waker()).is_pending());
    }
    queue.push(1, NOW).unwrap();
    assert_eq!((wakers[0].wakes(), wakers[1].wakes()), (1, 0));
    queue.try_take_many(&mut Vec::new(), most(2)).unwrap();
    queue.push(2, NOW).unwrap();
    assert_eq!((wakers[0].wakes(), wakers[1].wakes()), (1, 1));
    assert!(poll(&mut futures[1]).is_ready());
}

#[test]
fn a_batch_future_waits_for_the_alarm_and_can_be_reused() {
    let (queue, clock) = queue();
    let waker = CountingWaker::new();
    for n in 0..2 {
        queue.push(n, SECOND).unwrap();
    }
    let mut batch = Vec::new();
    let mut future = queue.take_many_async(&mut batch, most(8));
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    clock.advance(SECOND);
    assert_eq!(waker.wakes(), 1);
    assert!(matches!(poll(&mut future), std::task::Poll::Ready(Ok(2))));
    queue.push(2, NOW).unwrap();
    assert!(matches!(poll(&mut future), std::task::Poll::Ready(Ok(1))));
    queue.close();
    assert!(matches!(
        poll(&mut future),
        std::task::Poll::Ready(Err(TakeError::Closed))
    ));
    drop(future);
    assert_eq!(values(&batch), [0, 1, 2]);
}

#[test]
fn a_dropped_batch_future_takes_no_entry_and_passes_its_wake_up_on() {
    let (queue, _clock) = queue();
    let waker = CountingWaker::new();
    let mut batch = Vec::new();
    let mut first = queue.take_many_async(&mut batch, most(2));
    assert!(poll(&mut first).is_pending());
    let mut second = queue.take_async();
    assert!(poll_with(&mut second, &waker.waker()).is_pending());
    queue.push(1, NOW).unwrap();
    assert_eq!(waker.wakes(), 0);
    drop(first);
    assert_eq!(waker.wakes(), 1);
    assert!(batch.is_empty());
    assert!(poll(&mut second).is_ready());
}

#[testkit::test]
fn batches_taken_by_many_threads_lose_no_entry() {
    const EACH: usize = 2_000;
    let (queue, _clock) = queue();
    let takers: Vec<_> = (0..3)
        .map(|n| {
            let queue = queue.clone();
            thread::spawn(move || {
                let (mut all, mut batch) = (Vec::new(), Vec::new());
                while queue.take_many(&mut batch, most(1 + 5 * n)).is_ok() {
                    all.extend(batch.drain(..).map(|one| one.value));
                }
                all
            })
        })
        .collect();
    for n in 0..EACH {
        queue.push(n, NOW).unwrap();
    }
    queue.close();
    let taken = takers.into_iter().map(|taker| taker.join().unwrap());
    let mut taken: Vec<_> = taken.flatten().collect();
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..EACH));
}
