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
fn a_token_from_another_thread_ends_the_current_park() {
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
fn only_a_wake_up_from_a_sleep_is_noted() {
    let parker = Parker::new();
    parker.unpark();
    assert_eq!(parker.woken_at(), 0);
    parker.unpark();
    assert_eq!(parker.woken_at(), 0, "it has a token");
    parker.park();
    let slept = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !slept.load(Relaxed) {
                parker.unpark();
                slept.store(parker.woken_at() > 0, Relaxed);
                thread::yield_now();
            }
            parker.unpark(); // The owner may have looked before the token was given.
        });
        while !slept.load(Relaxed) {
            parker.park();
        }
    });
}

#[test]
fn tokens_given_before_the_owner_looks_merge_into_one() {
    let parker = Parker::new();
    parker.unpark();
    parker.clone().unpark();
    assert!(parker.take_token());
    assert!(!parker.take_token());
}

#[test]
fn a_park_that_times_out_leaves_no_token() {
    let parker = Parker::new();
    assert!(!parker.park_until_real(Instant::now()));
    let when = Instant::now() + Duration::from_millis(2);
    assert!(!MonotonicClock.park_until(&parker, when));
    assert!(Instant::now() >= when);
    assert!(!parker.take_token());
}

#[test]
fn a_token_is_taken_although_the_deadline_has_passed() {
    let parker = Parker::new();
    parker.unpark();
    assert!(parker.park_until_real(Instant::now()));
    assert!(!parker.park_until_real(Instant::now()));
}

#[testkit::test]
fn each_thread_has_one_parker_of_its_own() {
    Parker::of_thread().unpark();
    let mine = Parker::of_thread();
    mine.park();
    thread::scope(|scope| scope.spawn(|| Parker::of_thread().unpark()).join().unwrap());
    assert!(!mine.take_token());
}

#[testkit::test]
fn a_nested_wait_takes_no_token_of_the_outer_wait() {
    let outer = Parker::of_thread();
    outer.unpark(); // Between enrolment and parking, user code may run and wait.
    {
        let inner = Parker::of_thread();
        assert!(!inner.take_token());
        inner.unpark();
        inner.park();
    }
    outer.park();
}

#[test]
fn waits_that_end_out_of_order_leave_one_parker() {
    let (first, second) = (Parker::of_thread(), Parker::of_thread());
    drop(first);
    let third = Parker::of_thread(); // The parker of the first wait again.
    third.unpark();
    assert!(!second.take_token());
    drop(third);
    drop(second);
    assert!(
        !Parker::of_thread().take_token(),
        "the parker that was returned last"
    );
}

#[test]
fn a_thread_park_in_user_code_takes_no_token_of_a_parker() {
    let parker = Parker::of_thread();
    parker.unpark();
    thread::park_timeout(Duration::ZERO);
    assert!(parker.take_token());
}
