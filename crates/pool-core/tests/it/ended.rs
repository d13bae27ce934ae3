//! The end of a pool: it comes after the workers' threads have dropped their thread-locals, and not
//! before.

use std::cell::RefCell;
use std::thread;
use std::time::Duration;

use pool_core::{Pool, WaitError};
use testkit::Gate;

use crate::support::{Journal, end, hold, pool, until};

/// A thread-local whose destructor waits at a gate and then writes to the journal.
struct Leaves(Gate, Journal<&'static str>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.wait();
        self.1.write("left");
    }
}

thread_local!(static KEPT: RefCell<Option<Leaves>> = const { RefCell::new(None) });

/// Waits for the end of a released pool while a [`Leaves`] holds one worker's thread.
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
        thread::yield_now(); // A wait that ignores the thread would have returned by now.
    }
    leaving.open();
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert_eq!(journal.entries(), ["left", "ended", "ended"]);
}

#[testkit::test]
fn the_end_waits_for_the_thread_locals_of_the_last_worker() {
    let (pool, leaving, journal) = (pool(1), Gate::new(), Journal::new());
    let leaves = Leaves(leaving.clone(), journal.clone());
    pool.submit(move || KEPT.set(Some(leaves))).unwrap();
    pool.release();
    nobody_sees_the_end_before_it_leaves(&pool, &leaving, &journal);
}

#[testkit::test]
fn the_end_waits_for_the_thread_locals_of_workers_that_ended_earlier() {
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
    first.open(); // There are more workers than the capacity allows, so this one leaves.
    leaving.wait_for_arrivals(1);
    assert_eq!(pool.running(), 1);
    pool.release();
    last.open();
    nobody_sees_the_end_before_it_leaves(&pool, &leaving, &journal);
}

#[testkit::test]
fn the_end_waits_for_running_panic_hooks() {
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
}

/// A task that stores `leaves` in a thread-local of its worker.
fn leaving_behind(leaves: Leaves) -> impl FnOnce() + Send + 'static {
    move || KEPT.set(Some(leaves))
}

#[testkit::test]
fn too_many_ending_threads_keep_further_workers_from_ending() {
    // The limit of threads that may be ending at a time, plus the worker that waits.
    const MOST: usize = 9;
    let (leaving, journal) = (Gate::new(), Journal::new());
    let pool = Pool::builder().capacity(1).keep_alive(Duration::ZERO);
    let pool = pool.build().unwrap();
    for ended in 1..MOST {
        let leaves = Leaves(leaving.clone(), journal.clone());
        pool.submit(leaving_behind(leaves)).unwrap();
        until(|| pool.stats().completed == ended as u64 && pool.running() == 0);
        assert_eq!(pool.stats().ending, ended);
    }
    // This worker exceeds the limit, so it waits until the first thread is gone.
    pool.submit(|| ()).unwrap();
    pool.wait_idle().unwrap();
    until(|| pool.idle() == 1);
    let late = pool.try_spawn(|| 7).unwrap();
    for _ in 0..1000 {
        thread::yield_now();
    }
    let stats = pool.stats();
    assert_eq!((stats.live, stats.peak_live), (1, 1));
    assert!(stats.threads_started <= MOST as u64 + 1);
    leaving.open();
    assert_eq!(late.join().unwrap(), 7);
    pool.release();
    pool.wait_released().unwrap();
    assert_eq!((journal.len(), pool.stats().ending), (MOST - 1, 0));
}

#[testkit::test]
fn a_thread_that_does_not_end_does_not_block_the_next_worker_from_ending() {
    let (leaving, journal) = (Gate::new(), Journal::new());
    let pool = Pool::builder().capacity(1).keep_alive(Duration::ZERO);
    let pool = pool.build().unwrap();
    let stuck = Leaves(leaving.clone(), journal.clone());
    pool.submit(leaving_behind(stuck)).unwrap();
    for task in 0..40 {
        until(|| pool.running() == 0); // Each task has its own worker.
        assert_eq!(pool.spawn(move || task).unwrap().join().unwrap(), task);
    }
    until(|| pool.running() == 0);
    assert_eq!((pool.stats().threads_started, journal.len()), (41, 0));
    leaving.open();
    end(&pool);
    assert_eq!((journal.len(), pool.stats().ending), (1, 0));
}

