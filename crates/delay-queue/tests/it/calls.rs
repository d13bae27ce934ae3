//! How many takers are notified, and which ones.

use std::sync::Arc;
use std::thread;

use delay_queue::{DelayQueue, ManualClock};
use testkit::CountingWaker;

use crate::support::{NOW, SECOND, count_ready, poll, poll_with, queue, taker, until, wait_asleep};

#[testkit::test]
fn a_due_entry_wakes_one_of_many_threads() {
    let (queue, _clock) = queue();
    let takers: Vec<_> = (0..4).map(|_| taker(&queue)).collect();
    wait_asleep(&queue, 4);
    queue.push(1, NOW).unwrap();
    until(|| queue.stats().taken == 1);
    assert_eq!(queue.stats().wakes, 1);
    assert_eq!(queue.stats().waiting_takers, 3);
    queue.close();
    let taken = takers
        .into_iter()
        .filter_map(|taker| taker.join().unwrap().ok());
    assert_eq!(taken.count(), 1);
    assert_eq!(queue.stats().wakes, 1, "the end is not counted");
}

#[test]
fn a_due_entry_wakes_one_of_many_futures() {
    let (queue, _clock) = queue();
    let wakers: Vec<_> = (0..4).map(|_| CountingWaker::new()).collect();
    let mut futures: Vec<_> = wakers
        .iter()
        .map(|waker| {
            let mut future = queue.take_async();
            assert!(poll_with(&mut future, &waker.waker()).is_pending());
            future
        })
        .collect();
    let woken = || wakers.iter().map(CountingWaker::wakes).sum::<usize>();
    queue.push(1, NOW).unwrap();
    assert_eq!((woken(), queue.stats().wakes), (1, 1));
    queue.push(2, NOW).unwrap();
    assert_eq!((woken(), queue.stats().wakes), (2, 2));
    assert_eq!(count_ready(&mut futures), 2);
    assert_eq!(queue.stats().wakes, 2);
}

#[testkit::test]
fn entries_due_together_wake_as_many_takers() {
    let (queue, clock) = queue();
    let takers: Vec<_> = (0..6).map(|_| taker(&queue)).collect();
    wait_asleep(&queue, 6);
    for n in 0..4 {
        queue.push(n, SECOND).unwrap();
    }
    clock.wait_for_sleepers(1);
    wait_asleep(&queue, 6);
    clock.advance(SECOND);
    until(|| queue.stats().taken == 4);
    // The leader woke by itself; three takers were notified.
    assert_eq!(queue.stats().wakes, 3);
    queue.close();
    let taken = takers
        .into_iter()
        .filter_map(|taker| taker.join().unwrap().ok());
    assert_eq!(taken.count(), 4);
}

#[testkit::test]
fn threads_are_notified_before_futures() {
    let (queue, _clock) = queue();
    let waker = CountingWaker::new();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    let thread = taker(&queue);
    wait_asleep(&queue, 2);
    queue.push(1, NOW).unwrap();
    assert_eq!(thread.join().unwrap().unwrap().value, 1);
    assert_eq!(waker.wakes(), 0);
    queue.push(2, NOW).unwrap();
    assert_eq!(waker.wakes(), 1);
    assert!(poll(&mut future).is_ready());
}

#[testkit::test]
fn a_woken_future_that_is_never_polled_blocks_no_entry() {
    let (queue, _clock) = queue();
    let mut idle = queue.take_async();
    assert!(poll(&mut idle).is_pending());
    queue.push(1, NOW).unwrap(); // Notifies it. It is not polled.
    assert_eq!(queue.take().unwrap().value, 1);

    let (first, second) = (taker(&queue), taker(&queue));
    wait_asleep(&queue, 2);
    queue.push(2, NOW).unwrap();
    queue.push(3, NOW).unwrap();
    let mut taken = [first, second].map(|taker| taker.join().unwrap().unwrap().value);
    taken.sort_unstable();
    assert_eq!(taken, [2, 3]);
    drop(idle);
}

