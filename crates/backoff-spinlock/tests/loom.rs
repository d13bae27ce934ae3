//! Models of the lock: each one names two racing parties and the harm they must not do.
//!
//! The data under a [`SpinLock`] is in a cell that loom watches: a section that overlaps another or misses its
//! writes fails the model. A sleeper that is not woken is a deadlock, which loom reports. Models with a
//! reserved turn run without and with fair wakes.

#![cfg(anthill_loom)]

use std::sync::Arc;

use backoff_spinlock::SpinLock;
use sync_shim::model::{JoinHandle, check, set_fair_wakes, spawn};
use sync_shim::thread::yield_now;

fn adder(lock: &Arc<SpinLock<u32>>, times: u32) -> JoinHandle<()> {
    let lock = Arc::clone(lock);
    spawn(move || (0..times).for_each(|_| *lock.lock() += 1))
}

fn both_ways(name: &'static str, bound: Option<usize>, body: fn()) {
    for fair in [false, true] {
        check(&format!("{name} (fair: {fair})"), bound, move || {
            set_fair_wakes(fair);
            body();
        });
    }
}

#[testkit::model(check = both_ways)]
fn sections_exclude_one_another_and_publish_their_writes() {
    let lock = Arc::new(SpinLock::new(0));
    let other = adder(&lock, 1);
    *lock.lock() += 1;
    other.join().expect("the other ends well");
    assert_eq!(*lock.lock(), 2);
}

#[testkit::model]
fn try_lock_racing_try_lock_acquires_exclusively_or_not_at_all() {
    let lock = Arc::new(SpinLock::new(0));
    let other = {
        let lock = Arc::clone(&lock);
        spawn(move || lock.try_lock().map(|mut count| *count += 1).is_some())
    };
    let mine = lock.try_lock().map(|mut count| *count += 1).is_some();
    let theirs = other.join().expect("the other ends well");
    assert!(mine || theirs, "the lock was free, so one try acquires it");
    assert_eq!(*lock.lock(), u32::from(mine) + u32::from(theirs));
}

#[testkit::model(preemptions = 3, check = both_ways)]
fn two_sleepers_of_a_held_lock_both_acquire_it() {
    let lock = Arc::new(SpinLock::new(0));
    let mut held = lock.lock();
    let waiters = [(); 2].map(|()| adder(&lock, 1));
    *held += 1;
    drop(held);
    for waiter in waiters {
        waiter.join().expect("a waiter ends well");
    }
    assert_eq!(*lock.lock(), 3);
}

#[testkit::model(preemptions = 3, check = both_ways)]
fn a_thread_that_overtakes_a_sleeper_does_not_strand_it() {
    let lock = Arc::new(SpinLock::new(0));
    let waiters = [(); 2].map(|()| adder(&lock, 1));
    (0..2).for_each(|_| *lock.lock() += 1);
    for waiter in waiters {
        waiter.join().expect("a waiter ends well");
    }
    assert_eq!(*lock.lock(), 4);
}

/// Two sleepers, each woken and overtaken in turn. The first one acquires the lock at its second wake-up and
/// must still mark it contended, for the other sleeps again. The yields let the others run while the lock is
/// held, which would otherwise take three pre-emptions.
#[testkit::model(preemptions = 1)]
fn a_sleeper_woken_twice_does_not_strand_another_sleeper() {
    let lock = Arc::new(SpinLock::new(0));
    let waiters = [(); 2].map(|()| adder(&lock, 1));
    for _ in 0..3 {
        let mut held = lock.lock();
        yield_now();
        *held += 1;
    }
    for waiter in waiters {
        waiter.join().expect("a waiter ends well");
    }
    assert_eq!(*lock.lock(), 5);
}

#[testkit::model(preemptions = 3)]
fn another_thread_cannot_take_a_turn_reserved_for_a_sleeper() {
    set_fair_wakes(true);
    let lock = Arc::new(SpinLock::new(0));
    let sleeper = adder(&lock, 1);
    drop(lock.lock());
    // Refused: the other thread holds the lock, or it slept and its turn is reserved.
    let refused = lock.try_lock().is_none();
    let had_its_turn = *lock.lock() == 1;
    assert!(
        had_its_turn || !refused,
        "another thread took the reserved turn"
    );
    sleeper.join().expect("the sleeper ends well");
}
