//! Leadership among threads: the leader waits for the next due time, the others sleep without one.

use std::thread;

use delay_queue::{DelayQueue, ManualClock, TakeError};
use sync_shim::Clock;

use crate::support::{NOW, SECOND, queue, taker, until, wait_asleep};

fn next_due_is(clock: &ManualClock, delay: u32) -> bool {
    clock.next_due() == Some(clock.now() + delay * SECOND)
}

#[testkit::test]
fn one_of_many_takers_leads() {
    let (queue, clock) = queue();
    queue.push(0, SECOND).unwrap();
    let takers: Vec<_> = (0..5).map(|_| taker(&queue)).collect();
    wait_asleep(&queue, 5);
    clock.wait_for_sleepers(1);
    assert_eq!(clock.sleepers(), 1);
    assert_eq!(queue.stats().rearms, 0);
    queue.close_now();
    for taker in takers {
        assert!(taker.join().unwrap().unwrap_err().is_closed());
    }
}

#[testkit::test]
fn an_earlier_push_wakes_only_the_leader() {
    let (queue, clock) = queue();
    queue.push("later", 9 * SECOND).unwrap();
    let takers = [taker(&queue), taker(&queue)];
    wait_asleep(&queue, 2);
    clock.wait_for_sleepers(1);
    queue.push("earlier", SECOND).unwrap();
    wait_asleep(&queue, 2);
    until(|| next_due_is(&clock, 1));
    assert_eq!(queue.stats().rearms, 1);
    assert_eq!(queue.stats().wakes, 0);
    clock.advance(SECOND);
    until(|| queue.stats().taken == 1);
    queue.close_now();
    let taken = takers.map(|taker| taker.join().unwrap().is_ok());
    assert_eq!(taken.iter().filter(|&&taken| taken).count(), 1);
}

#[testkit::test]
fn a_later_push_a_later_reset_and_a_cancel_wake_no_taker() {
    let (queue, clock) = queue();
    let head = queue.push("head", SECOND).unwrap();
    let waiting = taker(&queue);
    clock.wait_for_sleepers(1);
    queue.push("later", 2 * SECOND).unwrap();
    queue.push("of the same time", SECOND).unwrap();
    assert!(queue.reset(head, 3 * SECOND));
    assert_eq!(queue.cancel(head), Some("head"));
    let stats = queue.stats();
    assert_eq!((stats.wakes, stats.rearms, stats.waiting_takers), (0, 0, 1));
    clock.advance(SECOND);
    assert_eq!(waiting.join().unwrap().unwrap().value, "of the same time");
}

#[testkit::test]
fn an_earlier_reset_wakes_the_leader() {
    let (queue, clock) = queue();
    let id = queue.push("moved", 9 * SECOND).unwrap();
    let waiting = taker(&queue);
    clock.wait_for_sleepers(1);
    assert!(queue.reset(id, SECOND));
    until(|| next_due_is(&clock, 1));
    clock.advance(SECOND);
    assert_eq!(waiting.join().unwrap().unwrap().value, "moved");
}

#[testkit::test]
fn the_leader_for_a_cancelled_head_sleeps_on_for_the_next_entry() {
    let (queue, clock) = queue();
    let head = queue.push("head", SECOND).unwrap();
    queue.push("next", 2 * SECOND).unwrap();
    let waiting = taker(&queue);
    clock.wait_for_sleepers(1);
    queue.cancel(head);
    clock.advance(SECOND); // It wakes, finds no entry, and sleeps again.
    until(|| next_due_is(&clock, 1));
    clock.advance(SECOND);
    assert_eq!(waiting.join().unwrap().unwrap().value, "next");
}

#[testkit::test]
fn a_leader_that_takes_its_entry_passes_the_lead_on() {
    let (queue, clock) = queue();
    queue.push(1, SECOND).unwrap();
    queue.push(2, 2 * SECOND).unwrap();
    let takers = [taker(&queue), taker(&queue)];
    wait_asleep(&queue, 2);
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    until(|| next_due_is(&clock, 1));
    assert_eq!((queue.stats().wakes, queue.stats().rearms), (0, 1));
    clock.advance(SECOND);
    let mut taken = takers.map(|taker| taker.join().unwrap().unwrap().value);
    taken.sort_unstable();
    assert_eq!(taken, [1, 2]);
}

