//! The drop of the last handle under each policy, and references that do not keep a pool open.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use pool_core::{DropPolicy, Pool, WeakPool};
use testkit::{DropCounter, Gate};

use crate::support::{Journal, end, poll, pool, until};

const POLICIES: [DropPolicy; 3] = [DropPolicy::Drain, DropPolicy::Join, DropPolicy::Discard];

/// A pool with one held task, five queued tasks, and a journal of tasks and ended workers.
fn loaded(policy: DropPolicy) -> (Pool, Gate, Journal<&'static str>) {
    let journal = Journal::new();
    let log = journal.clone();
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(5)
        .drop_policy(policy);
    let pool = pool.stop_hook(move || log.write("stop")).build().unwrap();
    let gate = crate::support::hold(&pool, 1);
    for _ in 0..5 {
        pool.try_submit(journal.writer("task")).unwrap();
    }
    (pool, gate, journal)
}

#[testkit::test]
fn by_default_the_last_drop_runs_accepted_tasks_without_waiting() {
    let (pool, gate, journal) = loaded(DropPolicy::default());
    drop(pool);
    assert_eq!(journal.len(), 0);
    gate.open();
    until(|| journal.entries().last() == Some(&"stop"));
    assert_eq!(journal.entries()[..5], ["task"; 5]);
}

#[testkit::test]
fn a_joining_drop_returns_after_the_end_of_the_pool() {
    let (pool, gate, journal) = loaded(DropPolicy::Join);
    let (log, dropping) = (journal.clone(), Gate::new());
    let arrived = dropping.clone();
    let dropper = thread::spawn(move || {
        arrived.open();
        drop(pool);
        log.write("dropped");
    });
    until(|| dropping.is_open());
    gate.open();
    dropper.join().unwrap();
    assert_eq!(
        journal.entries()[..],
        ["task", "task", "task", "task", "task", "stop", "dropped"]
    );
}

#[testkit::test]
fn a_discarding_drop_removes_unstarted_tasks() {
    let (pool, gate, journal) = loaded(DropPolicy::Discard);
    drop(pool);
    gate.open();
    until(|| journal.len() == 1);
    assert_eq!(journal.entries(), ["stop"]);
}

#[testkit::test]
fn only_the_drop_of_the_last_clone_releases_the_pool() {
    let first = pool(1);
    let second = first.clone();
    drop(first);
    second.spawn(|| ()).unwrap().join().unwrap();
    assert_eq!(second.stats().completed, 1);
}

#[testkit::test]
fn the_last_handle_may_be_dropped_on_a_worker_of_the_pool() {
    for policy in POLICIES {
        let journal = Journal::new();
        let log = journal.clone();
        let pool = Pool::builder().capacity(1).drop_policy(policy);
        let pool = pool.stop_hook(move || log.write("stop")).build().unwrap();
        let (gate, own) = (Gate::new(), pool.clone());
        let (held, log) = (gate.clone(), journal.clone());
        let task = move || {
            held.wait();
            drop(own); // A join here would wait for the current task.
            log.write("dropped");
        };
        pool.submit(task).unwrap();
        drop(pool);
        gate.open();
        until(|| journal.len() == 2);
        assert_eq!(journal.entries(), ["dropped", "stop"], "{policy:?}");
    }
}

#[testkit::test]
fn a_queued_task_that_owns_the_last_handle_ends_the_pool_after_its_run() {
    for policy in POLICIES {
        let (pool, gate, journal) = loaded(policy);
        let (own, log) = (pool.clone(), journal.clone());
        pool.tune(2).unwrap(); // Makes room for one more task in the queue.
        pool.submit(move || {
            assert!(!own.is_released());
            log.write("holder");
        })
        .unwrap();
        drop(pool);
        gate.open();
        until(|| {
            journal
                .entries()
                .iter()
                .filter(|entry| **entry == "stop")
                .count()
                == 2
        });
        let entries = journal.entries();
        assert_eq!(
            entries.iter().filter(|entry| **entry == "holder").count(),
            1
        );
    }
}

