//! When a pool has ended: after its workers' threads, with all that hangs on them, not before.

use std::cell::RefCell;
use std::thread;
use std::time::Duration;

use pool_core::{Pool, WaitError};
use testkit::Gate;

use crate::support::{Journal, bounded, hold, pool, until};

/// Waits at a gate as its thread's thread-locals are dropped, and writes that it has.
struct Leaves(Gate, Journal<&'static str>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.wait();
        self.1.write("left");
    }
}

thread_local!(static KEPT: RefCell<Option<Leaves>> = const { RefCell::new(None) });

/// Waits for the end of a released pool of which one worker's thread is held by a [`Leaves`].
fn nobody_sees_the_end_before_it_leaves(
    pool: &Pool,
    leaving: &Gate,
    journal: &Journal<&'static str>,
) {
    let waiters: Vec<_> = (0..2)
        .map(|_| {
            let (pool, journal) = (pool.clone(), journal.clone());
            thread::spawn(move || {
                pool.wait_released().unwrap();
                journal.write("ended");
            })
        })
        .collect();
    leaving.wait_for_arrivals(1);
    until(|| pool.running() == 0);
    for _ in 0..1000 {
        thread::yield_now(); // Whoever does not wait for the thread has returned by now.
    }
    leaving.open();
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert_eq!(journal.entries(), ["left", "ended", "ended"]);
}

#[test]
fn a_pool_has_ended_only_when_its_last_workers_thread_locals_are_gone() {
    bounded(|| {
        let (pool, leaving, journal) = (pool(1), Gate::new(), Journal::new());
        let leaves = Leaves(leaving.clone(), journal.clone());
        pool.submit(move || KEPT.set(Some(leaves))).unwrap();
        pool.release();
        nobody_sees_the_end_before_it_leaves(&pool, &leaving, &journal);
    });
}

#[test]
fn a_pool_has_ended_only_when_those_of_workers_long_gone_are_too() {
    bounded(|| {
        let (pool, leaving, journal) = (pool(2), Gate::new(), Journal::new());
        let last = hold(&pool, 1);
        let first = Gate::new();
        let (held, leaves) = (first.clone(), Leaves(leaving.clone(), journal.clone()));
        let task = move || {
            KEPT.set(Some(leaves));
            held.wait();
        };
        pool.try_submit(task).unwrap();
        first.wait_for_arrivals(1);
        pool.tune(1).unwrap();
        first.open(); // There are too many workers, so this one leaves.
        leaving.wait_for_arrivals(1);
        assert_eq!(pool.running(), 1);
        pool.release();
        last.open();
        nobody_sees_the_end_before_it_leaves(&pool, &leaving, &journal);
    });
}

#[test]
fn a_pool_has_ended_only_when_its_panic_hooks_have_returned() {
    bounded(|| {
        let (gate, journal) = (Gate::new(), Journal::new());
        let (held, log) = (gate.clone(), journal.clone());
        let pool = Pool::builder().capacity(1).panic_hook(move |_| {
            held.wait();
            log.write("hook");
        });
        let pool = pool.build().unwrap();
        pool.submit(|| panic!("for the hook")).unwrap();
        gate.wait_for_arrivals(1);
        pool.release();
        assert_eq!(
            pool.wait_released_timeout(Duration::ZERO),
            Err(WaitError::TimedOut)
        );
        assert_eq!(pool.in_flight(), 1);
        let (ending, log) = (pool.clone(), journal.clone());
        let waiter = thread::spawn(move || {
            ending.wait_released().unwrap();
            log.write("ended");
        });
        gate.open();
        waiter.join().unwrap();
        assert_eq!(journal.entries(), ["hook", "ended"]);
    });
}
