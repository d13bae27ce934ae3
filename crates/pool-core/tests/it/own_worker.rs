//! What a pool's own workers may ask of it: run in place, join in place, never wait for itself.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pool_core::{Clock, FuncPool, ManualClock, Pool, SubmitError, WaitError, WithinWorker};
use testkit::Gate;

use crate::support::{Journal, bounded, end, hold, poll, pool, until};

#[test]
fn a_full_pool_runs_its_workers_tasks_in_place() {
    bounded(|| {
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
            inner.submit_timeout(task("timeout"), Duration::MAX).unwrap();
            inner.submit_deadline(task("deadline"), Instant::now()).unwrap();
            inner.spawn(task("spawn")).unwrap().join().unwrap();
            inner.spawn_timeout(task("spawn"), Duration::ZERO).unwrap().join().unwrap();
            assert_eq!(journal.len(), 5);
            inner.stats()
        });
        let within = outer.unwrap().join().unwrap();
        assert_eq!((within.submitted, within.completed), (6, 5));
        assert_eq!((within.in_flight, within.busy, within.live), (1, 1, 1));
        assert_eq!((pool.stats().completed, pool.stats().peak_live), (6, 1));
    });
}

#[test]
fn a_function_pool_calls_its_function_in_place() {
    bounded(|| {
        let own: Arc<Mutex<Option<FuncPool<u64, u64>>>> = Arc::default();
        let pool = {
            let own = Arc::clone(&own);
            let factorial = move |n: u64| {
                let pool = own.lock().unwrap().clone().unwrap();
                if n == 0 { 1 } else { n * pool.spawn(n - 1).unwrap().join().unwrap() }
            };
            FuncPool::builder(factorial).capacity(1).build().unwrap()
        };
        *own.lock().unwrap() = Some(pool.clone());
        assert_eq!(pool.spawn(20).unwrap().join().unwrap(), 2_432_902_008_176_640_000);
        assert_eq!((pool.stats().completed, pool.stats().peak_live), (21, 1));
        own.lock().unwrap().take();
    });
}

/// Submits a task that submits a task..., each inside the last, until one is refused. Returns how
/// many ran inside the outermost.
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
    pool.spawn(move || deeper(&inner, &log)).unwrap().join().unwrap();
    journal.len()
}

#[test]
fn tasks_run_in_place_down_to_the_nesting_limit_and_are_refused_below() {
    bounded(|| {
        for limit in [0, 1, 5] {
            let pool = Pool::builder().capacity(1).nesting_limit(limit).build().unwrap();
            for _ in 0..3 {
                assert_eq!(nest(&pool), limit as usize);
            }
            assert_eq!(pool.stats().refused, 3);
        }
        assert_eq!(nest(&pool(1)), pool_core::DEFAULT_NESTING_LIMIT as usize);
    });
}

#[test]
fn nesting_is_over_when_a_task_run_in_place_has_ended() {
    bounded(|| {
        let pool = Pool::builder().capacity(1).nesting_limit(1).build().unwrap();
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            for _ in 0..1000 {
                inner.submit(|| panic!("in place")).unwrap();
                inner.submit(|| ()).unwrap();
            }
        });
        outer.unwrap().join().unwrap();
        let stats = pool.stats();
        assert_eq!((stats.completed, stats.panicked, stats.in_flight), (1001, 1000, 0));
    });
}

#[test]
fn a_pool_told_to_refuse_its_own_workers_refuses_them() {
    bounded(|| {
        let pool = Pool::builder().capacity(1).within_worker(WithinWorker::Refuse);
        let pool = pool.build().unwrap();
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            assert!(matches!(inner.submit(|| ()), Err(SubmitError::Full(_))));
            assert!(matches!(inner.submit_timeout(|| (), Duration::MAX), Err(SubmitError::Full(_))));
            assert!(matches!(inner.spawn(|| ()), Err(SubmitError::Full(_))));
        });
        outer.unwrap().join().unwrap();
        pool.submit(|| ()).unwrap();
    });
}

