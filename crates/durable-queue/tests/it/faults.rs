//! A store that loses calls and responses at every point: no job is lost, and none runs under a stale lease.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use durable_queue::internals::FIRST_PAUSE;
use durable_queue::{CarriedOut, DurableQueue, ErrorKind, Retried, When};
use durable_queue_testing::{Call, Fault, SimStore};
use sync_shim::Clock as _;
use testkit::Rng;

use crate::support::{SECOND, Time, job, on_thread};

/// Moves time whenever the pump sleeps, until `is_over`.
fn run_clock(time: &Time, is_over: impl Fn() -> bool) {
    while !is_over() {
        if time.clock.sleepers() > 0 {
            time.clock.advance(Duration::from_millis(500));
        }
        thread::yield_now();
    }
}

/// Takes and acknowledges until each of `names` was acknowledged, or may have been.
fn work_off(time: &Time, queue: &DurableQueue<String, SimStore>, names: &[&str]) -> Vec<String> {
    let wanted: BTreeSet<&str> = names.iter().copied().collect();
    let seen = Mutex::new(Vec::new());
    let is_over = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut done = BTreeSet::new();
            while !done.is_superset(&wanted) {
                let Ok(taken) = queue.take_timeout(SECOND) else {
                    // No job is left: all were settled by calls whose responses were lost.
                    if queue.store_stats().is_ok_and(|stats| stats.jobs == 0) {
                        break;
                    }
                    continue;
                };
                let name = taken.clone();
                seen.lock().unwrap().push(name.clone());
                if taken.ack().is_ok() {
                    done.insert(*wanted.get(&*name).unwrap());
                }
            }
            is_over.store(1, Relaxed); // The scope's end orders it.
        });
        run_clock(time, || is_over.load(Relaxed) == 1);
    });
    seen.into_inner().unwrap()
}

/// One fault, at the n-th turn, for every n of such a run.
#[testkit::test]
fn a_lost_turn_at_any_point_loses_no_job() {
    for fault in [
        Fault::Before,
        Fault::After,
        Fault::Twice,
        Fault::Refused(ErrorKind::Busy),
    ] {
        for nth in 0..8 {
            let time = Time::new();
            let count = AtomicUsize::new(0);
            let plan = move |call| match call {
                Call::Turn if count.fetch_add(1, Relaxed) == nth => fault,
                _ => Fault::None,
            };
            let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
            let names = ["0", "1", "2"];
            for (index, name) in (0..).zip(names) {
                queue.push(job(name), SECOND * index).unwrap();
            }
            let seen = work_off(&time, &queue, &names);
            for name in names {
                assert!(
                    seen.iter().any(|it| it == name),
                    "{fault:?} at {nth}: {seen:?}"
                );
            }
            assert_eq!(queue.store_stats().unwrap().jobs, 0, "{fault:?} at {nth}");
        }
    }
}

/// However often it has failed before.
#[testkit::test]
fn after_a_response_pauses_start_again_with_the_shortest() {
    let time = Time::new();
    let left = Arc::new(AtomicUsize::new(5));
    let plan = {
        let left = Arc::clone(&left);
        move |call| {
            let fewer = || left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
            if call == Call::Turn && fewer().is_ok() {
                Fault::Refused(ErrorKind::Busy)
            } else {
                Fault::None
            }
        }
    };
    let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
    queue.push(job("first"), When::NOW).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    run_clock(&time, || taker.is_finished());
    taker.join().unwrap().ack().unwrap();
    left.store(1, Relaxed); // The following calls wake the pump.
    queue.push(job("second"), When::NOW).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    time.clock.wait_for_sleepers(1);
    let next = time.clock.now() + FIRST_PAUSE;
    assert_eq!(time.clock.next_due(), Some(next));
    time.clock.advance(FIRST_PAUSE);
    taker.join().unwrap().ack().unwrap();
}

/// Any faults, in any order, on all calls.
#[testkit::test]
fn random_failures_of_the_store_lose_no_answered_push() {
    const RUNS: usize = 30;
    let mut rng = Rng::from_env();
    for _ in 0..RUNS {
        let time = Time::new();
        let random = Mutex::new(rng.split());
        let plan = move |call| {
            let mut rng = random.lock().unwrap();
            match rng.below(10) {
                _ if call == Call::Other => Fault::None,
                0 => Fault::Before,
                1 => Fault::After,
                2 => Fault::Twice,
                3 => Fault::Refused(ErrorKind::Busy),
                _ => Fault::None,
            }
        };
        let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
        let names: Vec<String> = (0..10).map(|index| index.to_string()).collect();
        let answered: Vec<&str> = names
            .iter()
            .filter(|name| queue.push((*name).clone(), SECOND).is_ok())
            .map(String::as_str)
            .collect();
        // Jobs whose push had no response are taken as well.
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let seen = work_off_some(&time, &queue, &all);
        for name in answered {
            assert!(
                seen.iter().any(|it| it == name),
                "{name} is not in {seen:?}"
            );
        }
    }
}

