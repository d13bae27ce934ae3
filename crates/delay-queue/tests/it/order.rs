//! The times at which entries fall due, and the order in which they are taken.

use std::time::{Duration, Instant};

use delay_queue::{Due, ManualClock, TakeError};
use sync_shim::Clock;

use crate::support::{NOW, SECOND, drain, queue, taker, wait_asleep};

#[test]
fn entries_are_taken_in_the_order_of_their_times() {
    let (queue, clock) = queue();
    for n in (0..20).rev() {
        queue.push(n, n * Duration::from_millis(1)).unwrap();
    }
    for n in 0..20 {
        assert_eq!(drain(&queue), [n], "one each millisecond");
        clock.advance(Duration::from_millis(1));
    }
}

#[test]
fn entries_due_together_are_taken_in_the_order_of_their_pushes() {
    let (queue, clock) = queue();
    let due = clock.now() + SECOND;
    for n in 0..500 {
        // By a delay or by a point in time, at several moments.
        if n % 2 == 0 {
            queue.push_at(n, due).unwrap();
        } else {
            queue.push(n, due - clock.now()).unwrap();
        }
        clock.advance(Duration::from_millis(1));
    }
    clock.advance(SECOND);
    assert!(drain(&queue).into_iter().eq(0..500));
}

#[test]
fn three_entries_due_within_three_microseconds_are_taken_in_order() {
    let queue = delay_queue::DelayQueue::new(); // On the system clock.
    for n in [3, 1, 2] {
        queue.push(n, Duration::from_micros(n)).unwrap();
    }
    queue.close();
    let taken: Vec<_> = std::iter::from_fn(|| queue.take().ok()).collect();
    let values: Vec<_> = taken.iter().map(|taken| taken.value).collect();
    let mut by_time = taken;
    by_time.sort_by_key(|taken| taken.due);
    let sorted: Vec<_> = by_time.iter().map(|taken| taken.value).collect();
    assert_eq!(values, sorted);
    assert_eq!(values.len(), 3);
}

#[test]
fn entries_fall_due_to_the_nanosecond() {
    const NANO: Duration = Duration::from_nanos(1);
    let (queue, clock) = queue();
    queue.push((), SECOND + NANO).unwrap();
    clock.advance(SECOND);
    assert!(matches!(queue.try_take(), Err(TakeError::NotDue)));
    clock.advance(NANO);
    assert!(queue.try_take().is_ok());
}

#[test]
fn zero_delays_and_past_times_are_due_at_once() {
    let (queue, clock) = queue();
    clock.advance(SECOND);
    queue.push("zero", NOW).unwrap();
    assert_eq!(drain(&queue), ["zero"]);
    queue
        .push_at("past", clock.now() - Duration::from_millis(1))
        .unwrap();
    assert_eq!(drain(&queue), ["past"]);
    // Before the queue was built: due since then, without underflow.
    queue
        .push_at("long past", clock.now().checked_sub(2 * SECOND).unwrap())
        .unwrap();
    assert_eq!(drain(&queue), ["long past"]);
}

#[testkit::test]
fn an_entry_with_the_longest_delay_never_falls_due_and_delays_no_other() {
    let (queue, clock) = queue();
    let never = queue.push("never", Duration::MAX).unwrap();
    assert_eq!(queue.peek_due(), Some(Due::Never));
    assert!(matches!(queue.try_take(), Err(TakeError::NotDue)));
    let waiting = taker(&queue);
    wait_asleep(&queue, 1);
    assert_eq!(
        clock.sleepers(),
        0,
        "no leader waits for a time that never comes"
    );
    queue.push("soon", SECOND).unwrap();
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(waiting.join().unwrap().unwrap().value, "soon");

    clock.advance(Duration::from_secs(600 * 365 * 24 * 3600)); // Past the end of 64 bits.
    assert!(matches!(queue.try_take(), Err(TakeError::NotDue)));
    queue.push("late", NOW).unwrap();
    assert_eq!(queue.cancel(never), Some("never"));
}

#[test]
fn delays_beyond_the_clocks_range_never_end() {
    let (queue, _clock) = queue();
    let years = |n: u64| Duration::from_secs(n * 365 * 86_400);
    queue.push("within", years(437)).unwrap();
    assert!(matches!(queue.peek_due(), Some(Due::At(_))));
    queue.clear();
    for beyond in [years(585), Duration::from_secs(u64::MAX), Duration::MAX] {
        queue.push("beyond", beyond).unwrap();
        assert_eq!(queue.peek_due(), Some(Due::Never), "{beyond:?}");
        queue.clear();
    }
}