#[testkit::test]
fn a_worker_that_waits_to_end_does_so_when_any_earlier_thread_is_gone() {
    const MOST: usize = 8; // The limit of threads that may be ending at a time.
    let (stuck, passes, journal) = (Gate::new(), Gate::new(), Journal::new());
    let pool = Pool::builder().capacity(1).keep_alive(Duration::ZERO);
    let pool = pool.build().unwrap();
    for thread in 0..MOST {
        // The oldest threads do not end.
        let gate = if thread + 1 < MOST { &stuck } else { &passes };
        let leaves = Leaves(gate.clone(), journal.clone());
        pool.submit(leaving_behind(leaves)).unwrap();
        until(|| pool.running() == 0);
    }
    passes.wait_for_arrivals(1);
    pool.submit(|| ()).unwrap();
    pool.wait_idle().unwrap();
    until(|| pool.idle() == 1);
    let late = pool.try_spawn(|| 7).unwrap();
    passes.open();
    assert_eq!(late.join().unwrap(), 7);
    until(|| pool.running() == 0);
    assert_eq!(journal.len(), 1);
    stuck.open();
    end(&pool);
    assert_eq!((journal.len(), pool.stats().ending), (MOST, 0));
}

#[testkit::test]
fn threads_end_concurrently() {
    let (leaving, journal, pool) = (Gate::new(), Journal::new(), pool(4));
    let gate = Gate::new();
    for _ in 0..4 {
        let (leaves, gate) = (Leaves(leaving.clone(), journal.clone()), gate.clone());
        let task = leaving_behind(leaves);
        pool.try_submit(move || {
            task();
            gate.wait();
        })
        .unwrap();
    }
    gate.wait_for_arrivals(4);
    gate.open();
    pool.release();
    leaving.wait_for_arrivals(4); // No thread waits for another one to be gone.
    assert_eq!((pool.running(), pool.stats().ending), (0, 4));
    leaving.open();
    pool.wait_released().unwrap();
    assert_eq!((journal.len(), pool.stats().ending), (4, 0));
}

#[testkit::test]
fn ended_threads_use_no_memory() {
    let pool = Pool::builder().capacity(1).keep_alive(Duration::ZERO);
    let pool = pool.build().unwrap();
    for _ in 0..200 {
        pool.spawn(|| ()).unwrap().join().unwrap();
        until(|| pool.running() == 0);
        assert!(pool.stats().ending <= 8);
    }
    pool.release();
    pool.wait_released().unwrap();
    assert_eq!(pool.stats().ending, 0);
}

#[testkit::test]
fn all_workers_that_wait_for_earlier_threads_end() {
    let (leaving, journal) = (Gate::new(), Journal::new());
    let pool = Pool::builder().capacity(12).keep_alive(Duration::ZERO);
    let pool = pool.build().unwrap();
    let gate = Gate::new();
    for _ in 0..12 {
        let (leaves, gate) = (Leaves(leaving.clone(), journal.clone()), gate.clone());
        let task = leaving_behind(leaves);
        pool.try_submit(move || {
            task();
            gate.wait();
        })
        .unwrap();
    }
    gate.wait_for_arrivals(12);
    gate.open();
    until(|| pool.running() == 0);
    assert_eq!(pool.stats().ending, 12);
    // Twelve more workers find no free place among the ending threads.
    hold(&pool, 12).open();
    pool.wait_idle().unwrap();
    until(|| pool.idle() == 12);
    leaving.open();
    until(|| pool.running() == 0);
    end(&pool);
    assert_eq!((journal.len(), pool.stats().ending), (12, 0));
}
