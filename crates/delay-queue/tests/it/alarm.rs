//! The clock's alarm, which wakes waiting futures.

use delay_queue::{DelayQueue, ManualClock, TakeError};
use sync_shim::Clock;
use testkit::{CountingWaker, waker_fn};

use crate::support::{
    NOW, SECOND, Witness, count_ready, poll, poll_with, queue, taker, until, wait_asleep,
};

#[test]
fn waiting_futures_set_one_alarm_for_the_head() {
    let (queue, clock) = Witness::queue();
    queue.push(1, SECOND).unwrap();
    queue.push(2, 2 * SECOND).unwrap();
    let mut futures: Vec<_> = (0..5).map(|_| queue.take_async()).collect();
    for future in &mut futures {
        assert!(poll(future).is_pending());
        assert!(poll(future).is_pending());
    }
    assert_eq!(clock.alarms(), [SECOND]);
    assert_eq!(clock.sleepers(), 1);
}

#[test]
fn no_alarm_is_set_while_no_entry_can_fall_due() {
    let (queue, clock) = Witness::queue();
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    queue.push(1, std::time::Duration::MAX).unwrap();
    assert!(poll(&mut future).is_pending());
    assert!(clock.alarms().is_empty());
}

#[test]
fn the_alarm_is_set_again_only_for_an_earlier_head() {
    let (queue, clock) = Witness::queue();
    let head = queue.push(1, 5 * SECOND).unwrap();
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    queue.push(2, 6 * SECOND).unwrap();
    queue.push(3, 5 * SECOND).unwrap();
    assert_eq!(
        clock.alarms(),
        [5 * SECOND],
        "no alarm is set for an earlier entry"
    );
    queue.push(4, 3 * SECOND).unwrap();
    assert_eq!(clock.alarms(), [5 * SECOND, 3 * SECOND]);
    assert_eq!(clock.sleepers(), 1, "the later one was taken back");
    assert!(queue.reset(head, 2 * SECOND));
    assert_eq!(clock.alarms()[2..], [2 * SECOND]);
    queue.cancel(head);
    assert_eq!(clock.alarms().len(), 3, "a cancel sets nothing");
    assert_eq!(clock.sleepers(), 1);
}

#[test]
fn an_alarm_that_rings_without_a_due_entry_is_set_for_the_next_one() {
    let (queue, clock) = Witness::queue();
    let head = queue.push(1, SECOND).unwrap();
    queue.push(2, 4 * SECOND).unwrap();
    let waker = CountingWaker::new();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    queue.cancel(head);
    clock.advance(SECOND);
    assert_eq!(waker.wakes(), 0, "nothing is due");
    assert_eq!(clock.alarms(), [SECOND, 4 * SECOND]);
    clock.advance(3 * SECOND);
    assert_eq!(waker.wakes(), 1);
    assert!(matches!(poll(&mut future), std::task::Poll::Ready(Ok(taken)) if taken.value == 2));
}

#[test]
fn the_alarm_wakes_one_future_per_entry_and_is_set_again() {
    let (queue, clock) = queue();
    for n in [1, 1, 2] {
        queue.push(n, n * SECOND).unwrap();
    }
    let wakers: Vec<_> = (0..4).map(|_| CountingWaker::new()).collect();
    let mut futures: Vec<_> = (0..4).map(|_| queue.take_async()).collect();
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_with(future, &waker.waker()).is_pending());
    }
    let woken = || wakers.iter().map(CountingWaker::wakes).sum::<usize>();
    clock.advance(SECOND);
    assert_eq!(woken(), 2);
    clock.advance(SECOND);
    assert_eq!(woken(), 3);
    assert_eq!(count_ready(&mut futures), 3);
    assert_eq!(queue.stats().wakes, 3);
}

#[testkit::test]
fn a_waiting_thread_leads_for_the_futures() {
    let (queue, clock) = Witness::queue();
    let thread = taker(&queue);
    wait_asleep(&queue, 1);
    let waker = CountingWaker::new();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    queue.push(1, SECOND).unwrap();
    queue.push(2, SECOND).unwrap();
    clock.wait_for_sleepers(1);
    assert!(clock.alarms().is_empty());
    clock.advance(SECOND);
    thread.join().unwrap().unwrap();
    waker.wait_for_wakes(1);
    assert!(poll(&mut future).is_ready());
    assert!(clock.alarms().is_empty());
}

