//! Alarms of the machine's clock. The tests order alarms by other alarms, never by sleeping: when an alarm
//! fires, all earlier ones have already fired or been taken back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sync_shim::{Clock, MonotonicClock};
use testkit::{CountingWaker, in_child, waker_fn};

const SHORT: Duration = Duration::from_millis(5);
const HOUR: Duration = Duration::from_secs(3600);

#[testkit::test]
fn an_alarm_fires_at_its_time_and_not_before() {
    let (counter, seen) = (CountingWaker::new(), Arc::new(Mutex::new(None)));
    let (inner, noted) = (counter.waker(), Arc::clone(&seen));
    let when = Instant::now() + SHORT;
    let waker = waker_fn(move || {
        *noted.lock().unwrap() = Some(Instant::now());
        inner.wake_by_ref();
    });
    let _alarm = MonotonicClock.wake_at(when, waker).unwrap();
    counter.wait_for_wakes(1);
    assert!(seen.lock().unwrap().is_some_and(|seen| seen >= when));
}

#[testkit::test]
fn an_alarm_in_the_past_fires_at_once() {
    let counter = CountingWaker::new();
    let _alarm = MonotonicClock.wake_at(Instant::now(), counter.waker());
    counter.wait_for_wakes(1);
}

#[testkit::test]
fn an_alarm_cancelled_in_time_does_not_fire() {
    let (dropped, kept) = (CountingWaker::new(), CountingWaker::new());
    let when = Instant::now() + 10 * SHORT;
    let early = MonotonicClock.wake_at(when, dropped.waker()).unwrap();
    drop(early);
    let in_time = Instant::now() < when; // It may also have fired before it was taken back.
    assert_eq!(dropped.wakers(), 0);
    let _late = MonotonicClock.wake_at(when + SHORT, kept.waker()).unwrap();
    kept.wait_for_wakes(1);
    assert!(dropped.wakes() == 0 || !in_time);
}

#[testkit::test]
fn alarms_for_one_time_all_fire() {
    let counter = CountingWaker::new();
    let when = Instant::now() + SHORT;
    let alarms = [(); 3].map(|()| MonotonicClock.wake_at(when, counter.waker()).unwrap());
    counter.wait_for_wakes(3);
    drop(alarms);
    assert_eq!(counter.wakes(), 3);
}

#[testkit::test]
fn a_waker_that_panics_does_not_stop_the_next_alarm() {
    let counter = CountingWaker::new();
    let when = Instant::now() + SHORT;
    let bad = waker_fn(|| panic!("a panic of the waker"));
    let _bad = MonotonicClock.wake_at(when, bad).unwrap();
    let _good = MonotonicClock
        .wake_at(when + SHORT, counter.waker())
        .unwrap();
    counter.wait_for_wakes(1);
}

#[testkit::test]
fn a_waker_may_set_and_cancel_alarms() {
    let counter = CountingWaker::new();
    let kept = Arc::new(Mutex::new(Vec::new()));
    let (inner, keeper) = (counter.waker(), Arc::clone(&kept));
    let waker = waker_fn(move || {
        drop(MonotonicClock.wake_at(Instant::now() + HOUR, inner.clone()));
        let alarm = MonotonicClock.wake_at(Instant::now(), inner.clone());
        keeper.lock().unwrap().push(alarm);
    });
    let _alarm = MonotonicClock.wake_at(Instant::now(), waker).unwrap();
    counter.wait_for_wakes(1);
}

#[testkit::test]
fn an_earlier_alarm_wakes_the_thread_that_sleeps_for_a_later_one() {
    // In a process of its own: no other alarm can wake the thread.
    let test = "alarms::an_earlier_alarm_wakes_the_thread_that_sleeps_for_a_later_one";
    let end = in_child(test, || {
        let (late, early) = (CountingWaker::new(), CountingWaker::new());
        let _late = MonotonicClock.wake_at(Instant::now() + HOUR, late.waker());
        for round in 1..=100 {
            let _early = MonotonicClock.wake_at(Instant::now() + SHORT / 50, early.waker());
            early.wait_for_wakes(round);
        }
        assert_eq!(late.wakes(), 0);
    });
    assert!(end.is_ok(), "{end:?}");
}

/// Sets an alarm that sets the next one, while the process exits.
fn again() {
    std::mem::forget(MonotonicClock.wake_at(Instant::now(), waker_fn(again)));
}

#[testkit::test]
fn a_process_exits_while_alarms_are_pending_and_fire() {
    let end = in_child(
        "alarms::a_process_exits_while_alarms_are_pending_and_fire",
        || {
            let counter = CountingWaker::new();
            std::mem::forget(MonotonicClock.wake_at(Instant::now() + HOUR, counter.waker()));
            again();
            std::mem::forget(MonotonicClock.wake_at(Instant::now(), counter.waker()));
            counter.wait_for_wakes(1);
        },
    );
    assert!(end.is_ok(), "{end:?}");
}
