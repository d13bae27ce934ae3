//! The forms of take: at once, with a timeout, with a deadline, without a limit.

use std::thread;
use std::time::Duration;

use delay_queue::TakeError;
use sync_shim::Clock;

use crate::support::{NOW, SECOND, Witness, queue, taker, wait_asleep};

#[test]
fn a_take_error_tells_empty_from_not_due() {
    let (queue, clock) = queue();
    assert!(matches!(queue.try_take(), Err(TakeError::Empty)));
    queue.push(1, SECOND).unwrap();
    assert!(matches!(queue.try_take(), Err(TakeError::NotDue)));
    assert!(queue.drain_ready(usize::MAX).is_empty());
    clock.advance(SECOND);
    assert_eq!(queue.try_take().unwrap().value, 1);
    assert!(matches!(queue.try_take(), Err(TakeError::Empty)));
}

#[testkit::test]
fn a_take_waits_for_a_push_and_until_the_entry_is_due() {
    let (queue, clock) = queue();
    let taker = taker(&queue);
    wait_asleep(&queue, 1);
    queue.push(1, SECOND).unwrap();
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(taker.join().unwrap().unwrap().value, 1);
}

#[testkit::test]
fn a_take_of_an_empty_queue_ends_at_its_timeout() {
    let (queue, clock) = queue::<u8>();
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || queue.take_timeout(SECOND))
    };
    clock.wait_for_sleepers(1);
    assert_eq!(clock.next_due(), Some(clock.now() + SECOND));
    clock.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(queue.stats().waiting_takers, 1);
    clock.advance(Duration::from_nanos(1));
    assert!(matches!(waiting.join().unwrap(), Err(TakeError::TimedOut)));
    assert_eq!(queue.stats().waiting_takers, 0);
}

#[testkit::test]
fn a_take_of_later_entries_ends_at_its_timeout() {
    let (queue, clock) = queue();
    queue.push(1, 5 * SECOND).unwrap();
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || queue.take_timeout(SECOND))
    };
    clock.wait_for_sleepers(1);
    // It is the leader, but sleeps no longer than its timeout.
    assert_eq!(clock.next_due(), Some(clock.now() + SECOND));
    clock.advance(SECOND);
    assert!(matches!(waiting.join().unwrap(), Err(TakeError::TimedOut)));
    assert_eq!(queue.len(), 1);
}

#[testkit::test]
fn a_take_gets_an_entry_due_within_its_timeout() {
    let (queue, clock) = queue();
    queue.push(1, SECOND).unwrap();
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || queue.take_timeout(5 * SECOND))
    };
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(waiting.join().unwrap().unwrap().value, 1);
}

#[testkit::test]
fn an_entry_due_at_the_deadline_is_taken() {
    let (queue, clock) = queue();
    queue.push(1, SECOND).unwrap();
    let waiting = {
        let (queue, deadline) = (queue.clone(), clock.now() + SECOND);
        thread::spawn(move || queue.take_timeout(deadline))
    };
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(waiting.join().unwrap().unwrap().value, 1);
}

#[test]
fn a_take_with_a_zero_timeout_takes_a_due_entry_or_none() {
    let (queue, clock) = queue();
    assert!(matches!(queue.take_timeout(NOW), Err(TakeError::TimedOut)));
    queue.push(1, SECOND).unwrap();
    assert!(matches!(queue.take_timeout(NOW), Err(TakeError::TimedOut)));
    clock.advance(SECOND);
    assert_eq!(queue.take_timeout(NOW).unwrap().value, 1);
    queue.push(2, NOW).unwrap();
    let long_past = clock.now() - SECOND;
    assert_eq!(queue.take_timeout(long_past).unwrap().value, 2);
    assert!(matches!(
        queue.take_timeout(long_past),
        Err(TakeError::TimedOut)
    ));
}

#[testkit::test]
fn a_take_with_the_longest_timeout_waits_without_a_deadline() {
    let (queue, clock) = queue();
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || queue.take_timeout(Duration::MAX))
    };
    wait_asleep(&queue, 1);
    assert_eq!(clock.sleepers(), 0);
    queue.push(1, NOW).unwrap();
    assert_eq!(waiting.join().unwrap().unwrap().value, 1);
}

#[testkit::test]
fn a_take_times_out_before_the_entry_is_due_and_the_next_take_gets_it() {
    let (queue, clock) = queue();
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || (queue.take_timeout(SECOND), queue.take_timeout(5 * SECOND)))
    };
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    clock.wait_for_sleepers(1);
    queue.push(1, SECOND).unwrap();
    // The taker was notified so that it leads for the earlier time.
    while clock.next_due() != Some(clock.now() + SECOND) {
        thread::yield_now();
    }
    clock.advance(SECOND);
    let (first, second) = waiting.join().unwrap();
    assert!(matches!(first, Err(TakeError::TimedOut)));
    assert_eq!(second.unwrap().value, 1);
}

#[test]
fn a_due_entry_is_taken_without_a_parker() {
    let (queue, clock) = Witness::queue();
    queue.push(1, NOW).unwrap();
    assert_eq!(queue.take().unwrap().value, 1);
    assert!(clock.parks().is_empty());
    assert_eq!(queue.stats().wakes, 0);
}

#[testkit::test]
fn an_unpark_token_of_an_earlier_wait_has_no_effect() {
    let (queue, clock) = queue();
    let parker = sync_shim::Parker::of_thread();
    parker.unpark(); // As left by another wait on this thread.
    assert!(matches!(queue.take_timeout(NOW), Err(TakeError::TimedOut)));
    parker.unpark();
    let mover = {
        let clock = clock.clone();
        thread::spawn(move || {
            clock.wait_for_sleepers(1);
            clock.advance(SECOND);
        })
    };
    queue.push(1, SECOND).unwrap();
    assert_eq!(queue.take().unwrap().value, 1);
    mover.join().unwrap();
}