#[test]
fn a_woken_future_that_is_never_polled_delays_no_later_entry_of_other_futures() {
    let (queue, _clock) = queue();
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    let mut futures = [queue.take_async(), queue.take_async()];
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_with(future, &waker.waker()).is_pending());
    }
    queue.push(1, NOW).unwrap();
    assert_eq!((wakers[0].wakes(), wakers[1].wakes()), (1, 0));
    queue.push(2, NOW).unwrap();
    assert_eq!((wakers[0].wakes(), wakers[1].wakes()), (1, 1));
    assert!(poll(&mut futures[1]).is_ready());
    // The other entry is still there for the next taker.
    assert_eq!(queue.try_take().unwrap().value, 2);
}

#[test]
fn an_entry_taken_by_another_consumes_no_later_wake_up() {
    let (queue, _clock) = queue();
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    let mut futures = [queue.take_async(), queue.take_async()];
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_with(future, &waker.waker()).is_pending());
    }
    queue.push(1, NOW).unwrap(); // Wakes the first taker,
    assert!(queue.try_take().is_ok()); // which finds no entry later.
    queue.push(2, NOW).unwrap();
    assert_eq!((wakers[0].wakes(), wakers[1].wakes()), (1, 1));
    assert_eq!(queue.stats().wakes, 2, "one for each entry");
}

#[test]
fn an_entry_delayed_by_a_reset_consumes_no_later_wake_up() {
    let (queue, _clock) = queue();
    // Sets an alarm, so that the delay of the other entry affects no waiter.
    queue.push(0, SECOND).unwrap();
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    let mut futures = [queue.take_async(), queue.take_async()];
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_with(future, &waker.waker()).is_pending());
    }
    let id = queue.push(1, NOW).unwrap(); // Notifies the first taker, which is not polled.
    assert!(queue.reset(id, 9 * SECOND));
    queue.push(2, NOW).unwrap();
    assert_eq!((wakers[0].wakes(), wakers[1].wakes()), (1, 1));
}

#[test]
fn a_woken_future_that_is_dropped_passes_its_wake_up_on() {
    let (queue, _clock) = queue();
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    let mut futures = [queue.take_async(), queue.take_async()].map(Some);
    for (future, waker) in futures.iter_mut().flatten().zip(&wakers) {
        assert!(poll_with(future, &waker.waker()).is_pending());
    }
    queue.push(1, NOW).unwrap();
    futures[0] = None;
    assert_eq!((wakers[0].wakes(), wakers[1].wakes()), (1, 1));
    assert!(poll(futures[1].as_mut().unwrap()).is_ready());
}

#[testkit::test]
fn a_woken_future_that_is_dropped_passes_its_wake_up_to_a_thread_that_waits() {
    let (queue, clock) = queue();
    queue.push("entry", SECOND).unwrap();
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    let thread = taker(&queue);
    wait_asleep(&queue, 2);
    drop(future);
    clock.advance(SECOND);
    assert_eq!(thread.join().unwrap().unwrap().value, "entry");
}

/// Takers consume their notifications one after the other, in a queue with work for all of them.
#[testkit::test]
fn a_busy_queue_wakes_at_most_one_taker_for_each_entry() {
    const ENTRIES: usize = 2_000;
    let queue = Arc::new(DelayQueue::<usize, ManualClock>::with_clock(
        ManualClock::new(),
    ));
    let takers: Vec<_> = (0..4)
        .map(|_| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || std::iter::from_fn(|| queue.take().ok()).count())
        })
        .collect();
    for n in 0..ENTRIES {
        queue.push(n, NOW).unwrap();
        if n % 7 == 0 {
            thread::yield_now();
        }
    }
    queue.close();
    let taken: usize = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
    assert_eq!(taken, ENTRIES);
    let stats = queue.stats();
    assert!(stats.wakes <= ENTRIES as u64, "{stats:?}");
}
