//! How many items of a mapping, or tasks of a scope, run at a time.

use std::hint::black_box;
use std::iter::from_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::{scope, spawn, yield_now};

use futures_lite::StreamExt;
use futures_lite::future::block_on;
use pool_core::Pool;
use pool_util::PoolExt;
use sync_shim::thread::cores;
use testkit::Gate;

use crate::support::pool;

/// Returns a function that waits until `count` threads are in it.
fn meeting(count: usize) -> impl Fn() + Clone + Send + Sync + 'static {
    let gate = Gate::new();
    let present = Arc::new(AtomicUsize::new(0));
    move || {
        if present.fetch_add(1, SeqCst) + 1 == count {
            gate.open();
        }
        gate.wait();
    }
}

fn compute() {
    (0..20_000).for_each(|n| _ = black_box(n));
}

/// Whether a pool of `8 * few` workers runs `work` on at most `few` of them.
///
/// Some rounds may fail. A look can find all threads asleep that compute, in a page fault or at a lock of the process, and
/// then the number of workers doubles.
#[cfg(target_os = "linux")]
fn runs_on_few(few: usize, work: impl Fn(&Pool)) -> bool {
    (0..10).any(|_| {
        let pool = pool(8 * few);
        work(&pool);
        pool.stats().peak_live <= few
    })
}

// Only Linux says whether a thread sleeps.
#[cfg(target_os = "linux")]
#[testkit::test]
fn items_that_compute_run_on_few_more_workers_than_the_machine_has_cores() {
    let few = 2 * cores() + 6;
    assert!(runs_on_few(few, |pool| pool
        .for_each(0..200 * few, |_| compute())
        .unwrap()));
    assert!(runs_on_few(few, |pool| pool.scope(
        |scope| (0..200 * few).for_each(|_| scope.submit(compute))
    )));
}

#[testkit::test]
fn items_that_wait_for_each_other_all_begin() {
    let count = cores() + 40;
    let meet = meeting(count);
    pool(count).for_each(0..count, move |_| meet()).unwrap();
    let meet = meeting(count);
    let stream = pool(count).map(0..count, move |_| meet()).into_stream();
    assert_eq!(block_on(stream.count()), count);
    let meet = meeting(count);
    pool(count).scope(|scope| {
        (1..count).for_each(|_| scope.submit(&meet));
        meet();
    });
}

#[testkit::test]
fn items_begin_while_the_source_waits_for_them() {
    let count = cores() + 3;
    let pool = pool(count);
    let meet = meeting(count + 1);
    let source = meet.clone();
    let items = (0..=count).inspect(|&n| {
        if n == count {
            source();
        }
    });
    let results = pool.map(items, move |n| {
        if n < count {
            meet();
        }
    });
    assert_eq!(results.count(), count + 1);
}

/// Calls `wait` for a pool of one more worker than the machine has cores, and for items that all wait for each other. As
/// soon as all workers are taken, another caller waits for room. It takes the worker of the drain task that would start
/// the last item.
fn beside_a_caller_that_waits_for_room(wait: impl FnOnce(&Pool, usize)) {
    let count = cores() + 1;
    let (pool, is_over) = (pool(count), AtomicBool::new(false));
    scope(|threads| {
        threads.spawn(|| {
            // The last worker may start the last item before this thread sees it.
            while pool.busy() < count && !is_over.load(SeqCst) {
                yield_now();
            }
            pool.submit(|| ()).unwrap();
        });
        wait(&pool, count);
        is_over.store(true, SeqCst);
    });
}

#[testkit::test]
fn a_caller_that_waits_for_room_keeps_no_item_from_those_that_wait_for_it() {
    beside_a_caller_that_waits_for_room(|pool, count| {
        let meet = meeting(count);
        pool.for_each(0..count, move |_| meet()).unwrap();
    });
    beside_a_caller_that_waits_for_room(|pool, count| {
        let meet = meeting(count);
        let stream = pool.map(0..count, move |_| meet()).into_stream();
        assert_eq!(block_on(stream.count()), count);
    });
    // The owner waits in its source, in a scope's closure, or in an item.
    beside_a_caller_that_waits_for_room(|pool, count| {
        let (meet, all) = (meeting(count), Gate::new());
        let opened = all.clone();
        let source = (0..=count).inspect(move |&n| {
            if n == count {
                opened.wait();
            }
        });
        let results = pool.map(source, move |n| {
            if n < count {
                meet();
                all.open();
            }
        });
        assert_eq!(results.window(2 * count).count(), count + 1);
    });
    beside_a_caller_that_waits_for_room(|pool, count| {
        let (meet, all) = (meeting(count), Gate::new());
        pool.scope(|scope| {
            for _ in 0..count {
                scope.submit(|| {
                    meet();
                    all.open();
                });
            }
            all.wait();
        });
    });
    beside_a_caller_that_waits_for_room(|pool, count| {
        let meet = meeting(count + 1);
        pool.scope(|scope| (0..=count).for_each(|_| scope.submit(&meet)));
    });
}

