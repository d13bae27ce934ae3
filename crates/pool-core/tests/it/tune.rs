//! Changes of the capacity.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use pool_core::{Capacity, Pool, SubmitError, TuneError};
use testkit::{Gate, Rng};

use crate::support::{end, hold, pool, until, wait_in_line};

/// A pool that uses the newest idle worker first, and a preallocated one.
fn both(capacity: usize) -> [Pool; 2] {
    [false, true].map(|preallocate| {
        let pool = Pool::builder().capacity(capacity).preallocate(preallocate);
        pool.keep_alive(None).build().unwrap()
    })
}

#[testkit::test]
fn more_capacity_admits_as_many_waiters_at_once() {
    for pool in both(2) {
        let gate = hold(&pool, 2);
        pool.tune(3).unwrap();
        let third = hold(&pool, 1);
        assert_eq!((pool.running(), pool.free()), (3, Some(0)));
        let waiters: Vec<_> = (0..6)
            .map(|_| {
                let gate = gate.clone();
                wait_in_line(&pool, move || gate.wait())
            })
            .collect();
        pool.tune(8).unwrap();
        assert_eq!(
            (pool.waiting(), pool.in_flight()),
            (1, 8),
            "in the call itself"
        );
        gate.wait_for_arrivals(2 + 5);
        assert_eq!((pool.running(), pool.capacity()), (8, Capacity::Limited(8)));
        pool.tune(9).unwrap();
        gate.wait_for_arrivals(2 + 6);
        gate.open();
        third.open();
        for waiter in waiters {
            waiter.join().unwrap().unwrap();
        }
    }
}

#[testkit::test]
fn less_capacity_ends_idle_surplus_workers_at_once() {
    for pool in both(6) {
        hold(&pool, 6).open();
        pool.wait_idle().unwrap();
        assert_eq!(pool.running(), 6);
        pool.tune(2).unwrap();
        until(|| pool.running() == 2); // No worker expires: there is no keep-alive.
        assert_eq!(
            (pool.free(), pool.capacity()),
            (Some(0), Capacity::Limited(2))
        );
        hold(&pool, 2).open();
    }
}

#[testkit::test]
fn less_capacity_lets_busy_workers_finish_and_admits_nothing_until_there_is_room() {
    for pool in both(4) {
        let gates = [(); 4].map(|()| Gate::new());
        let tasks = gates
            .clone()
            .map(|gate| pool.try_spawn(move || gate.wait()).unwrap());
        for gate in &gates {
            gate.wait_for_arrivals(1);
        }
        pool.tune(2).unwrap();
        assert_eq!(
            (pool.running(), pool.free(), pool.in_flight()),
            (4, Some(0), 4)
        );
        for (ended, (gate, task)) in gates.iter().zip(tasks).enumerate() {
            let full = matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_)));
            assert_eq!(full, ended < 3, "{ended} of 4 have ended");
            pool.wait_idle_timeout(std::time::Duration::ZERO)
                .unwrap_err();
            gate.open();
            task.join().unwrap();
        }
        until(|| pool.running() == 2);
        assert_eq!(pool.free(), Some(0));
    }
}

#[testkit::test]
fn less_capacity_strands_no_queued_task() {
    let pool = Pool::builder()
        .capacity(4)
        .queue_depth(100)
        .build()
        .unwrap();
    for _ in 0..20 {
        let gate = hold(&pool, 4);
        let queued: Vec<_> = (0..100)
            .map(|n| pool.try_spawn(move || n).unwrap())
            .collect();
        pool.tune(1).unwrap();
        gate.open();
        for (n, handle) in queued.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), n);
        }
        pool.tune(4).unwrap();
    }
}

#[testkit::test]
fn an_impossible_capacity_is_refused_and_changes_nothing() {
    let [stack, ring] = both(3);
    assert_eq!(stack.tune(0), Err(TuneError::ZeroCapacity));
    assert_eq!(ring.tune(0), Err(TuneError::ZeroCapacity));
    assert_eq!(
        ring.tune(Capacity::Unlimited),
        Err(TuneError::PreallocateUnlimited)
    );
    for slots in [usize::MAX - 1, usize::MAX >> 8] {
        assert!(matches!(ring.tune(slots), Err(TuneError::OutOfMemory(_))));
    }
    for pool in [stack, ring] {
        assert_eq!(
            (pool.capacity(), pool.free()),
            (Capacity::Limited(3), Some(3))
        );
        let gate = hold(&pool, 3);
        assert!(pool.try_submit(|| ()).is_err());
        gate.open();
    }
}

#[testkit::test]
fn the_capacity_can_become_unlimited_and_limited_again() {
    let pool = pool(1);
    pool.tune(Capacity::Unlimited).unwrap();
    assert_eq!(pool.free(), None);
    let gate = hold(&pool, 10);
    pool.tune(2).unwrap();
    assert_eq!((pool.running(), pool.free()), (10, Some(0)));
    gate.open();
    until(|| pool.running() == 2);
    pool.tune(2).unwrap(); // The same capacity again changes nothing.
    assert_eq!(pool.capacity(), Capacity::Limited(2));
}

#[testkit::test]
fn tuning_a_released_pool_takes_effect_after_the_reboot() {
    for pool in both(1) {
        end(&pool);
        pool.tune(3).unwrap();
        assert_eq!((pool.free(), pool.running()), (Some(3), 0));
        assert!(pool.reboot());
        hold(&pool, 3).open();
    }
}

#[testkit::test]
fn concurrent_tuning_under_load_loses_no_task_and_the_last_call_wins() {
    let mut seeds = Rng::from_env();
    for pool in both(3) {
        let (ran, over) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..2 {
                let mut rng = seeds.split();
                let (pool, over) = (&pool, &over);
                scope.spawn(move || {
                    while !over.load(SeqCst) {
                        pool.tune(1 + rng.below(8)).unwrap();
                        let stats = pool.stats();
                        assert!(stats.live <= 8 && stats.in_flight <= 8, "{stats:?}");
                        thread::yield_now();
                    }
                });
            }
            let submitters: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..1000 {
                            let ran = Arc::clone(&ran);
                            pool.submit(move || _ = ran.fetch_add(1, SeqCst)).unwrap();
                        }
                    })
                })
                .collect();
            for submitter in submitters {
                submitter.join().unwrap();
            }
            over.store(true, SeqCst);
        });
        pool.wait_idle().unwrap();
        assert_eq!(ran.load(SeqCst), 4000);
        pool.tune(2).unwrap();
        until(|| pool.running() <= 2);
        let gate = hold(&pool, 2);
        assert!(pool.try_submit(|| ()).is_err());
        gate.open();
    }
}
