//! Submits by a full pool's own workers: the task runs in place, is refused, or waits, as
//! configured.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pool_core::{FuncPool, ManualClock, Pool, SubmitError, WithinWorker};

use crate::support::{Journal, end, hold, pool, until};

#[testkit::test]
fn a_full_pool_runs_its_workers_tasks_in_place() {
    let pool = pool(1);
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let here = thread::current().id();
        let journal = Journal::new();
        let task = |entry: &'static str| {
            let (journal, pool) = (journal.clone(), inner.clone());
            move || {
                let stats = pool.stats();
                assert_eq!((thread::current().id(), stats.in_flight), (here, 1));
                journal.write(entry);
            }
        };
        inner.submit(task("submit")).unwrap();
        inner
            .submit_timeout(task("timeout"), Duration::MAX)
            .unwrap();
        inner
            .submit_timeout(task("deadline"), Instant::now())
            .unwrap();
        inner.spawn(task("spawn")).unwrap().join().unwrap();
        inner
            .spawn_timeout(task("spawn"), Duration::ZERO)
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(journal.len(), 5);
        inner.stats()
    });
    let within = outer.unwrap().join().unwrap();
    assert_eq!((within.submitted, within.completed), (6, 5));
    assert_eq!((within.in_flight, within.busy, within.live), (1, 1, 1));
    assert_eq!((pool.stats().completed, pool.stats().peak_live), (6, 1));
}

#[testkit::test]
fn a_function_pool_calls_its_function_in_place() {
    let own: Arc<Mutex<Option<FuncPool<u64, u64>>>> = Arc::default();
    let pool = {
        let own = Arc::clone(&own);
        let factorial = move |n: u64| {
            let pool = own.lock().unwrap().clone().unwrap();
            if n == 0 {
                1
            } else {
                n * pool.spawn(n - 1).unwrap().join().unwrap()
            }
        };
        FuncPool::builder(factorial).capacity(1).build().unwrap()
    };
    *own.lock().unwrap() = Some(pool.clone());
    assert_eq!(
        pool.spawn(20).unwrap().join().unwrap(),
        2_432_902_008_176_640_000
    );
    assert_eq!((pool.stats().completed, pool.stats().peak_live), (21, 1));
    own.lock().unwrap().take();
}

/// Submits a task that submits a task, and so on, until one is refused. Returns how many ran inside
/// the outermost task.
fn nest(pool: &Pool) -> usize {
    fn deeper(pool: &Pool, journal: &Journal<()>) {
        let (inner, log) = (pool.clone(), journal.clone());
        let task = move || {
            log.write(());
            deeper(&inner, &log);
        };
        match pool.submit(task) {
            Ok(()) | Err(SubmitError::Full(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    let journal = Journal::new();
    let (inner, log) = (pool.clone(), journal.clone());
    pool.spawn(move || deeper(&inner, &log))
        .unwrap()
        .join()
        .unwrap();
    journal.len()
}

#[testkit::test]
fn tasks_run_in_place_down_to_the_nesting_limit_and_are_refused_below() {
    for limit in [0, 1, 5] {
        let pool = Pool::builder()
            .capacity(1)
            .nesting_limit(limit)
            .build()
            .unwrap();
        for _ in 0..3 {
            assert_eq!(nest(&pool), limit as usize);
        }
        assert_eq!(pool.stats().refused, 3);
    }
    assert_eq!(nest(&pool(1)), pool_core::DEFAULT_NESTING_LIMIT as usize);
}

#[testkit::test]
fn the_end_of_a_task_run_in_place_lowers_the_nesting_depth() {
    let pool = Pool::builder()
        .capacity(1)
        .nesting_limit(1)
        .build()
        .unwrap();
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        for _ in 0..1000 {
            inner.submit(|| resume_unwind(Box::new(()))).unwrap();
            inner.submit(|| ()).unwrap();
        }
    });
    outer.unwrap().join().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.completed, stats.panicked, stats.in_flight),
        (1001, 1000, 0)
    );
}

#[testkit::test]
fn a_pool_configured_to_refuse_its_workers_refuses_them() {
    let pool = Pool::builder()
        .capacity(1)
        .within_worker(WithinWorker::Refuse);
    let pool = pool.build().unwrap();
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        assert!(matches!(inner.submit(|| ()), Err(SubmitError::Full(_))));
        assert!(matches!(
            inner.submit_timeout(|| (), Duration::MAX),
            Err(SubmitError::Full(_))
        ));
        assert!(matches!(inner.spawn(|| ()), Err(SubmitError::Full(_))));
    });
    outer.unwrap().join().unwrap();
    pool.submit(|| ()).unwrap();
}

#[testkit::test]
fn a_pool_configured_to_block_its_workers_lets_them_wait() {
    let clock = ManualClock::new();
    let pool = Pool::builder()
        .capacity(2)
        .keep_alive(None)
        .clock(clock.clone());
    let pool = pool.within_worker(WithinWorker::Block).build().unwrap();
    let gate = hold(&pool, 1);
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let timed = inner.submit_timeout(|| (), Duration::from_secs(1));
        assert!(matches!(timed, Err(SubmitError::TimedOut(_))));
        let here = thread::current().id();
        inner
            .submit(move || assert_ne!(thread::current().id(), here))
            .unwrap();
    });
    clock.wait_for_sleepers(1);
    assert_eq!(pool.waiting(), 1);
    clock.advance(Duration::from_secs(1));
    until(|| pool.waiting() == 1 && pool.stats().refused == 1);
    gate.open();
    outer.unwrap().join().unwrap();
    end(&pool);
    assert_eq!((pool.stats().completed, pool.stats().panicked), (3, 0));
}

#[testkit::test]
fn try_submit_runs_no_task_in_place() {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        assert!(matches!(inner.try_submit(|| ()), Err(SubmitError::Full(_))));
        assert!(matches!(inner.try_spawn(|| ()), Err(SubmitError::Full(_))));
    });
    outer.unwrap().join().unwrap();

    let nonblocking = Pool::builder()
        .capacity(1)
        .nonblocking(true)
        .build()
        .unwrap();
    let inner = nonblocking.clone();
    let outer = nonblocking.spawn(move || inner.submit(|| ()).is_err());
    assert!(outer.unwrap().join().unwrap());
}

#[testkit::test]
fn a_worker_of_another_pool_waits_as_any_thread() {
    let (full, other) = (pool(1), pool(1));
    let gate = hold(&full, 1);
    let target = full.clone();
    let waiter = other.spawn(move || {
        assert!(!target.is_own_worker());
        target
            .spawn(|| thread::current().id())
            .unwrap()
            .join()
            .unwrap()
    });
    until(|| full.waiting() == 1);
    gate.open();
    let there = waiter.unwrap().join().unwrap();
    let inner = other.clone();
    let here = other.spawn(move || {
        assert!(inner.is_own_worker());
        thread::current().id()
    });
    assert_ne!(here.unwrap().join().unwrap(), there);
    assert!(!full.is_own_worker());
}