/// Like [`work_off`], until the store is empty.
fn work_off_some(
    time: &Time,
    queue: &DurableQueue<String, SimStore>,
    names: &[&str],
) -> Vec<String> {
    let seen = Mutex::new(Vec::new());
    let is_over = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while queue.store_stats().unwrap().jobs > 0 {
                if let Ok(taken) = queue.take_timeout(SECOND) {
                    assert!(names.contains(&taken.as_str()));
                    seen.lock().unwrap().push(taken.clone());
                    taken.ack().ok();
                }
            }
            is_over.store(1, Relaxed); // The scope's end orders it.
        });
        run_clock(time, || is_over.load(Relaxed) == 1);
    });
    seen.into_inner().unwrap()
}

#[test]
fn a_rejected_push_returns_the_value() {
    for (fault, carried_out) in [
        (Fault::Refused(ErrorKind::Full), CarriedOut::No),
        (Fault::Before, CarriedOut::Perhaps),
        (Fault::After, CarriedOut::Perhaps),
    ] {
        let time = Time::new();
        let plan = move |call| {
            if call == Call::Enqueue {
                fault
            } else {
                Fault::None
            }
        };
        let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
        let refused = queue.push(job("secret"), When::NOW).unwrap_err();
        assert!(!format!("{refused:?} {refused}").contains("secret"));
        assert_eq!(refused.error.carried_out(), carried_out);
        assert_eq!(refused.value, "secret");
        let batch = vec![(job("secret"), When::NOW)];
        assert_eq!(queue.push_batch(batch.clone()).unwrap_err().value, batch);
    }
}

#[testkit::test]
fn last_error_is_set_until_the_store_answers_again() {
    let time = Time::new();
    let count = AtomicUsize::new(0);
    let plan = move |call| match call {
        Call::Turn if count.fetch_add(1, Relaxed) < 3 => Fault::Refused(ErrorKind::Busy),
        _ => Fault::None,
    };
    let met = Arc::new(AtomicUsize::new(0));
    let hook = {
        let met = Arc::clone(&met);
        move |error: &durable_queue::StoreError| {
            assert_eq!(error.kind(), ErrorKind::Busy);
            met.fetch_add(1, Relaxed);
            std::panic::resume_unwind(Box::new("a hook that panics"));
        }
    };
    let store = SimStore::with_faults(time.store.clone(), plan);
    let queue = time.builder(store).on_error(hook).build().unwrap();
    queue.push(job("job"), When::NOW).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    for _ in 0..3 {
        time.clock.wait_for_sleepers(1);
        assert_eq!(queue.last_error().unwrap().kind(), ErrorKind::Busy);
        time.clock.advance(SECOND);
    }
    let taken = taker.join().unwrap();
    assert_eq!((met.load(Relaxed), queue.stats().errors), (3, 3));
    assert!(queue.last_error().is_none());
    assert!(matches!(taken.retry("no").unwrap(), Retried::Again(_)));
}

#[testkit::test]
fn an_unavailable_store_is_retried_at_least_once_per_second() {
    const TRIES: u64 = 20;
    let time = Time::new();
    let count = AtomicU64::new(0);
    let plan = move |call| match call {
        Call::Turn if count.fetch_add(1, Relaxed) < TRIES => Fault::Refused(ErrorKind::Unavailable),
        _ => Fault::None,
    };
    let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
    queue.push(job("job"), When::NOW).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    for tries in 1..=TRIES {
        time.clock.wait_for_sleepers(1);
        assert_eq!(queue.stats().errors, tries);
        time.clock.advance(SECOND);
    }
    taker.join().unwrap().ack().unwrap();
}

/// A panic counts as a lost response.
#[testkit::test]
fn a_panicking_store_does_not_end_the_pump() {
    let time = Time::new();
    let count = AtomicUsize::new(0);
    let plan = move |call| {
        if call == Call::Turn && count.fetch_add(1, Relaxed) == 0 {
            std::panic::resume_unwind(Box::new("a store that panics"));
        }
        Fault::None
    };
    let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
    let names = ["job"];
    queue.push(job(names[0]), When::NOW).unwrap();
    assert_eq!(work_off(&time, &queue, &names), names);
}
