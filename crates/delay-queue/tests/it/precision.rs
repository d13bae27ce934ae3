//! The spin window and coalescing, as a clock observes them.

use std::thread;
use std::time::Duration;

use delay_queue::{DelayQueue, TakeError};

use testkit::CountingWaker;

use crate::support::{SECOND, Witness, count_ready, poll, poll_with, taker, until, wait_asleep};

const MICRO: Duration = Duration::from_micros(1);

fn spinning(window: Duration) -> (DelayQueue<u8, Witness>, Witness) {
    let clock = Witness::new();
    let builder = DelayQueue::<u8>::builder().clock(clock.clone());
    (builder.spin_window(window).build().unwrap(), clock)
}

#[testkit::test]
fn without_a_spin_window_a_taker_sleeps_until_the_entry_is_due() {
    let (queue, clock) = Witness::queue();
    queue.push(1, SECOND).unwrap();
    let taker = taker(&queue);
    clock.wait_for_sleepers(1);
    assert_eq!(clock.parks(), [SECOND]);
    clock.advance(SECOND);
    taker.join().unwrap().unwrap();
}

#[testkit::test]
fn a_taker_with_a_spin_window_wakes_early_and_spins_until_the_entry_is_due() {
    let (queue, clock) = spinning(100 * MICRO);
    queue.push(1, SECOND).unwrap();
    let taker = taker(&queue);
    clock.wait_for_sleepers(1);
    assert_eq!(clock.parks(), [SECOND - 100 * MICRO]);
    clock.advance(SECOND - 100 * MICRO);
    clock.looks();
    until(|| clock.looks() > 100); // It spins.
    assert_eq!(queue.stats().taken, 0);
    clock.advance(100 * MICRO);
    assert_eq!(taker.join().unwrap().unwrap().value, 1);
    assert_eq!(clock.parks().len(), 1);
}

#[testkit::test]
fn a_spinning_taker_holds_no_lock_and_sees_an_earlier_entry() {
    let (queue, clock) = spinning(100 * MICRO);
    let far = queue.push(1, SECOND).unwrap();
    let waiting = taker(&queue);
    clock.wait_for_sleepers(1);
    clock.advance(SECOND - 100 * MICRO);
    until(|| clock.looks() > 10);
    queue.push(2, 10 * MICRO).unwrap();
    clock.advance(10 * MICRO);
    assert_eq!(waiting.join().unwrap().unwrap().value, 2);
    assert_eq!(queue.cancel(far), Some(1));
}

#[testkit::test]
fn a_spinning_taker_sleeps_when_its_entry_is_cancelled_or_delayed() {
    for cancels in [true, false] {
        let (queue, clock) = spinning(100 * MICRO);
        let id = queue.push(1, SECOND).unwrap();
        let waiting = taker(&queue);
        clock.wait_for_sleepers(1);
        clock.advance(SECOND - 100 * MICRO);
        until(|| clock.looks() > 10);
        if cancels {
            queue.cancel(id).unwrap();
            queue.push(2, 5 * SECOND).unwrap();
        } else {
            assert!(queue.reset(id, 5 * SECOND));
        }
        clock.wait_for_sleepers(1);
        clock.advance(5 * SECOND);
        assert!(waiting.join().unwrap().is_ok());
    }
}

#[testkit::test]
fn a_spinning_taker_is_notified_of_due_entries_and_of_the_end() {
    let (queue, clock) = spinning(100 * MICRO);
    queue.push(1, SECOND).unwrap();
    let waiting = taker(&queue);
    clock.wait_for_sleepers(1);
    clock.advance(SECOND - 100 * MICRO);
    until(|| clock.looks() > 10);
    queue.push(2, Duration::ZERO).unwrap();
    assert_eq!(waiting.join().unwrap().unwrap().value, 2);

    let waiting = taker(&queue);
    wait_asleep(&queue, 1);
    queue.close_now();
    assert!(waiting.join().unwrap().unwrap_err().is_closed());
}

#[testkit::test]
fn a_spinning_taker_ends_at_its_deadline() {
    let (queue, clock) = spinning(100 * MICRO);
    queue.push(1, SECOND).unwrap();
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || queue.take_timeout(SECOND - 50 * MICRO))
    };
    clock.wait_for_sleepers(1);
    clock.advance(SECOND - 100 * MICRO);
    until(|| clock.looks() > 10);
    clock.advance(50 * MICRO);
    assert!(matches!(waiting.join().unwrap(), Err(TakeError::TimedOut)));
}