#[test]
fn a_pool_told_to_block_its_own_workers_lets_them_wait_in_line() {
    bounded(|| {
        let clock = ManualClock::new();
        let pool = Pool::builder().capacity(2).keep_alive(None).clock(clock.clone());
        let pool = pool.within_worker(WithinWorker::Block).build().unwrap();
        let gate = hold(&pool, 1);
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            let timed = inner.submit_timeout(|| (), Duration::from_secs(1));
            assert!(matches!(timed, Err(SubmitError::TimedOut(_))));
            let here = thread::current().id();
            inner.submit(move || assert_ne!(thread::current().id(), here)).unwrap();
        });
        clock.wait_for_sleepers(1);
        assert_eq!(pool.waiting(), 1);
        clock.advance(Duration::from_secs(1));
        until(|| pool.waiting() == 1 && pool.stats().refused == 1);
        gate.open();
        outer.unwrap().join().unwrap();
        end(&pool);
        assert_eq!((pool.stats().completed, pool.stats().panicked), (3, 0));
    });
}

#[test]
fn trying_and_awaiting_never_run_a_task_in_place() {
    bounded(|| {
        let pool = Pool::builder().capacity(1).build().unwrap();
        let inner = pool.clone();
        let journal = Journal::new();
        let log = journal.clone();
        let outer = pool.spawn(move || {
            assert!(matches!(inner.try_submit(|| ()), Err(SubmitError::Full(_))));
            assert!(matches!(inner.try_spawn(|| ()), Err(SubmitError::Full(_))));
            let mut future = inner.submit_async(log.writer(()));
            assert!(poll(&mut future).is_pending());
            assert_eq!((log.len(), inner.waiting()), (0, 1));
            std::mem::forget(future); // It stays in the line, and need not be polled.
        });
        outer.unwrap().join().unwrap();
        pool.wait_idle().unwrap();
        assert_eq!(journal.len(), 1);

        let nonblocking = Pool::builder().capacity(1).nonblocking(true).build().unwrap();
        let inner = nonblocking.clone();
        let outer = nonblocking.spawn(move || inner.submit(|| ()).is_err());
        assert!(outer.unwrap().join().unwrap());
    });
}