#[testkit::test]
fn the_last_thread_that_leaves_passes_the_lead_to_the_alarm() {
    let (queue, clock) = Witness::queue();
    queue.push("entry", 3 * SECOND).unwrap();
    let threads = [SECOND, 2 * SECOND].map(|timeout| {
        let queue = queue.clone();
        std::thread::spawn(move || queue.take_timeout(timeout))
    });
    wait_asleep(&queue, 2);
    let waker = CountingWaker::new();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    clock.wait_for_sleepers(2);
    clock.advance(SECOND);
    wait_asleep(&queue, 2); // One entry wakes the thread, the other the future.
    clock.wait_for_sleepers(1);
    assert!(clock.alarms().is_empty(), "the other thread has the watch");
    clock.advance(SECOND);
    for thread in threads {
        assert!(matches!(thread.join().unwrap(), Err(TakeError::TimedOut)));
    }
    assert_eq!(clock.alarms(), [3 * SECOND]);
    clock.advance(SECOND);
    assert_eq!(waker.wakes(), 1);
    assert!(poll(&mut future).is_ready());
}

#[testkit::test]
fn an_arriving_thread_leads_and_the_alarm_is_not_set_again() {
    let (queue, clock) = Witness::queue();
    queue.push(1, SECOND).unwrap();
    queue.push(2, 2 * SECOND).unwrap();
    queue.push(3, 3 * SECOND).unwrap();
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    let thread = {
        let queue = queue.clone();
        std::thread::spawn(move || [queue.take().unwrap(), queue.take().unwrap()])
    };
    wait_asleep(&queue, 2);
    clock.wait_for_sleepers(2);
    clock.advance(SECOND);
    until(|| queue.stats().taken == 1);
    wait_asleep(&queue, 2);
    clock.wait_for_sleepers(1);
    // Between its two takes no thread waits, so an alarm may be set for the second entry.
    assert!(clock.alarms().len() <= 2, "{:?}", clock.alarms());
    clock.advance(SECOND);
    assert_eq!(thread.join().unwrap().map(|taken| taken.value), [1, 2]);
    clock.advance(SECOND);
    assert!(poll(&mut future).is_ready());
}

#[test]
fn a_future_without_an_alarm_returns_the_error_and_neither_hangs_nor_spins() {
    let (queue, clock) = Witness::queue();
    clock.fail(true);
    let waker = CountingWaker::new();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    assert_eq!(waker.wakes(), 0, "an empty queue needs no alarm");
    queue.push(1, SECOND).unwrap();
    assert_eq!(waker.wakes(), 1);
    let std::task::Poll::Ready(Err(TakeError::NoAlarm(error))) = poll(&mut future) else {
        panic!("no alarm could be set");
    };
    assert_eq!(error.to_string(), "no alarm today");
    assert_eq!(clock.alarms().len(), 1);

    // The due entry is still there, and the next poll asks for an alarm again.
    clock.fail(false);
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    assert_eq!(clock.alarms().len(), 2);
    clock.advance(SECOND);
    assert!(poll(&mut future).is_ready());
}

#[testkit::test]
fn all_waiting_futures_get_the_error_of_the_alarm_except_dropped_ones() {
    let (queue, clock) = Witness::queue();
    clock.fail(true);
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    let mut futures = [queue.take_async(), queue.take_async()];
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_with(future, &waker.waker()).is_pending());
    }
    queue.push(1, SECOND).unwrap();
    assert_eq!((wakers[0].wakes(), wakers[1].wakes()), (1, 1));
    let [told, dropped] = futures;
    drop(dropped);
    assert!(testkit::block_on(told).is_err());
}

#[test]
fn a_future_with_an_alarm_error_takes_an_entry_that_is_due_when_polled() {
    let (queue, clock) = Witness::queue();
    clock.fail(true);
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    queue.push(1, SECOND).unwrap();
    clock.advance(SECOND);
    assert!(matches!(poll(&mut future), std::task::Poll::Ready(Ok(taken)) if taken.value == 1));
}

