//! Reboots: a released pool opens again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use pool_core::{Capacity, Pool, SubmitError, WaitError};
use testkit::Gate;

use crate::support::{end, hold, pool, until};

#[testkit::test]
fn rebooting_an_open_pool_does_nothing() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    assert!(!pool.reboot());
    assert!(pool.try_submit(|| ()).is_err());
    gate.open();
    assert!(pool.release() && pool.reboot() && !pool.reboot());
    pool.spawn(|| ()).unwrap().join().unwrap();
}

#[testkit::test]
fn a_rebooted_pool_works_as_before_and_keeps_its_settings() {
    for preallocate in [false, true] {
        let pool = Pool::builder()
            .capacity(10)
            .preallocate(preallocate)
            .nonblocking(true);
        let pool = pool.build().unwrap();
        for life in 1..=4 {
            let gate = hold(&pool, 10);
            assert!(pool.submit(|| ()).is_err());
            assert_eq!(pool.capacity(), Capacity::Limited(10));
            gate.open();
            pool.release_timeout(Duration::MAX).unwrap();
            assert!(matches!(pool.submit(|| ()), Err(SubmitError::Released(_))));
            assert!(pool.reboot());
            assert_eq!(pool.stats().completed, 10 * life);
        }
    }
}

#[testkit::test]
fn a_worker_that_finds_the_pool_rebooted_continues_and_is_counted() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    pool.release();
    assert!(pool.reboot());
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    assert_eq!((pool.running(), pool.free()), (1, Some(0)));
    gate.open();
    pool.wait_idle().unwrap();
    pool.spawn(|| ()).unwrap().join().unwrap();
    end(&pool);
    let stats = pool.stats();
    assert_eq!(
        (stats.completed, stats.threads_started, stats.peak_live),
        (2, 1, 1)
    );
}

#[testkit::test]
fn a_wait_for_the_end_returns_rebooted_after_a_reboot() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let (pool, arrived) = (pool.clone(), Gate::new());
            let there = arrived.clone();
            let waiter = thread::spawn(move || {
                there.open();
                pool.release_timeout(Duration::MAX)
            });
            until(|| arrived.is_open());
            waiter
        })
        .collect();
    until(|| pool.is_released());
    // A waiter that enrols after a reboot waits for the next end. Every waiter returns.
    let mut answers = Vec::new();
    for waiter in waiters {
        until(|| {
            pool.reboot();
            waiter.is_finished()
        });
        answers.push(waiter.join().unwrap());
    }
    assert_eq!(answers, [Err(WaitError::Rebooted); 3]);
    gate.open();
    end(&pool);
}

#[testkit::test]
fn tasks_accepted_before_a_release_run_in_order_after_a_reboot() {
    let pool = Pool::builder().capacity(1).queue_depth(3).build().unwrap();
    let gate = hold(&pool, 1);
    let journal = crate::support::Journal::new();
    pool.try_submit(journal.writer("first")).unwrap();
    pool.release();
    pool.reboot();
    pool.try_submit(journal.writer("second")).unwrap();
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["first", "second"]);
}

#[testkit::test]
fn releases_and_reboots_under_load_lose_no_accepted_task() {
    for preallocate in [false, true] {
        let pool = Pool::builder()
            .capacity(3)
            .queue_depth(2)
            .preallocate(preallocate);
        let pool = pool.build().unwrap();
        let (ran, over) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
        let accepted = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(SeqCst) {
                    pool.release();
                    thread::yield_now();
                    pool.reboot();
                    thread::yield_now();
                }
            });
            let submitters: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let task = || {
                            let ran = Arc::clone(&ran);
                            move || _ = ran.fetch_add(1, SeqCst)
                        };
                        let accepted = (0..2000).filter(|_| pool.submit(task()).is_ok());
                        accepted.count()
                    })
                })
                .collect();
            let accepted = submitters
                .into_iter()
                .map(|s| s.join().unwrap())
                .sum::<usize>();
            over.store(true, SeqCst);
            accepted
        });
        pool.wait_idle().unwrap();
        end(&pool);
        assert_eq!(ran.load(SeqCst), accepted);
        let stats = pool.stats();
        assert_eq!((stats.completed, stats.live), (accepted as u64, 0));
        assert_eq!(stats.refused, 6000 - accepted as u64);
        assert!(stats.peak_live <= 3);
    }
}
