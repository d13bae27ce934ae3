//! Admission: the capacity is exact, and a refused call returns its task.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use pool_core::{Capacity, FuncPool, Pool, QueueDepth, SubmitError};
use testkit::{DropCounter, Gate};

use crate::support::{Journal, end, hold, pool, until};

#[testkit::test]
fn five_tasks_in_a_row_enter_a_fresh_pool_of_capacity_four_and_depth_one() {
    for _ in 0..200 {
        let pool = Pool::builder().capacity(4).queue_depth(1).build().unwrap();
        let gate = Gate::new();
        for _ in 0..5 {
            let gate = gate.clone();
            pool.try_submit(move || gate.wait()).unwrap();
        }
        assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
        gate.wait_for_arrivals(4);
        let stats = pool.stats();
        assert_eq!((stats.in_flight, stats.queued, stats.busy), (5, 1, 4));
        gate.open();
        pool.wait_idle().unwrap();
        assert!(pool.stats().peak_live <= 4);
    }
}

#[testkit::test]
fn the_capacity_limits_the_tasks_that_run_at_once() {
    let pool = Pool::builder().capacity(3).queue_depth(2).build().unwrap();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let (running, most) = (Arc::clone(&running), Arc::clone(&most));
                    pool.submit(move || {
                        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                        thread::yield_now();
                        running.fetch_sub(1, SeqCst);
                    })
                    .unwrap();
                    let stats = pool.stats();
                    assert!(stats.in_flight <= 5 && stats.live <= 3, "{stats:?}");
                }
            });
        }
    });
    pool.wait_idle().unwrap();
    let most = most.load(SeqCst);
    assert!((1..=3).contains(&most), "{most} ran at once");
    assert_eq!((pool.stats().completed, running.load(SeqCst)), (4000, 0));
    assert!(pool.stats().peak_live <= 3);
}

#[testkit::test]
fn a_joined_task_has_freed_its_room() {
    let pool = pool(1);
    for round in 0..2000 {
        let handle = pool.try_spawn(move || round).unwrap();
        assert_eq!(handle.join().unwrap(), round);
        assert_eq!((pool.in_flight(), pool.stats().completed), (0, round + 1));
    }
}

#[testkit::test]
fn a_full_pool_refuses_tasks_until_one_of_its_tasks_ends() {
    let pool = pool(10);
    let first = Gate::new();
    let handle = {
        let first = first.clone();
        pool.try_spawn(move || first.wait()).unwrap()
    };
    let others = hold(&pool, 9);
    for _ in 0..3 {
        assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    }
    first.open();
    handle.join().unwrap();
    let again = hold(&pool, 1);
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    assert_eq!((pool.running(), pool.stats().refused), (10, 4));
    others.open();
    again.open();
}

#[testkit::test]
fn a_refused_task_is_returned_unrun() {
    let drops = DropCounter::new();
    let journal = Journal::new();
    let task = || {
        let (token, journal) = (drops.token(), journal.clone());
        move || {
            let _token = token;
            journal.write(());
        }
    };
    let pool = Pool::builder().capacity(1).max_waiting(0).build().unwrap();
    let gate = hold(&pool, 1);
    let full = [
        pool.try_submit(task()).unwrap_err(),
        pool.submit(task()).unwrap_err(),
        pool.submit_timeout(task(), Duration::MAX).unwrap_err(),
    ];
    let full_spawn = pool.try_spawn(task()).unwrap_err();
    pool.release();
    let released = pool.submit(task()).unwrap_err();
    let released_spawn = pool.spawn(task()).unwrap_err();

    assert!(
        full.iter()
            .all(|error| error.is_full() && !error.is_released())
    );
    assert!(matches!(full_spawn, SubmitError::Full(_)));
    assert!(released.is_released() && released_spawn.is_released());
    assert_eq!(
        format!("{released:?}: {released}"),
        "Released(..): the pool is released"
    );
    assert_eq!((journal.len(), drops.alive()), (0, 6));

    for error in full {
        error.into_task()();
    }
    full_spawn.into_task()();
    released.map(|task| task).into_task()();
    released_spawn.into_task()();
    assert_eq!((journal.len(), drops.alive()), (6, 0));
    gate.open();
    end(&pool);
    assert_eq!((journal.len(), pool.stats().refused), (6, 6));
}