#[testkit::test]
fn threads_wait_for_due_entries_without_an_alarm() {
    let (queue, clock) = Witness::queue();
    clock.fail(true);
    queue.push(1, SECOND).unwrap();
    let thread = taker(&queue);
    clock.wait_for_sleepers(1);
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    assert!(clock.alarms().is_empty());
    clock.advance(SECOND);
    thread.join().unwrap().unwrap();
    queue.push(2, NOW).unwrap();
    assert!(poll(&mut future).is_ready());
}

/// A runtime whose timer shuts down rings early: the alarm is gone then.
#[test]
fn an_alarm_that_rings_early_is_set_again() {
    let (queue, clock) = Witness::queue();
    queue.push(1, SECOND).unwrap();
    let waker = CountingWaker::new();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    clock.ring_all();
    assert_eq!(clock.alarms(), [SECOND, SECOND]);
    assert_eq!((waker.wakes(), clock.sleepers()), (0, 1));
    clock.fail(true);
    clock.ring_all();
    assert_eq!(waker.wakes(), 1);
    assert!(matches!(
        poll(&mut future),
        std::task::Poll::Ready(Err(TakeError::NoAlarm(_)))
    ));
}

#[test]
fn an_alarm_that_rings_early_while_it_is_set_is_set_again() {
    let (queue, clock) = Witness::queue();
    clock.ring_at_once(1);
    queue.push(1, SECOND).unwrap();
    let waker = CountingWaker::new();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    assert_eq!(clock.alarms(), [SECOND, SECOND]);
    assert_eq!((waker.wakes(), clock.sleepers()), (0, 1));
    clock.advance(SECOND);
    assert_eq!(waker.wakes(), 1);
}

#[test]
fn a_dropped_queue_cancels_its_alarm() {
    let (queue, clock) = queue();
    queue.push(1, SECOND).unwrap();
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    assert_eq!(clock.sleepers(), 1);
    drop(future);
    drop(queue);
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn an_alarm_does_not_keep_a_queue_alive() {
    let clock = ManualClock::new();
    let queue = DelayQueue::with_clock(clock.clone());
    let values = testkit::DropCounter::new();
    queue.push(values.token(), SECOND).unwrap();
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    drop((future, queue));
    assert_eq!(values.alive(), 0);
    clock.advance(SECOND);
}

#[test]
fn other_futures_get_their_entries_although_a_waker_panics() {
    let (queue, clock) = queue();
    for n in 0..3 {
        queue.push(n, SECOND).unwrap();
    }
    let mut futures = [queue.take_async(), queue.take_async(), queue.take_async()];
    let counting = CountingWaker::new();
    let wakers = [
        waker_fn(|| panic!("a waker")),
        counting.waker(),
        counting.waker(),
    ];
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_with(future, waker).is_pending());
    }
    clock.advance(SECOND);
    assert_eq!(counting.wakes(), 2);
    assert_eq!(count_ready(&mut futures), 3);
}

#[testkit::test]
fn the_alarm_of_the_system_clock_survives_a_panicking_waker() {
    let queue = DelayQueue::new();
    let millisecond = std::time::Duration::from_millis(1);
    queue.push(1, millisecond).unwrap();
    let woken = testkit::Gate::new();
    let told = woken.clone();
    let waker = waker_fn(move || {
        told.open();
        panic!("a waker");
    });
    let mut future = queue.take_async();
    if poll_with(&mut future, &waker).is_pending() {
        woken.wait();
        assert!(poll(&mut future).is_ready());
    }
    queue.push(2, millisecond).unwrap();
    assert_eq!(testkit::block_on(queue.take_async()).unwrap().value, 2);
}

#[testkit::test]
fn a_clock_that_panics_in_wake_at_counts_as_one_without_alarms() {
    #[derive(Debug)]
    struct Panics(ManualClock);
    impl Clock for Panics {
        fn now(&self) -> std::time::Instant {
            self.0.now()
        }
        fn park_until(&self, parker: &delay_queue::Parker, when: std::time::Instant) -> bool {
            self.0.park_until(parker, when)
        }
        fn wake_at(
            &self,
            _: std::time::Instant,
            _: std::task::Waker,
        ) -> std::io::Result<delay_queue::Alarm> {
            panic!("a clock")
        }
    }
    let queue = DelayQueue::with_clock(Panics(ManualClock::new()));
    queue.push(1, SECOND).unwrap();
    let taken = testkit::block_on(queue.take_async());
    assert!(matches!(taken, Err(TakeError::NoAlarm(_))));
}
