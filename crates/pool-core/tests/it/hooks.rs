//! Hooks: when they are called, on which thread, and what becomes of their panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use pool_core::Pool;
use testkit::{Gate, PanicOnDrop};

use crate::support::{Journal, bounded, end, hold, until};

#[test]
fn each_worker_calls_the_start_hook_before_its_first_task_and_the_stop_hook_after_its_last() {
    bounded(|| {
        let journal = Journal::new();
        let note = |what: &'static str| {
            let journal = journal.clone();
            move || journal.write((thread::current().id(), what))
        };
        let pool = Pool::builder()
            .capacity(3)
            .start_hook(note("start"))
            .stop_hook(note("stop"));
        let pool = pool.build().unwrap();
        let gate = Gate::new();
        for _ in 0..3 {
            let (task, gate) = (note("task"), gate.clone());
            pool.try_submit(move || {
                task();
                gate.wait();
            })
            .unwrap();
        }
        gate.wait_for_arrivals(3);
        gate.open();
        end(&pool);
        let entries = journal.entries();
        assert_eq!(entries.len(), 9);
        for (worker, what) in &entries {
            if *what == "start" {
                let own = entries.iter().filter(|(other, _)| other == worker);
                assert!(own.map(|(_, what)| *what).eq(["start", "task", "stop"]));
            }
        }
    });
}

#[test]
fn work_that_comes_while_a_worker_stops_keeps_it_and_its_start_hook_is_called_again() {
    bounded(|| {
        let journal = Journal::new();
        let (starts, stops, gate) = (journal.clone(), journal.clone(), Gate::new());
        let stopping = gate.clone();
        let pool = Pool::builder().capacity(1).keep_alive(Duration::ZERO);
        let pool = pool
            .start_hook(move || starts.write("start"))
            .stop_hook(move || {
                stops.write("stop");
                stopping.wait();
            });
        let pool = pool.build().unwrap();
        pool.submit(journal.writer("first")).unwrap();
        gate.wait_for_arrivals(1);
        pool.try_submit(journal.writer("second")).unwrap();
        assert_eq!((pool.running(), pool.queued()), (1, 1));
        gate.open();
        until(|| journal.len() >= 6);
        assert_eq!(
            journal.entries(),
            ["start", "first", "stop", "start", "second", "stop"]
        );
        assert_eq!(pool.stats().threads_started, 1);
    });
}

#[test]
fn a_stop_hook_may_submit_to_its_own_pool() {
    bounded(|| {
        let own = Arc::new(std::sync::OnceLock::<pool_core::WeakPool>::new());
        let (weak, journal) = (Arc::clone(&own), Journal::new());
        let log = journal.clone();
        let pool = Pool::builder()
            .capacity(1)
            .keep_alive(Duration::ZERO)
            .stop_hook(move || {
                if log.len() < 10
                    && let Some(pool) = weak.get().and_then(pool_core::WeakPool::upgrade)
                {
                    pool.submit(log.writer(())).unwrap();
                }
            });
        let pool = pool.build().unwrap();
        own.set(pool.downgrade()).unwrap();
        pool.submit(|| ()).unwrap();
        until(|| journal.len() == 10 && pool.running() == 0);
        assert_eq!(pool.stats().completed, 11);
    });
}

#[test]
fn hooks_that_panic_are_counted_and_the_workers_serve_all_the_same() {
    bounded(|| {
        let pool = Pool::builder().capacity(3);
        let pool = pool
            .start_hook(|| panic!("start"))
            .stop_hook(|| std::panic::panic_any(PanicOnDrop::nested(3)))
            .panic_hook(|_| panic!("panic"));
        let pool = pool.build().unwrap();
        hold(&pool, 3).open();
        for n in 0..10 {
            let handle = pool.spawn(move || assert!(n % 2 == 0)).unwrap();
            assert_eq!(handle.join().is_ok(), n % 2 == 0);
        }
        assert_eq!(pool.stats().hook_panics, 3 + 5);
        end(&pool);
        let stats = pool.stats();
        assert_eq!((stats.hook_panics, stats.panicked), (3 + 5 + 3, 5));
        assert_eq!(
            (stats.completed, stats.threads_started, stats.live),
            (8, 3, 0)
        );
        assert!(pool.reboot());
        pool.spawn(|| ()).unwrap().join().unwrap();
    });
}

#[test]
fn each_hook_may_panic_at_any_of_its_calls() {
    bounded(|| {
        for fatal in 0..4 {
            let hook = || {
                let calls = AtomicUsize::new(0);
                move || assert!(calls.fetch_add(1, SeqCst) != fatal)
            };
            let panics = hook();
            let pool = Pool::builder()
                .capacity(4)
                .start_hook(hook())
                .stop_hook(hook());
            let pool = pool.panic_hook(move |_| panics()).build().unwrap();
            hold(&pool, 4).open();
            for _ in 0..4 {
                assert!(
                    pool.spawn(|| panic!("for the hook"))
                        .unwrap()
                        .join()
                        .is_err()
                );
            }
            end(&pool);
            let stats = pool.stats();
            assert_eq!(
                (stats.hook_panics, stats.panicked, stats.completed),
                (3, 4, 4)
            );
        }
    });
}

#[test]
fn a_panic_hook_runs_before_its_tasks_end_is_counted() {
    bounded(|| {
        let own = Arc::new(std::sync::OnceLock::<pool_core::WeakPool>::new());
        let (weak, journal) = (Arc::clone(&own), Journal::new());
        let log = journal.clone();
        let pool = Pool::builder().capacity(1).panic_hook(move |_| {
            let stats = weak.get().unwrap().upgrade().unwrap().stats();
            log.write((stats.live, stats.busy, stats.in_flight, stats.panicked));
        });
        let pool = pool.build().unwrap();
        own.set(pool.downgrade()).unwrap();
        assert!(
            pool.spawn(|| panic!("for the hook"))
                .unwrap()
                .join()
                .is_err()
        );
        assert_eq!(journal.entries(), [(1, 1, 1, 0)]);
        assert_eq!(
            (pool.running(), pool.in_flight(), pool.stats().panicked),
            (1, 0, 1)
        );
    });
}