#[testkit::test]
fn at_a_full_pool_one_drain_task_waits_and_only_beside_another() {
    let full = pool(1);
    let inner = full.clone();
    let alone = full.spawn(move || {
        let waiting = inner.clone();
        inner
            .for_each(0..3, move |_| assert_eq!(waiting.waiting(), 0))
            .unwrap();
    });
    alone.unwrap().join().unwrap();
    let full = pool(2);
    let gate = Gate::new();
    let (held, inner) = (gate.clone(), full.clone());
    full.submit(move || held.wait()).unwrap();
    let results = full.map(0..50, move |n| {
        while n == 0 && inner.waiting() == 0 {
            yield_now();
        }
        assert!(inner.waiting() <= 1);
    });
    assert_eq!(results.window(50).flatten().count(), 50);
    gate.open();
}

#[testkit::test]
fn a_drain_task_that_waits_does_not_keep_the_function_of_a_mapping_that_is_over() {
    let full = pool(2);
    let gate = Gate::new();
    let (held, inner, kept) = (gate.clone(), full.clone(), Arc::new(()));
    full.submit(move || held.wait()).unwrap();
    let function = Arc::clone(&kept);
    full.for_each(0..50, move |n| {
        assert!(Arc::strong_count(&function) > 1);
        while n == 0 && inner.waiting() == 0 {
            yield_now();
        }
    })
    .unwrap();
    // The last drain task that has run may hold it for a moment.
    while Arc::strong_count(&kept) > 1 {
        yield_now();
    }
    gate.open();
}

#[testkit::test]
fn an_item_that_was_added_before_a_release_starts_when_a_worker_is_free() {
    let pool = pool(2);
    let gate = Gate::new();
    let (held, inner) = (gate.clone(), pool.clone());
    pool.submit(move || held.wait()).unwrap();
    let (meet, added, waits) = (meeting(2), Gate::new(), pool.clone());
    let opened = added.clone();
    let end = from_fn(move || {
        opened.open();
        None
    });
    let results = pool.map((0..2).chain(end), move |n| {
        if n == 0 {
            added.wait();
            while waits.waiting() == 0 {
                yield_now();
            }
            inner.release();
            gate.open();
        }
        meet();
    });
    assert_eq!(results.window(4).flatten().count(), 2);
}

#[testkit::test]
fn items_begin_while_the_pool_is_released_or_paused() {
    let count = cores() + 3;
    for ends in [Pool::release, |pool: &Pool| {
        let paused = pool.pause();
        let pool = pool.clone();
        spawn(move || pool.resume());
        paused
    }] {
        let pool = pool(count);
        let (meet, inner) = (meeting(count), pool.clone());
        // A released pool refuses further items, so all are pulled before.
        let pulled = Gate::new();
        let opened = pulled.clone();
        let end = from_fn(move || {
            opened.open();
            None
        });
        let results = pool.map((0..count).chain(end), move |n| {
            if n == 0 {
                pulled.wait();
                ends(&inner);
            }
            meet();
        });
        let results = results.window(2 * count);
        assert_eq!(results.flatten().count(), count);
    }
}

// Only Linux says whether a thread sleeps.
#[cfg(target_os = "linux")]
#[testkit::test]
fn a_crew_that_has_taken_all_workers_becomes_smaller_when_items_compute() {
    let (count, all) = (cores() + 2, 2_000);
    // As above, some rounds may fail.
    let becomes_smaller = (0..10).any(|_| {
        let (pool, meet, running) = (pool(count), meeting(count), AtomicUsize::new(0));
        // The last item that began while every worker ran one.
        let last = Arc::new(AtomicUsize::new(0));
        let latest = Arc::clone(&last);
        pool.for_each(0..all, move |n| {
            if n < count {
                return meet();
            }
            if running.fetch_add(1, SeqCst) + 1 == count {
                latest.fetch_max(n, SeqCst);
            }
            (0..5).for_each(|_| compute());
            running.fetch_sub(1, SeqCst);
        })
        .unwrap();
        last.load(SeqCst) < all / 2
    });
    assert!(becomes_smaller);
}

#[testkit::test]
fn items_that_spin_until_others_begin_all_end() {
    let count = cores() + 2;
    let begun = AtomicUsize::new(0);
    pool(count)
        .for_each(0..count, move |_| {
            begun.fetch_add(1, SeqCst);
            while begun.load(SeqCst) < count {
                yield_now();
            }
        })
        .unwrap();
}