#[testkit::test]
fn a_nonblocking_pool_refuses_submits_that_would_wait() {
    let pool = Pool::builder()
        .capacity(2)
        .nonblocking(true)
        .build()
        .unwrap();
    let gate = hold(&pool, 2);
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Full(_))));
    assert!(matches!(pool.spawn(|| ()), Err(SubmitError::Full(_))));
    gate.open();
    pool.wait_idle().unwrap();
    pool.submit(|| ()).unwrap();

    let squares = FuncPool::builder(|n: u32| n * n)
        .capacity(1)
        .nonblocking(true);
    let squares = squares.build().unwrap();
    assert_eq!(squares.spawn(3).unwrap().join().unwrap(), 9);
}

#[testkit::test]
fn an_unlimited_pool_is_never_full_and_reports_no_limit() {
    let pool = Pool::builder().unlimited().build().unwrap();
    let gate = hold(&pool, 20);
    assert_eq!((pool.capacity(), pool.free()), (Capacity::Unlimited, None));
    assert_eq!((pool.running(), pool.waiting()), (20, 0));
    gate.open();
    // A task that waits for another task of its own pool always finds a worker for it.
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let reached = Gate::new();
        let there = reached.clone();
        inner.submit(move || there.wait()).unwrap();
        reached.wait_for_arrivals(1);
        reached.open();
    });
    outer.unwrap().join().unwrap();
}

#[testkit::test]
fn an_unlimited_queue_accepts_every_task() {
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited);
    let pool = pool.build().unwrap();
    let gate = hold(&pool, 1);
    for _ in 0..100_000 {
        pool.try_submit(|| ()).unwrap();
    }
    assert_eq!((pool.queued(), pool.in_flight()), (100_000, 100_001));
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 100_001);
}

#[testkit::test]
fn idle_workers_count_as_running_workers() {
    let pool = Pool::builder()
        .capacity(10)
        .keep_alive(None)
        .build()
        .unwrap();
    hold(&pool, 10).open();
    pool.wait_idle().unwrap();
    until(|| pool.idle() == 10);
    assert_eq!((pool.running(), pool.busy(), pool.free()), (10, 0, Some(0)));
    pool.try_submit(|| ()).unwrap();
}

#[testkit::test]
fn a_new_worker_is_started_for_a_task_behind_a_long_one() {
    let pool = Pool::builder()
        .capacity(2)
        .queue_depth(QueueDepth::Unlimited);
    let pool = pool.build().unwrap();
    let gate = hold(&pool, 1);
    let short: Vec<_> = (0..1000).map(|n| pool.spawn(move || n).unwrap()).collect();
    let sum: u64 = short.into_iter().map(|handle| handle.join().unwrap()).sum();
    assert_eq!((sum, gate.is_open()), (499_500, false));
    gate.open();
}

#[testkit::test]
fn tasks_start_in_the_order_of_their_admission() {
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(2000)
        .build()
        .unwrap();
    let gate = hold(&pool, 1);
    let journal = Journal::new();
    for number in 0..2000 {
        pool.try_submit(journal.writer(number)).unwrap();
    }
    gate.open();
    pool.wait_idle().unwrap();
    assert!(journal.entries().into_iter().eq(0..2000));
}

#[testkit::test]
fn tasks_capture_zero_to_many_bytes() {
    fn sum_of<const N: usize>(pool: &Pool) {
        let bytes = [1_u8; N];
        let sum = move || bytes.iter().map(|&byte| usize::from(byte)).sum::<usize>();
        assert_eq!(pool.spawn(sum).unwrap().join().unwrap(), N);
        let total = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&total);
        pool.submit(move || _ = seen.fetch_add(sum(), SeqCst))
            .unwrap();
        pool.wait_idle().unwrap();
        assert_eq!((total.load(SeqCst), Arc::strong_count(&total)), (N, 1));
    }
    let pool = pool(2);
    sum_of::<0>(&pool);
    sum_of::<40>(&pool);
    sum_of::<48>(&pool);
    sum_of::<49>(&pool);
    sum_of::<10_000>(&pool);
}