#[test]
fn a_worker_of_another_pool_is_a_stranger_and_waits() {
    bounded(|| {
        let (full, other) = (pool(1), pool(1));
        let gate = hold(&full, 1);
        let target = full.clone();
        let waiter = other.spawn(move || {
            assert!(!target.is_own_worker());
            target.spawn(|| thread::current().id()).unwrap().join().unwrap()
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
    });
}

#[test]
fn a_worker_that_joins_a_task_not_yet_started_runs_it_and_no_other() {
    bounded(|| {
        let pool = Pool::builder().capacity(1).queue_depth(3).build().unwrap();
        let inner = pool.clone();
        let journal = Journal::new();
        let log = journal.clone();
        let outer = pool.spawn(move || {
            let here = thread::current().id();
            // A task that joins while it holds a lock must not meet a stranger that wants it.
            let lock = Arc::new(Mutex::new(()));
            let (stranger, strange_log) = (Arc::clone(&lock), log.clone());
            inner
                .try_submit(move || {
                    drop(stranger.lock().unwrap());
                    strange_log.write("stranger");
                })
                .unwrap();
            let awaited_log = log.clone();
            let awaited = inner.try_spawn(move || {
                awaited_log.write("awaited");
                thread::current().id()
            });
            let failing = inner.try_spawn(|| panic!("in place")).unwrap();
            let held = lock.lock().unwrap();
            assert_eq!(awaited.unwrap().join().unwrap(), here);
            let panicked = failing.join_timeout(Duration::ZERO).unwrap().unwrap_err();
            assert!(panicked.into_panic().is_some());
            drop(held);
            log.write("joined");
            inner.stats()
        });
        let within = outer.unwrap().join().unwrap();
        assert_eq!((within.completed, within.panicked), (1, 1));
        assert_eq!((within.queued, within.in_flight), (3, 4), "their entries are still there");
        pool.wait_idle().unwrap();
        assert_eq!(journal.entries(), ["awaited", "joined", "stranger"]);
        let stats = pool.stats();
        assert_eq!((stats.submitted, stats.completed, stats.panicked), (4, 3, 1));
    });
}

#[test]
fn a_worker_that_joins_a_task_running_elsewhere_waits_for_it() {
    bounded(|| {
        let pool = pool(2);
        let (gate, asked) = (Gate::new(), Gate::new());
        let (inner, held, asking) = (pool.clone(), gate.clone(), asked.clone());
        let outer = pool.spawn(move || {
            let task = held.clone();
            let handle = inner.spawn(move || {
                task.wait();
                thread::current().id()
            });
            held.wait_for_arrivals(1);
            let handle = handle.unwrap().join_timeout(Duration::ZERO).unwrap_err();
            asking.open();
            assert_ne!(handle.join().unwrap(), thread::current().id());
        });
        until(|| asked.is_open());
        gate.open();
        outer.unwrap().join().unwrap();
    });
}

#[test]
fn tasks_that_all_wait_for_their_children_do_not_starve_the_pool() {
    fn fibonacci(pool: &Pool, n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let child = pool.clone();
        let left = pool.spawn(move || fibonacci(&child, n - 1)).unwrap();
        let right = fibonacci(pool, n - 2);
        left.join().unwrap() + right
    }
    bounded(|| {
        for depth in [0, 1, 1000] {
            let pool = Pool::builder().capacity(2).queue_depth(depth).build().unwrap();
            let inner = pool.clone();
            let root = pool.spawn(move || fibonacci(&inner, 15)).unwrap();
            assert_eq!(root.join().unwrap(), 610);
            pool.wait_idle().unwrap();
            let stats = pool.stats();
            assert_eq!((stats.submitted, stats.in_flight), (stats.completed, 0));
        }
    });
}

/// Every way to wait for a pool. Each must say at once that it would wait for itself.
fn every_wait(pool: &Pool, now: Instant) -> [Result<(), WaitError>; 8] {
    let long = Duration::MAX;
    [
        pool.wait_idle(),
        pool.wait_idle_timeout(long),
        pool.wait_idle_deadline(now),
        pool.wait_released(),
        pool.wait_released_timeout(long),
        pool.wait_released_deadline(now),
        pool.release_timeout(long),
        pool.release_deadline(now),
    ]
}

#[test]
fn every_wait_on_an_own_worker_says_at_once_that_it_would_deadlock() {
    bounded(|| {
        let pool = pool(2);
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            let now = pool_core::MonotonicClock.now();
            assert_eq!(every_wait(&inner, now), [Err(WaitError::WouldDeadlock); 8]);
            assert!(inner.is_released(), "a release that cannot wait releases all the same");
        });
        outer.unwrap().join().unwrap();
        pool.wait_released().unwrap();
    });
}

#[test]
fn so_does_every_wait_in_the_destructor_of_a_workers_thread_local() {
    type Answers = Journal<[Result<(), WaitError>; 8]>;
    struct Waits(Pool, Answers);
    impl Drop for Waits {
        fn drop(&mut self) {
            assert!(self.0.is_own_worker());
            self.1.write(every_wait(&self.0, Instant::now()));
        }
    }
    thread_local!(static KEPT: RefCell<Option<Waits>> = const { RefCell::new(None) });
    bounded(|| {
        let (pool, answers) = (pool(2), Answers::new());
        let waits = Waits(pool.clone(), answers.clone());
        pool.submit(move || KEPT.set(Some(waits))).unwrap();
        pool.wait_idle().unwrap();
        end(&pool);
        assert_eq!(answers.entries(), [[Err(WaitError::WouldDeadlock); 8]]);
    });
}

#[test]
fn a_thread_locals_destructor_may_still_submit() {
    struct Submits(Pool, Journal<bool>);
    impl Drop for Submits {
        fn drop(&mut self) {
            let value = self.0.spawn(|| 7).map(|handle| handle.join().unwrap() == 7);
            self.1.write(value.unwrap());
        }
    }
    thread_local!(static KEPT: RefCell<Option<Submits>> = const { RefCell::new(None) });
    bounded(|| {
        // Its worker expires at once, so its thread-locals go while the pool is open.
        let pool = Pool::builder().capacity(1).keep_alive(Duration::ZERO).build().unwrap();
        let journal = Journal::new();
        let submits = Submits(pool.clone(), journal.clone());
        pool.submit(move || KEPT.set(Some(submits))).unwrap();
        until(|| journal.len() == 1);
        end(&pool);
        assert_eq!(journal.entries(), [true]);
        assert_eq!(pool.stats().threads_started, 2);
    });
}
