use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use sync_shim::{Clock, MonotonicClock, Parker};

#[testkit::test]
fn a_token_given_before_parking_ends_the_next_park() {
    let parker = Parker::new();
    parker.unpark();
    parker.park();
    assert!(!parker.take_token());
}

#[testkit::test]
fn a_token_from_another_thread_ends_the_present_park() {
    let parker = Parker::new();
    thread::scope(|scope| {
        for _ in 0..1000 {
            let giver = scope.spawn(|| parker.unpark());
            parker.park();
            giver.join().unwrap();
            assert!(!parker.take_token());
        }
    });
}

#[testkit::test]
fn giving_a_token_says_whether_the_owner_slept() {
    let parker = Parker::new();
    assert!(!parker.unpark_sleeper());
    assert!(!parker.unpark_sleeper(), "it has a token");
    parker.park();
    let slept = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !slept.load(Relaxed) {
                slept.store(parker.unpark_sleeper(), Relaxed);
                thread::yield_now();
            }
            parker.unpark(); // The owner may have looked too early.
        });
        while !slept.load(Relaxed) {
            parker.park();
        }
    });
}

#[test]
fn two_tokens_given_before_one_is_found_are_one() {
    let parker = Parker::new();
    parker.unpark();
    parker.clone().unpark();
    assert!(parker.take_token());
    assert!(!parker.take_token());
}

#[test]
fn a_park_that_runs_out_of_time_leaves_no_trace() {
    let parker = Parker::new();
    assert!(!parker.park_until_real(Instant::now()));
    let when = Instant::now() + Duration::from_millis(2);
    assert!(!MonotonicClock.park_until(&parker, when));
    assert!(Instant::now() >= when);
    assert!(!parker.take_token());
}

#[test]
fn a_token_counts_more_than_a_deadline_that_is_over() {
    let parker = Parker::new();
    parker.unpark();
    assert!(parker.park_until_real(Instant::now()));
    assert!(!parker.park_until_real(Instant::now()));
}

#[testkit::test]
fn a_thread_has_one_parker_and_no_other_threads_parker() {
    Parker::of_thread().unpark();
    let mine = Parker::of_thread();
    mine.park();
    thread::scope(|scope| scope.spawn(|| Parker::of_thread().unpark()).join().unwrap());
    assert!(!mine.take_token());
}

#[testkit::test]
fn a_wait_inside_a_wait_takes_no_token_of_the_outer_one() {
    let outer = Parker::of_thread();
    outer.unpark(); // Between the enrolment and the park.
    {
        let inner = Parker::of_thread(); // User code that runs there waits itself.
        assert!(!inner.take_token());
        inner.unpark();
        inner.park();
    }
    outer.park();
}

#[test]
fn waits_that_end_in_another_order_than_they_began_leave_one_parker() {
    let (first, second) = (Parker::of_thread(), Parker::of_thread());
    drop(first);
    let third = Parker::of_thread(); // The first one again.
    third.unpark();
    assert!(!second.take_token());
    drop(third);
    drop(second);
    assert!(!Parker::of_thread().take_token(), "the last one put back");
}

#[test]
fn a_task_that_parks_its_thread_for_its_own_purposes_eats_no_token() {
    let parker = Parker::of_thread();
    parker.unpark();
    thread::park_timeout(Duration::ZERO);
    assert!(parker.take_token());
}