#[testkit::test]
fn a_spin_window_longer_than_the_delay_spins_at_once() {
    let (queue, clock) = spinning(Duration::MAX);
    queue.push(1, MICRO).unwrap();
    let waiting = taker(&queue);
    until(|| clock.looks() > 10);
    clock.advance(MICRO);
    assert_eq!(waiting.join().unwrap().unwrap().value, 1);
}

#[testkit::test]
fn a_taker_with_coalescing_sleeps_longer_and_finds_several_due_entries() {
    let clock = Witness::new();
    let builder = DelayQueue::<u8>::builder().clock(clock.clone());
    let queue = builder.coalesce(SECOND).build().unwrap();
    for n in 0..3 {
        let delay = SECOND + n * Duration::from_millis(300);
        queue.push(1, delay).unwrap();
    }
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || {
            let first = queue.take().unwrap();
            (first, queue.drain_ready(usize::MAX).len())
        })
    };
    clock.wait_for_sleepers(1);
    assert_eq!(clock.parks(), [2 * SECOND]);
    clock.advance(SECOND);
    assert_eq!(queue.stats().taken, 0, "it sleeps on");
    clock.advance(SECOND);
    assert_eq!(waiting.join().unwrap().1, 2);
}

#[testkit::test]
fn coalescing_delays_neither_a_deadline_nor_entries_due_before_it() {
    let clock = Witness::new();
    let builder = DelayQueue::<u8>::builder().clock(clock.clone());
    let queue = builder.coalesce(10 * SECOND).build().unwrap();
    queue.push(1, SECOND).unwrap();
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || queue.take_timeout(2 * SECOND))
    };
    clock.wait_for_sleepers(1);
    assert_eq!(clock.parks(), [2 * SECOND]);
    clock.advance(2 * SECOND);
    assert_eq!(waiting.join().unwrap().unwrap().value, 1);
    queue.push(2, Duration::MAX).unwrap();
    assert!(queue.try_take().is_err());
}

#[testkit::test]
fn an_endless_coalescing_window_has_no_effect() {
    let clock = Witness::new();
    let builder = DelayQueue::<u8>::builder().clock(clock.clone());
    let queue = builder.coalesce(Duration::MAX).build().unwrap();
    queue.push(1, SECOND).unwrap();
    let waiting = taker(&queue);
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert!(waiting.join().unwrap().is_ok());
}

#[test]
fn an_alarm_with_coalescing_rings_later_and_finds_several_due_entries() {
    let clock = Witness::new();
    let builder = DelayQueue::builder().clock(clock.clone());
    let queue = builder.coalesce(SECOND).build().unwrap();
    for n in 0..3 {
        let delay = SECOND + n * Duration::from_millis(300);
        queue.push(n, delay).unwrap();
    }
    let woken = CountingWaker::new();
    let mut futures: Vec<_> = (0..4).map(|_| queue.take_async()).collect();
    for future in &mut futures {
        assert!(poll_with(future, &woken.waker()).is_pending());
    }
    assert_eq!(clock.alarms(), [2 * SECOND]);
    clock.advance(SECOND);
    assert_eq!(woken.wakes(), 0, "it rings later");
    clock.advance(SECOND);
    assert_eq!(woken.wakes(), 3);
    assert_eq!(count_ready(&mut futures), 3);
    assert_eq!(clock.alarms().len(), 1);
}

#[test]
fn a_spin_window_or_an_endless_window_turns_coalescing_off_for_futures() {
    let windows = [(SECOND, SECOND), (Duration::ZERO, Duration::MAX)];
    for (spin, window) in windows {
        let clock = Witness::new();
        let builder = DelayQueue::builder().clock(clock.clone());
        let builder = builder.spin_window(spin).coalesce(window);
        let queue = builder.build().unwrap();
        queue.push(1, SECOND).unwrap();
        let mut future = queue.take_async();
        assert!(poll(&mut future).is_pending());
        assert_eq!(clock.alarms(), [SECOND]);
    }
}
