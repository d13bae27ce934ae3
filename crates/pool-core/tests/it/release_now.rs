//! `release_now`: unstarted tasks are counted, and returned or dropped.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pool_core::{JoinError, JoinHandle, Pool, WaitError};
use testkit::{DropCounter, Gate, waker_fn};

use crate::support::{Journal, hold, poll_with, queueing, until};

#[testkit::test]
fn release_now_removes_unstarted_tasks_and_returns_their_number() {
    let pool = queueing(10);
    let gate = hold(&pool, 1);
    let (drops, journal) = (DropCounter::new(), Journal::new());
    let handles: Vec<_> = (0..3)
        .map(|n| {
            let (token, log) = (drops.token(), journal.clone());
            pool.try_spawn(move || {
                let _token = token;
                log.write(n);
            })
            .unwrap()
        })
        .collect();
    let token = drops.token();
    pool.try_submit(move || drop(token)).unwrap();
    assert!(handles[1].cancel());
    assert_eq!(pool.release_now(), 3, "the cancelled one was out before");
    assert_eq!((drops.alive(), pool.queued(), pool.in_flight()), (0, 0, 1));
    assert_eq!(pool.release_now(), 0);
    for (n, handle) in handles.into_iter().enumerate() {
        match handle.join() {
            Err(JoinError::Released) => assert_ne!(n, 1),
            Err(JoinError::Cancelled) => assert_eq!(n, 1),
            other => panic!("{other:?}"),
        }
    }
    gate.open();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed), (5, 1));
    assert_eq!((stats.released, stats.cancelled, journal.len()), (3, 1, 0));
}

#[testkit::test]
fn release_now_after_a_release_removes_the_queue() {
    let pool = queueing(5);
    let gate = hold(&pool, 1);
    for _ in 0..5 {
        pool.try_submit(|| ()).unwrap();
    }
    pool.release();
    assert_eq!((pool.queued(), pool.release_now()), (5, 5));
    gate.open();
    pool.wait_released().unwrap();
}

#[testkit::test]
fn the_end_waits_for_the_tasks_that_release_now_removes() {
    struct Slow(Gate);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.wait();
        }
    }
    let pool = queueing(1);
    let (running, dropping) = (hold(&pool, 1), Gate::new());
    let slow = Slow(dropping.clone());
    pool.try_submit(move || drop(slow)).unwrap();
    let releasing = pool.clone();
    let releaser = thread::spawn(move || releasing.release_now());
    dropping.wait_for_arrivals(1);
    running.open();
    until(|| pool.running() == 0);
    assert_eq!((pool.in_flight(), pool.queued()), (1, 0));
    assert_eq!(
        pool.wait_idle_timeout(Duration::ZERO),
        Err(WaitError::TimedOut)
    );
    assert_eq!(
        pool.wait_released_timeout(Duration::ZERO),
        Err(WaitError::TimedOut)
    );
    dropping.open();
    pool.wait_released().unwrap();
    assert_eq!((releaser.join().unwrap(), pool.in_flight()), (1, 0));
}

#[testkit::test]
fn a_released_tasks_handle_ends_after_its_captures_are_dropped_and_it_is_counted() {
    let pool = queueing(3);
    let gate = hold(&pool, 1);
    let (drops, journal) = (DropCounter::new(), Journal::new());
    let handles: Vec<_> = (0..3)
        .map(|_| {
            let token = drops.token();
            let mut handle = pool.try_spawn(move || drop(token)).unwrap();
            let (pool, drops, log) = (pool.clone(), drops.clone(), journal.clone());
            let waker = waker_fn(move || log.write((drops.dropped(), pool.stats().released)));
            assert!(poll_with(&mut handle, &waker).is_pending());
            handle
        })
        .collect();
    assert_eq!(pool.release_now(), 3);
    assert_eq!(journal.entries(), [(1, 1), (2, 2), (3, 3)]);
    assert!(
        handles
            .into_iter()
            .all(|handle| matches!(handle.join(), Err(JoinError::Released)))
    );
    gate.open();
}

#[testkit::test]
fn a_released_capture_that_waits_for_the_pool_gets_would_deadlock() {
    type Answers = Journal<[Result<(), WaitError>; 3]>;
    struct Waits(Pool, Answers);
    impl Drop for Waits {
        fn drop(&mut self) {
            let long = Duration::MAX;
            self.1.write([
                self.0.wait_idle(),
                self.0.wait_released(),
                self.0.release_timeout(long),
            ]);
        }
    }
    let pool = queueing(2);
    let (gate, answers) = (hold(&pool, 1), Answers::new());
    let capture = Waits(pool.clone(), answers.clone());
    pool.try_submit(move || drop(capture)).unwrap();
    assert_eq!(pool.release_now(), 1);
    assert_eq!(answers.entries(), [[Err(WaitError::WouldDeadlock); 3]]);
    gate.open();
    pool.wait_idle().unwrap();
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_released_capture_that_joins_another_released_task_gets_released() {
    struct Joins(Option<JoinHandle<()>>, Journal<bool>);
    impl Drop for Joins {
        fn drop(&mut self) {
            let joined = self.0.take().map(JoinHandle::join);
            self.1
                .write(matches!(joined, Some(Err(JoinError::Released))));
        }
    }
    let pool = queueing(3);
    let (gate, journal) = (hold(&pool, 1), Journal::new());
    let slot = Arc::new(Mutex::new(None));
    let late = Arc::clone(&slot);
    pool.try_submit(move || drop(late)).unwrap();
    let second = pool.try_spawn(|| ()).unwrap();
    *slot.lock().unwrap() = Some(Joins(Some(second), journal.clone()));
    drop(slot);
    assert_eq!(pool.release_now(), 2);
    assert_eq!(journal.entries(), [true]);
    gate.open();
    pool.wait_released().unwrap();
    assert_eq!(pool.stats().released, 2);
}
