//! Hooks: when they are called, on which thread, and how their panics are handled.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use pool_core::{Builder, Closures, ManualClock, Pool, WeakPool};
use testkit::{Gate, PanicOnDrop};

use crate::support::{Journal, end, hold, until};

#[testkit::test]
fn the_start_hook_runs_before_a_workers_first_task_and_the_stop_hook_after_its_last() {
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
}

#[testkit::test]
fn a_worker_that_gets_a_task_while_it_stops_continues_and_calls_its_start_hook_again() {
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
}

#[testkit::test]
fn a_stop_hook_may_submit_to_its_own_pool() {
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
}

#[testkit::test]
fn panicking_hooks_are_counted_and_workers_continue() {
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
}

#[testkit::test]
fn each_hook_may_panic_at_any_of_its_calls() {
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
}

#[testkit::test]
fn a_panic_hook_runs_before_the_end_of_its_task_is_counted() {
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
}

/// A hook that calls `on_first` on its first call only.
fn once(on_first: impl Fn() + Send + Sync + 'static) -> impl Fn() + Send + Sync + 'static {
    let calls = AtomicUsize::new(0);
    move || {
        if calls.fetch_add(1, SeqCst) == 0 {
            on_first();
        }
    }
}

/// A pool whose hooks can reach it through `own`.
fn reachable(builder: Builder<Closures>, own: &OnceLock<WeakPool>) -> Pool {
    let pool = builder.build().unwrap();
    own.set(pool.downgrade()).unwrap();
    pool
}

#[testkit::test]
fn a_task_does_not_wait_for_a_start_hook_if_another_worker_can_be_started() {
    let hooked = Gate::new();
    let held = hooked.clone();
    let pool = Pool::builder().capacity(2).prestart(1);
    let pool = pool.start_hook(once(move || held.wait())).build().unwrap();
    hooked.wait_for_arrivals(1);
    assert_eq!((pool.busy(), pool.idle()), (1, 0));
    assert_eq!(pool.spawn(|| 7).unwrap().join().unwrap(), 7);
    hooked.open();
    end(&pool);
}

#[testkit::test]
fn a_start_hook_may_wait_for_a_task_of_its_own_pool() {
    let (own, ran) = (Arc::new(OnceLock::<WeakPool>::new()), Gate::new());
    let (weak, answer) = (Arc::clone(&own), ran.clone());
    let hook = once(move || {
        let pool = weak.get().unwrap().upgrade().unwrap();
        let asked = answer.clone();
        pool.try_submit(move || asked.open()).unwrap();
        answer.wait();
    });
    let pool = reachable(Pool::builder().capacity(3).start_hook(hook), &own);
    // The task that started the worker is held, so the task of the hook needs a third worker.
    let first = hold(&pool, 1);
    ran.wait();
    first.open();
    end(&pool);
    assert_eq!(pool.stats().completed, 2);
}

#[testkit::test]
fn a_slow_start_hook_does_not_start_a_second_worker() {
    let hooked = Gate::new();
    let held = hooked.clone();
    let pool = Pool::builder().capacity(4).start_hook(move || held.wait());
    let pool = pool.build().unwrap();
    let handle = pool.spawn(|| 7).unwrap();
    hooked.wait_for_arrivals(1);
    assert_eq!((pool.running(), pool.stats().threads_started), (1, 1));
    hooked.open();
    assert_eq!(handle.join().unwrap(), 7);
    end(&pool);
    assert_eq!(pool.stats().threads_started, 1);
}

#[testkit::test]
fn two_tasks_submitted_during_a_slow_start_hook_get_a_worker_each() {
    let [asked, hooked] = [(); 2].map(|()| Gate::new());
    let (asks, held) = (asked.clone(), hooked.clone());
    let (gates, hooks) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let pool = Pool::builder().capacity(4);
    let pool = pool
        .thread_gate(move || {
            if gates.fetch_add(1, SeqCst) == 1 {
                asks.wait();
            }
            Ok(())
        })
        .start_hook(move || {
            if hooks.fetch_add(1, SeqCst) == 1 {
                held.wait();
            }
        });
    let pool = pool.build().unwrap();
    let first = hold(&pool, 1);
    let journal = Journal::new();
    let submitter = {
        let (pool, task) = (pool.clone(), journal.writer(()));
        thread::spawn(move || pool.try_submit(task).unwrap())
    };
    asked.wait_for_arrivals(1);
    pool.try_submit(journal.writer(())).unwrap();
    asked.open();
    hooked.wait_for_arrivals(1);
    until(|| journal.len() == 2);
    submitter.join().unwrap();
    hooked.open();
    first.open();
    end(&pool);
}

#[testkit::test]
fn a_task_submitted_while_a_worker_stops_gets_another_worker() {
    let stopping = Gate::new();
    let held = stopping.clone();
    let pool = Pool::builder().capacity(2).keep_alive(Duration::ZERO);
    let pool = pool.stop_hook(once(move || held.wait())).build().unwrap();
    pool.submit(|| ()).unwrap();
    stopping.wait_for_arrivals(1);
    assert_eq!((pool.running(), pool.busy(), pool.idle()), (1, 0, 1));
    assert_eq!(pool.spawn(|| 7).unwrap().join().unwrap(), 7);
    assert!(!stopping.is_open());
    stopping.open();
    until(|| pool.running() == 0);
    assert_eq!(pool.stats().threads_started, 2);
}

#[testkit::test]
fn a_stopping_worker_does_not_count_as_a_core_worker() {
    let (clock, stopping) = (ManualClock::new(), Gate::new());
    let held = stopping.clone();
    let pool = Pool::builder().capacity(2).clock(clock.clone());
    let pool = pool.min_workers(1).keep_alive(Duration::from_secs(10));
    let pool = pool.stop_hook(move || held.wait()).build().unwrap();
    hold(&pool, 2).open();
    clock.wait_for_sleepers(2);
    clock.advance(Duration::from_secs(10));
    stopping.wait_for_arrivals(1);
    // The other worker is a core worker, and sleeps without a time limit.
    until(|| clock.sleepers() == 0);
    assert_eq!(pool.spawn(|| 7).unwrap().join().unwrap(), 7);
    assert_eq!((pool.running(), stopping.arrivals()), (2, 1));
    stopping.open();
    until(|| pool.running() == 1);
}