/// The Go queue passes the lead on to no other thread, and the others sleep past a due entry.
#[testkit::test]
fn a_leader_that_times_out_passes_the_lead_on() {
    let (queue, clock) = queue();
    queue.push("entry", 2 * SECOND).unwrap();
    let watch = {
        let queue = queue.clone();
        thread::spawn(move || queue.take_timeout(SECOND))
    };
    clock.wait_for_sleepers(1);
    let other = taker(&queue);
    wait_asleep(&queue, 2);
    assert_eq!(clock.sleepers(), 1);
    clock.advance(SECOND);
    assert!(matches!(watch.join().unwrap(), Err(TakeError::TimedOut)));
    until(|| next_due_is(&clock, 1));
    clock.advance(SECOND);
    assert_eq!(other.join().unwrap().unwrap().value, "entry");
}

/// In the Go queue, after a taker has timed out, the next push of a new head waits for that taker
/// with the lock held.
#[testkit::test]
fn a_push_after_a_taker_has_timed_out_does_not_block() {
    let (queue, clock) = queue();
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || queue.take_timeout(SECOND))
    };
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert!(waiting.join().unwrap().is_err());
    queue.push(1, SECOND).unwrap();
    queue.push(2, NOW).unwrap();
    assert_eq!(queue.try_take().unwrap().value, 2);
    assert_eq!(queue.len(), 1);
}

/// In the Go queue, the second of two takers whose timers fire waits for a token that is never
/// sent.
#[testkit::test]
fn two_takers_whose_timeouts_end_together_both_return() {
    let (queue, clock) = queue();
    queue.push(1, SECOND).unwrap();
    let takers = [SECOND, 2 * SECOND].map(|timeout| {
        let queue = queue.clone();
        thread::spawn(move || queue.take_timeout(timeout))
    });
    clock.wait_for_sleepers(2);
    clock.advance(2 * SECOND);
    let taken = takers.map(|taker| taker.join().unwrap().is_ok());
    assert_eq!(taken.iter().filter(|&&taken| taken).count(), 1);
}

#[testkit::test]
fn a_push_earlier_than_the_deadline_and_the_head_is_taken_in_time() {
    let (queue, clock) = queue();
    queue.push("far", 9 * SECOND).unwrap();
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || queue.take_timeout(5 * SECOND))
    };
    clock.wait_for_sleepers(1);
    until(|| next_due_is(&clock, 5));
    queue.push("near", SECOND).unwrap();
    until(|| next_due_is(&clock, 1));
    clock.advance(SECOND);
    assert_eq!(waiting.join().unwrap().unwrap().value, "near");
}

#[testkit::test]
fn a_leader_notified_of_a_push_keeps_its_own_deadline() {
    let (queue, clock) = queue();
    queue.push("far", 9 * SECOND).unwrap();
    let waiting = {
        let queue = queue.clone();
        thread::spawn(move || queue.take_timeout(2 * SECOND))
    };
    until(|| next_due_is(&clock, 2));
    let id = queue.push("near", SECOND).unwrap();
    until(|| next_due_is(&clock, 1));
    queue.cancel(id);
    clock.advance(SECOND);
    until(|| next_due_is(&clock, 1));
    clock.advance(SECOND);
    assert!(matches!(waiting.join().unwrap(), Err(TakeError::TimedOut)));
}

#[testkit::test]
fn no_taker_leads_while_no_entry_can_fall_due() {
    let (queue, clock) = queue();
    let id = queue.push("entry", std::time::Duration::MAX).unwrap();
    let waiting = taker(&queue);
    wait_asleep(&queue, 1);
    assert_eq!(clock.sleepers(), 0);
    assert!(queue.reset(id, SECOND));
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(waiting.join().unwrap().unwrap().value, "entry");
}

#[testkit::test]
fn dropping_other_handles_wakes_no_taker() {
    let clock = ManualClock::new();
    let queue = DelayQueue::with_clock(clock.clone());
    queue.push(1, SECOND).unwrap();
    let waiting = taker(&queue);
    clock.wait_for_sleepers(1);
    drop(queue);
    clock.advance(SECOND);
    assert_eq!(waiting.join().unwrap().unwrap().value, 1);
}
