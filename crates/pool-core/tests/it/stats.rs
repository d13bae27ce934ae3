//! Statistics: exact at rest, and consistent at any time.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use pool_core::{Pool, Stats};
use testkit::Rng;

use crate::support::{end, hold};

fn outcomes(stats: &Stats) -> u64 {
    stats.completed + stats.panicked + stats.cancelled + stats.released
}

/// Invariants of every snapshot.
fn agree(stats: &Stats) {
    let most = stats.capacity.limit().unwrap_or(usize::MAX);
    assert_eq!(stats.live, stats.busy + stats.idle, "{stats:?}");
    assert!(
        stats.live <= most && stats.live <= stats.peak_live,
        "{stats:?}"
    );
    assert!(stats.queued <= stats.in_flight, "{stats:?}");
    assert!(outcomes(stats) <= stats.submitted, "{stats:?}");
    assert_eq!(
        stats.threads_started - stats.threads_retired,
        stats.live as u64,
        "{stats:?}"
    );
}

#[testkit::test]
fn every_task_is_counted_once_by_its_outcome() {
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(100)
        .build()
        .unwrap();
    let gate = hold(&pool, 1);
    for _ in 0..3 {
        pool.try_submit(|| ()).unwrap();
    }
    for _ in 0..5 {
        pool.try_submit(|| resume_unwind(Box::new(()))).unwrap();
    }
    for _ in 0..7 {
        assert!(pool.try_spawn(|| ()).unwrap().cancel());
    }
    pool.tune(1).unwrap();
    gate.open();
    pool.wait_idle().unwrap();
    let gate = hold(&pool, 1);
    for _ in 0..11 {
        pool.try_submit(|| ()).unwrap();
    }
    assert_eq!(pool.release_now(), 11);
    for _ in 0..13 {
        assert!(pool.submit(|| ()).is_err());
    }
    gate.open();
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.panicked), (2 + 3, 5));
    assert_eq!(
        (stats.cancelled, stats.released, stats.refused),
        (7, 11, 13)
    );
    assert_eq!((stats.submitted, outcomes(&stats)), (28, 28));
    assert_eq!(
        (stats.in_flight, stats.queued, stats.waiting, stats.live),
        (0, 0, 0, 0)
    );
    assert_eq!((stats.threads_started, stats.threads_retired), (1, 1));
    assert_eq!(
        (stats.peak_live, stats.thread_failures, stats.hook_panics),
        (1, 0, 0)
    );
}

#[testkit::test]
fn a_snapshot_is_taken_at_one_instant() {
    let pool = Pool::builder().capacity(2).queue_depth(3).build().unwrap();
    agree(&pool.stats());
    let gate = hold(&pool, 2);
    for _ in 0..3 {
        pool.try_submit(|| ()).unwrap();
    }
    let stats = pool.stats();
    agree(&stats);
    assert_eq!((stats.live, stats.busy, stats.idle), (2, 2, 0));
    assert_eq!((stats.in_flight, stats.queued, stats.submitted), (5, 3, 5));
    assert_eq!((pool.running(), pool.busy(), pool.idle()), (2, 2, 0));
    assert_eq!(
        (pool.in_flight(), pool.queued(), pool.free()),
        (5, 3, Some(0))
    );
    gate.open();
}

#[testkit::test]
fn snapshots_are_consistent_under_load() {
    let mut seeds = Rng::from_env();
    let pool = Pool::builder().capacity(3).queue_depth(4).build().unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                agree(&pool.stats());
                thread::yield_now();
            }
        });
        let users: Vec<_> = (0..3)
            .map(|_| {
                let (mut rng, pool) = (seeds.split(), &pool);
                scope.spawn(move || {
                    let mut calls = 0;
                    for _ in 0..2000 {
                        calls += 1;
                        match rng.below(8) {
                            0 => drop(pool.submit(|| resume_unwind(Box::new(())))),
                            1 => drop(pool.try_submit(|| ())),
                            2..4 => drop(pool.spawn(|| ()).map(|handle| handle.cancel())),
                            4 => drop(testkit::block_on(pool.submit_async(|| ()))),
                            5 if rng.chance(50) => {
                                calls -= 1;
                                pool.release_now();
                                pool.reboot();
                            }
                            _ => drop(pool.submit(|| ())),
                        }
                    }
                    calls
                })
            })
            .collect();
        let calls: u64 = users.into_iter().map(|user| user.join().unwrap()).sum();
        over.store(true, SeqCst);
        pool.wait_idle().unwrap();
        let stats = pool.stats();
        agree(&stats);
        assert_eq!(outcomes(&stats), stats.submitted);
        assert_eq!(stats.submitted + stats.refused, calls);
    });
}
