//! Many threads and tasks: each task runs exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use pool_core::{Pool, QueueDepth, WithinWorker};
use testkit::{DropCounter, Gate, Rng};

use crate::support::{end, pool};

#[testkit::test]
fn sixty_four_threads_submit_and_every_task_runs_once() {
    const EACH: usize = 500;
    for (capacity, depth) in [(2, 0), (64, 0), (8, 100)] {
        let pool = Pool::builder()
            .capacity(capacity)
            .queue_depth(depth)
            .build()
            .unwrap();
        let ledger: Arc<[AtomicU8]> = (0..64 * EACH).map(|_| AtomicU8::new(0)).collect();
        thread::scope(|scope| {
            for submitter in 0..64 {
                let (pool, ledger) = (&pool, &ledger);
                scope.spawn(move || {
                    for n in 0..EACH {
                        let (ledger, id) = (Arc::clone(ledger), submitter * EACH + n);
                        pool.submit(move || _ = ledger[id].fetch_add(1, SeqCst))
                            .unwrap();
                    }
                });
            }
        });
        end(&pool);
        assert!(ledger.iter().all(|runs| runs.load(SeqCst) == 1));
        assert_eq!(pool.stats().completed, 64 * EACH as u64);
    }
}

#[testkit::test]
fn a_chain_of_a_million_tasks_does_not_overflow_the_stack() {
    fn link(pool: &Pool, left: u32, end: Gate) {
        if left == 0 {
            return end.open();
        }
        let next = pool.clone();
        pool.submit(move || link(&next, left - 1, end)).unwrap();
    }
    let pool = Pool::builder().capacity(1).queue_depth(1).build().unwrap();
    let end = Gate::new();
    link(&pool, 1_000_000, end.clone());
    end.wait();
    pool.wait_idle().unwrap();
    assert_eq!(
        (pool.stats().completed, pool.stats().peak_live),
        (1_000_000, 1)
    );
}

#[testkit::test]
fn a_hundred_thousand_tasks_of_a_waiting_submitter_complete() {
    for preallocate in [false, true] {
        let pool = Pool::builder()
            .capacity(20)
            .preallocate(preallocate)
            .build()
            .unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..100_000 {
            let done = Arc::clone(&done);
            pool.submit(move || _ = done.fetch_add(1, SeqCst)).unwrap();
        }
        pool.wait_idle().unwrap();
        assert_eq!(done.load(SeqCst), 100_000);
        assert!(pool.stats().peak_live <= 20);
    }
}

#[testkit::test]
fn a_task_that_resubmits_itself_does_not_starve_an_older_task() {
    fn again(pool: &Pool, stop: &Gate) {
        if !stop.is_open() {
            let (next, stop) = (pool.clone(), stop.clone());
            pool.submit(move || again(&next, &stop)).unwrap();
        }
    }
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited);
    let pool = pool.build().unwrap();
    let stop = Gate::new();
    again(&pool, &stop);
    for _ in 0..100 {
        pool.spawn(|| ()).unwrap().join().unwrap();
    }
    stop.open();
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_thousand_captures_are_dropped_under_every_outcome() {
    let mut rng = Rng::from_env();
    let drops = DropCounter::new();
    for _ in 0..20 {
        let pool = Pool::builder()
            .capacity(2)
            .queue_depth(rng.below(8))
            .build()
            .unwrap();
        let mut handles = Vec::new();
        for _ in 0..50 {
            let token = drops.token();
            match rng.below(6) {
                0 => pool.submit(move || drop(token)).unwrap(),
                1 => drop(pool.try_submit(move || drop(token))),
                2 => drop(pool.spawn(move || token).unwrap()),
                3 => handles.push(pool.spawn(move || token).unwrap()),
                4 => _ = pool.spawn(move || token).unwrap().cancel(),
                _ => drop(pool.submit_timeout(move || drop(token), Duration::ZERO)),
            }
        }
        if rng.chance(2) {
            pool.release_now();
        }
        end(&pool);
        drop(handles);
    }
    assert_eq!((drops.alive(), drops.dropped()), (0, 1000));
}

#[testkit::test]
fn sixty_four_workers_and_submitters_share_few_cores() {
    let pool = Pool::builder()
        .capacity(64)
        .within_worker(WithinWorker::Block);
    let pool = pool.build().unwrap();
    let gate = crate::support::hold(&pool, 64);
    assert_eq!((pool.running(), pool.free()), (64, Some(0)));
    gate.open();
    let sum: u64 = thread::scope(|scope| {
        let callers: Vec<_> = (0..64_u64)
            .map(|n| {
                let pool = &pool;
                scope.spawn(move || {
                    (0..50)
                        .map(|_| pool.spawn(move || n).unwrap().join().unwrap())
                        .sum::<u64>()
                })
            })
            .collect();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .sum()
    });
    assert_eq!(sum, 50 * (63 * 64 / 2));
}

#[testkit::test]
fn hundreds_of_pools_are_created_and_dropped() {
    for n in 0..300 {
        let pool = pool(2);
        assert_eq!(pool.spawn(move || n).unwrap().join().unwrap(), n);
        if n % 2 == 0 {
            end(&pool);
        }
    }
}
