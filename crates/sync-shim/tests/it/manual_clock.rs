use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use sync_shim::{Clock, ManualClock, MonotonicClock, Parker};
use testkit::{CountingWaker, waker_fn};

const SECOND: Duration = Duration::from_secs(1);

/// A waker that appends `name` to a list.
fn noting(name: u32, notes: &Arc<Mutex<Vec<u32>>>) -> Waker {
    let notes = Arc::clone(notes);
    waker_fn(move || notes.lock().expect("no waker panics").push(name))
}

#[test]
fn a_manual_clock_stands_still_until_it_is_advanced() {
    let clock = ManualClock::new();
    let begin = clock.now();
    assert_eq!(clock.now(), begin);
    clock.advance(SECOND);
    assert_eq!(clock.clone().now(), begin + SECOND);
}

#[test]
fn a_delay_beyond_the_clocks_range_never_ends() {
    assert_eq!(ManualClock::new().after(Duration::MAX), None);
    assert_eq!(MonotonicClock.after(Duration::MAX), None);
    let clock = ManualClock::new();
    assert_eq!(clock.after(Duration::ZERO), Some(clock.now()));
    assert_eq!(clock.after(SECOND), Some(clock.now() + SECOND));
}

#[test]
fn an_advance_wakes_the_due_alarms_earliest_first() {
    let clock = ManualClock::new();
    let notes = Arc::new(Mutex::new(Vec::new()));
    let begin = clock.now();
    let alarms = [3, 1, 4, 2, 2].map(|seconds| {
        let waker = noting(seconds, &notes);
        clock.wake_at(begin + SECOND * seconds, waker).unwrap()
    });
    assert_eq!(clock.next_due(), Some(begin + SECOND));
    clock.advance(Duration::from_millis(999));
    assert!(notes.lock().unwrap().is_empty());
    clock.advance(2 * SECOND + Duration::from_millis(1));
    assert_eq!(*notes.lock().unwrap(), [1, 2, 2, 3]);
    assert_eq!(clock.sleepers(), 1);
    assert_eq!(clock.next_due(), Some(begin + 4 * SECOND));
    drop(alarms);
    assert_eq!((clock.sleepers(), clock.next_due()), (0, None));
}

#[test]
fn alarms_for_one_time_fire_in_the_order_they_were_set() {
    let clock = ManualClock::new();
    let notes = Arc::new(Mutex::new(Vec::new()));
    let when = clock.now() + SECOND;
    let alarms = [7, 5, 6].map(|name| clock.wake_at(when, noting(name, &notes)).unwrap());
    clock.advance(SECOND);
    assert_eq!(*notes.lock().unwrap(), [7, 5, 6]);
    drop(alarms);
}

#[test]
fn a_cancelled_alarm_does_not_fire_and_a_past_one_fires_at_once() {
    let clock = ManualClock::new();
    let counter = CountingWaker::new();
    drop(
        clock
            .wake_at(clock.now() + SECOND, counter.waker())
            .unwrap(),
    );
    assert_eq!((clock.sleepers(), clock.next_due()), (0, None));
    clock.advance(2 * SECOND);
    assert_eq!((counter.wakes(), counter.wakers()), (0, 0));
    let _fired = clock.wake_at(clock.now(), counter.waker()).unwrap();
    assert_eq!((counter.wakes(), counter.wakers()), (1, 0));
}

#[testkit::test]
fn a_waker_may_call_the_clock_that_wakes_it() {
    let clock = ManualClock::new();
    let (counter, kept) = (CountingWaker::new(), Arc::new(Mutex::new(Vec::new())));
    let (inner, second, keeper) = (clock.clone(), counter.waker(), Arc::clone(&kept));
    let _first = clock.wake_at(
        clock.now() + SECOND,
        waker_fn(move || {
            let alarm = inner.wake_at(inner.now() + SECOND, second.clone());
            keeper.lock().unwrap().push(alarm);
        }),
    );
    clock.advance(SECOND);
    assert_eq!((counter.wakes(), clock.sleepers()), (0, 1));
    clock.advance(SECOND);
    assert_eq!(counter.wakes(), 1);
}

#[testkit::test]
fn a_sleeping_thread_is_woken_at_its_time_and_not_before() {
    let clock = ManualClock::new();
    let when = clock.now() + SECOND;
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let woken = clock.park_until(&Parker::new(), when);
            (woken, clock.now())
        });
        clock.wait_for_sleepers(1);
        clock.advance(SECOND / 2);
        assert_eq!(clock.sleepers(), 1, "it is not due yet");
        clock.advance(SECOND / 2);
        assert_eq!(sleeper.join().unwrap(), (false, when));
    });
}

#[testkit::test]
fn a_token_ends_a_timed_sleep_and_leaves_no_sleeper_behind() {
    let (clock, parker) = (ManualClock::new(), Parker::new());
    let when = clock.now() + SECOND;
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| clock.park_until(&parker, when));
        clock.wait_for_sleepers(1);
        parker.unpark();
        assert!(sleeper.join().unwrap());
    });
    assert_eq!(clock.sleepers(), 0);
}

#[testkit::test]
fn a_wait_for_a_past_time_takes_a_token_without_sleeping() {
    let (clock, parker) = (ManualClock::new(), Parker::new());
    assert!(!clock.park_until(&parker, clock.now()));
    parker.unpark();
    assert!(clock.park_until(&parker, clock.now()));
    assert!(!clock.park_until(&parker, clock.now()));
}

#[testkit::test]
fn an_advance_wakes_the_other_alarms_although_a_waker_panics() {
    let clock = ManualClock::new();
    let when = clock.now() + SECOND;
    let panics = clock.wake_at(when, waker_fn(|| panic!("a waker")));
    let counter = CountingWaker::new();
    let after = clock.wake_at(when, counter.waker());
    let sleeper = {
        let clock = clock.clone();
        thread::spawn(move || clock.park_until(&Parker::new(), when))
    };
    clock.wait_for_sleepers(3);
    clock.advance(SECOND);
    assert_eq!(counter.wakes(), 1);
    assert!(!sleeper.join().expect("it does not panic"));
    drop((panics, after));
}

#[test]
fn an_advance_to_the_next_time_returns_when_its_waiter_waits_again() {
    const ROUNDS: u32 = 1_000;
    let clock = ManualClock::new();
    let (ours, rounds) = (clock.clone(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&rounds);
    let begin = clock.now();
    let waiter = thread::spawn(move || {
        let parker = Parker::new();
        for round in 1..=ROUNDS + 1 {
            assert!(!ours.park_until(&parker, begin + round * SECOND));
            count.store(round, SeqCst);
        }
    });
    for round in 1..=ROUNDS {
        assert_eq!(clock.advance_to_next(), SECOND);
        assert_eq!((rounds.load(SeqCst), clock.sleepers()), (round, 1));
    }
    clock.advance(SECOND); // The waiter does not wait again.
    waiter.join().expect("it does not panic");
}
