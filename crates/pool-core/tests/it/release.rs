//! The release of a pool: accepted tasks run, waiting tasks are returned, and any thread can wait
//! for the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use pool_core::{Clock, ManualClock, Pool, SubmitError, WaitError};
use testkit::Gate;

use crate::support::{Journal, end, hold, pool, queueing};

#[testkit::test]
fn a_release_refuses_new_tasks_and_runs_the_accepted_ones() {
    let pool = queueing(10);
    let gate = hold(&pool, 1);
    let journal = Journal::new();
    for n in 0..10 {
        pool.try_submit(journal.writer(n)).unwrap();
    }
    assert!(!pool.is_released());
    assert!(pool.release(), "it does not wait: the task is still held");
    assert!(!pool.release(), "only once");
    assert!(pool.is_released());
    assert!(matches!(
        pool.try_submit(|| ()),
        Err(SubmitError::Released(_))
    ));
    gate.open();
    pool.wait_released().unwrap();
    assert!(journal.entries().into_iter().eq(0..10));
}

#[testkit::test]
fn a_released_pool_has_statistics() {
    let pool = pool(4);
    hold(&pool, 4).open();
    end(&pool);
    assert_eq!(
        (pool.running(), pool.free(), pool.waiting()),
        (0, Some(4), 0)
    );
    let stats = pool.stats();
    assert_eq!((stats.busy, stats.idle, stats.in_flight), (0, 0, 0));
    assert_eq!((stats.threads_started, stats.threads_retired), (4, 4));
}

#[testkit::test]
fn a_pool_without_workers_ends_at_once() {
    let pool = pool(4);
    pool.wait_idle().unwrap();
    pool.release_timeout(Duration::ZERO).unwrap();
    pool.wait_released_timeout(Duration::ZERO).unwrap();
}

#[testkit::test]
fn a_wait_for_the_end_can_time_out_and_be_repeated_on_any_thread() {
    let clock = ManualClock::new();
    let pool = Pool::builder()
        .capacity(5)
        .keep_alive(None)
        .clock(clock.clone());
    let pool = pool.build().unwrap();
    let gate = hold(&pool, 5);
    assert_eq!(
        pool.release_timeout(Duration::ZERO),
        Err(WaitError::TimedOut)
    );
    assert_eq!(
        pool.release_timeout(Duration::ZERO),
        Err(WaitError::TimedOut)
    );
    let wait = |timeout| {
        let pool = pool.clone();
        thread::spawn(move || pool.release_timeout(timeout))
    };
    let second = Duration::from_secs(1);
    let late: Vec<_> = (0..3).map(|_| wait(second)).collect();
    let patient: Vec<_> = [2 * second, Duration::MAX / 2, Duration::MAX]
        .map(wait)
        .into_iter()
        .collect();
    clock.wait_for_sleepers(4); // Two of them wait without a time limit.
    clock.advance(second);
    for waiter in late {
        assert_eq!(waiter.join().unwrap(), Err(WaitError::TimedOut));
    }
    gate.open();
    for waiter in patient {
        waiter.join().unwrap().unwrap();
    }
    pool.release_timeout(clock.now()).unwrap();
    pool.wait_released_timeout(clock.now()).unwrap();
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_wait_for_the_end_may_begin_before_or_after_the_release() {
    let pool = pool(2);
    let gate = hold(&pool, 2);
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let pool = pool.clone();
            thread::spawn(move || pool.wait_released())
        })
        .collect();
    assert_eq!(
        pool.wait_released_timeout(Duration::ZERO),
        Err(WaitError::TimedOut)
    );
    pool.release();
    gate.open();
    pool.wait_released().unwrap();
    for waiter in waiters {
        waiter.join().unwrap().unwrap();
    }
}

#[testkit::test]
fn a_submit_racing_a_release_runs_accepted_tasks_only() {
    for round in 0..200 {
        let pool = Pool::builder()
            .capacity(2)
            .queue_depth(round % 3)
            .build()
            .unwrap();
        let (ran, start) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(std::sync::Barrier::new(5)),
        );
        let submitters: Vec<_> = (0..4)
            .map(|_| {
                let (pool, ran, start) = (pool.clone(), Arc::clone(&ran), Arc::clone(&start));
                thread::spawn(move || {
                    start.wait();
                    let task = || {
                        let ran = Arc::clone(&ran);
                        move || _ = ran.fetch_add(1, SeqCst)
                    };
                    (0..50).filter(|_| pool.submit(task()).is_ok()).count()
                })
            })
            .collect();
        start.wait();
        pool.release_timeout(Duration::MAX).unwrap();
        let ran_by_the_end = ran.load(SeqCst);
        let accepted: usize = submitters.into_iter().map(|s| s.join().unwrap()).sum();
        assert_eq!((ran_by_the_end, ran.load(SeqCst)), (accepted, accepted));
        let stats = pool.stats();
        assert_eq!(
            (stats.completed, stats.refused),
            (accepted as u64, 200 - accepted as u64)
        );
    }
}

#[testkit::test]
fn a_pool_without_tasks_in_flight_is_idle_and_open() {
    let clock = ManualClock::new();
    let pool = Pool::builder().capacity(2).queue_depth(20).keep_alive(None);
    let pool = pool.clock(clock.clone()).build().unwrap();
    let gate = hold(&pool, 2);
    let ran = Journal::new();
    for n in 0..20 {
        pool.try_submit(ran.writer(n)).unwrap();
    }
    assert_eq!(
        pool.wait_idle_timeout(Duration::ZERO),
        Err(WaitError::TimedOut)
    );
    assert_eq!(
        pool.wait_idle_timeout(clock.now()),
        Err(WaitError::TimedOut)
    );
    let wait = |timeout| {
        let (pool, ran) = (pool.clone(), ran.clone());
        thread::spawn(move || pool.wait_idle_timeout(timeout).map(|()| ran.len()))
    };
    let late = wait(Duration::from_secs(1));
    clock.wait_for_sleepers(1);
    clock.advance(Duration::from_secs(1));
    assert_eq!(late.join().unwrap(), Err(WaitError::TimedOut));
    let patient = [Duration::from_secs(1), Duration::MAX].map(wait);
    clock.wait_for_sleepers(1);
    gate.open();
    for waiter in patient {
        assert_eq!(waiter.join().unwrap(), Ok(20));
    }
    assert!(!pool.is_released());
    pool.spawn(|| ()).unwrap().join().unwrap();
}

#[testkit::test]
fn a_release_during_the_start_of_the_first_worker_returns_the_task() {
    let gate = Gate::new();
    let held = gate.clone();
    let pool = Pool::builder().capacity(1).thread_gate(move || {
        held.wait();
        Ok(())
    });
    let pool = pool.build().unwrap();
    let submitter = {
        let pool = pool.clone();
        thread::spawn(move || pool.submit(|| ()))
    };
    gate.wait_for_arrivals(1);
    pool.release();
    assert_eq!(
        pool.wait_released_timeout(Duration::ZERO),
        Err(WaitError::TimedOut)
    );
    gate.open();
    assert!(submitter.join().unwrap().unwrap_err().is_released());
    end(&pool);
    assert_eq!((pool.stats().completed, pool.running()), (0, 0));
}
