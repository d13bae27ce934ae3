use std::thread;
use std::time::{Duration, Instant};

use backoff_spinlock::SpinMutex;
use testkit::Gate;

#[test]
fn a_free_lock_is_acquired_with_any_deadline() {
    let lock = SpinMutex::new(());
    assert!(lock.try_lock_for(Duration::ZERO).is_some());
    assert!(lock.try_lock_for(Duration::MAX).is_some());
    assert!(lock.try_lock_until(Instant::now()).is_some());
}

#[test]
fn a_timed_lock_waits_until_its_deadline() {
    let lock = SpinMutex::new(());
    let held = lock.lock();
    assert!(lock.try_lock_for(Duration::ZERO).is_none());
    let deadline = Instant::now() + Duration::from_millis(5);
    assert!(lock.try_lock_until(deadline).is_none());
    assert!(Instant::now() >= deadline);
    drop(held);
    assert!(
        lock.try_lock().is_some(),
        "a thread that gave up left nothing behind"
    );
}

#[testkit::test]
fn a_waiter_that_times_out_consumes_no_wake_up_of_another() {
    for _ in 0..200 {
        let (lock, gate) = (SpinMutex::new(0), Gate::new());
        let held = lock.lock();
        thread::scope(|scope| {
            for patience in [Some(Duration::from_micros(50)), None, None] {
                let (lock, gate) = (&lock, &gate);
                scope.spawn(move || {
                    gate.wait();
                    match patience {
                        Some(patience) => drop(lock.try_lock_for(patience)),
                        None => *lock.lock() += 1,
                    }
                });
            }
            gate.wait_for_arrivals(3);
            gate.open();
            drop(held);
        });
        assert_eq!(lock.into_inner(), 2);
    }
}

#[testkit::test]
fn a_deadline_beyond_the_clocks_range_never_ends_a_wait() {
    let (lock, gate) = (SpinMutex::new(0), Gate::new());
    let held = lock.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            gate.wait();
            *lock.try_lock_for(Duration::MAX).unwrap() += 1;
        });
        gate.wait_for_arrivals(1);
        gate.open();
        drop(held);
    });
    assert_eq!(lock.into_inner(), 1);
}