#[testkit::test]
fn a_pool_is_dropped_while_its_owner_unwinds() {
    for policy in POLICIES {
        let (pool, gate, journal) = loaded(policy);
        gate.open();
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _pool = pool;
            panic!("with a pool in hand");
        }));
        assert!(unwound.is_err());
        until(|| journal.entries().last() == Some(&"stop"));
    }
}

#[testkit::test]
fn a_pool_is_dropped_while_one_of_its_own_tasks_unwinds() {
    for policy in POLICIES {
        let drops = DropCounter::new();
        let pool = Pool::builder()
            .capacity(1)
            .drop_policy(policy)
            .build()
            .unwrap();
        let (own, gate, token) = (pool.clone(), Gate::new(), drops.token());
        let held = gate.clone();
        let task = move || {
            let _token = token;
            let _own = own;
            held.wait();
            panic!("with its own pool in hand");
        };
        let handle = pool.spawn(task).unwrap();
        drop(pool);
        gate.open();
        assert!(handle.join().unwrap_err().into_panic().is_some());
        assert_eq!(drops.alive(), 0);
    }
}

#[testkit::test]
fn task_handles_and_waiting_futures_do_not_keep_the_pool_open() {
    let pool = pool(1);
    let gate = Gate::new();
    let held = gate.clone();
    let handle = pool.spawn(move || held.wait()).unwrap();
    let mut future = pool.submit_async(|| ());
    assert!(poll(&mut future).is_pending());
    let weak = pool.downgrade();
    drop(pool);
    assert!(weak.upgrade().is_none());
    assert!(testkit::block_on(future).unwrap_err().is_released());
    gate.open();
    handle.join().unwrap();
}

#[testkit::test]
fn a_weak_handle_can_be_upgraded_while_a_handle_exists() {
    let pool = pool(1);
    let weak = pool.downgrade();
    let again = weak.upgrade().unwrap();
    drop(pool);
    assert_eq!(again.spawn(|| 4).unwrap().join().unwrap(), 4);
    drop(again);
    assert!(weak.clone().upgrade().is_none());
}

#[testkit::test]
fn a_task_that_resubmits_itself_through_a_weak_handle_ends_with_the_pool() {
    fn again(weak: &WeakPool, journal: &Journal<()>) {
        let Some(pool) = weak.upgrade() else { return };
        journal.write(());
        let (weak, journal) = (weak.clone(), journal.clone());
        // Refused once the pool is released.
        let _ = pool.try_submit(move || again(&weak, &journal));
    }
    let (stopped, journal) = (Gate::new(), Journal::new());
    let stop = stopped.clone();
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(1)
        .stop_hook(move || stop.open());
    let pool = pool.build().unwrap();
    again(&pool.downgrade(), &journal);
    until(|| journal.len() >= 100);
    drop(pool);
    until(|| stopped.is_open());
}

#[testkit::test]
fn a_pool_owned_by_a_thread_local_is_released_when_the_thread_ends() {
    thread_local! {
        static KEPT: std::cell::RefCell<Option<Pool>> = const { std::cell::RefCell::new(None) };
    }
    for policy in POLICIES {
        let pool = Pool::builder()
            .capacity(1)
            .drop_policy(policy)
            .build()
            .unwrap();
        let weak = pool.downgrade();
        // Runs once with a thread-local of another thread, once with a worker's.
        let kept = pool.clone();
        thread::spawn(move || KEPT.set(Some(kept))).join().unwrap();
        assert!(!pool.is_released());
        let kept = pool.clone();
        pool.submit(move || KEPT.set(Some(kept))).unwrap();
        pool.wait_idle().unwrap();
        end(&pool);
        drop(pool);
        assert!(weak.upgrade().is_none());
    }
}