/// tokio-util's wheel ends after 2^36 milliseconds, and panics.
#[test]
fn delays_of_more_than_two_years_work() {
    let (queue, clock) = queue();
    let far = Duration::from_millis(1 << 37);
    queue.push("far", far).unwrap();
    queue.push("near", SECOND).unwrap();
    clock.advance(far - Duration::from_nanos(1));
    assert_eq!(drain(&queue), ["near"]);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(drain(&queue), ["far"]);
}

#[test]
fn the_latest_instant_can_be_pushed() {
    let (queue, clock) = queue();
    let mut latest = clock.now();
    let mut step = Duration::from_secs(u64::MAX / 2);
    while !step.is_zero() {
        match latest.checked_add(step) {
            Some(later) => latest = later,
            None => step /= 2,
        }
    }
    let id = queue.push_at("at the end of time", latest).unwrap();
    assert_eq!(queue.peek_due(), Some(Due::Never));
    assert!(queue.reset_at(id, clock.now()));
    assert_eq!(drain(&queue), ["at the end of time"]);
}

/// A taker sleeps even if the clock stands still: it must not spin.
#[testkit::test]
fn a_taker_does_not_spin_while_the_clock_stands_still() {
    let (queue, clock) = crate::support::Witness::queue();
    queue.push((), SECOND).unwrap();
    let taker = taker(&queue);
    clock.wait_for_sleepers(1);
    clock.looks();
    for _ in 0..100 {
        clock.advance(NOW);
        std::thread::yield_now();
    }
    assert_eq!(clock.looks(), 0, "the taker did not even wake");
    clock.advance(SECOND);
    taker.join().unwrap().unwrap();
}

#[test]
fn a_taken_entry_has_its_due_time_and_not_the_time_of_the_take() {
    let (queue, clock) = queue();
    let due = clock.now() + SECOND;
    let id = queue.push(7, SECOND).unwrap();
    assert_eq!(queue.peek_due(), Some(Due::At(due)));
    clock.advance(10 * SECOND);
    let taken = queue.try_take().unwrap();
    assert_eq!((taken.value, taken.id, taken.due), (7, id, due));
}

#[test]
fn the_known_time_is_the_latest_reading() {
    let (queue, clock) = crate::support::Witness::queue();
    for n in 0..3 {
        queue.push(n, SECOND).unwrap();
    }
    clock.advance(SECOND);
    clock.looks();
    queue.try_take().unwrap();
    assert_eq!(clock.looks(), 1);
    queue.try_take().unwrap();
    queue.try_take().unwrap();
    assert_eq!(clock.looks(), 0, "due by the time that was read before");
    assert!(matches!(queue.try_take(), Err(TakeError::Empty)));
    assert_eq!(
        clock.looks(),
        0,
        "an empty queue has nothing to compare the time with"
    );
    queue.push(4, NOW).unwrap();
    assert_eq!(clock.looks(), 1, "a push reads it once");
    queue.try_take().unwrap();
    queue.push_at(5, clock.start()).unwrap();
    queue.try_take().unwrap();
    assert_eq!(clock.looks(), 0, "a point of time needs no reading");
}

#[test]
fn a_queue_works_on_a_clock_that_has_run_for_centuries() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(200 * 365 * 24 * 3600));
    let queue = delay_queue::DelayQueue::with_clock(clock.clone());
    queue.push("a", SECOND).unwrap();
    queue.push_at("b", Instant::now()).unwrap(); // A time in the past.
    assert_eq!(drain(&queue), ["b"]);
    clock.advance(SECOND);
    assert_eq!(drain(&queue), ["a"]);
}

/// As with deadlines that a restart restores: they were due while the process was down.
#[test]
fn due_times_before_the_queue_was_made_keep_their_order() {
    let start = Instant::now();
    let clock = ManualClock::new();
    let queue = delay_queue::DelayQueue::with_clock(clock);
    let ago = [3, 1, 2, 600].map(|seconds| start.checked_sub(seconds * SECOND).unwrap());
    for due in ago {
        queue.push_at((), due).unwrap();
    }
    assert_eq!(queue.peek_due(), Some(Due::At(ago[3])));
    let taken = queue.drain_ready(usize::MAX);
    let dues: Vec<_> = taken.into_iter().map(|taken| taken.due).collect();
    assert_eq!(dues, [ago[3], ago[0], ago[2], ago[1]]);
}

/// Times too far in the past to differ keep the order of their pushes.
#[test]
fn due_times_too_far_past_to_differ_keep_the_order_of_their_pushes() {
    let (queue, clock) = queue();
    queue.push_at(9, clock.now()).unwrap();
    // The earliest representable `Instant`.
    let mut oldest = clock.now();
    for bit in (0..63).rev() {
        let step = Duration::from_secs(1 << bit);
        oldest = oldest.checked_sub(step).unwrap_or(oldest);
    }
    for n in 0..3 {
        queue.push_at(n, oldest).unwrap();
    }
    assert_eq!(drain(&queue), [0, 1, 2, 9]);
}
