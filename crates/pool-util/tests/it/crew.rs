//! How many items of a mapping, or tasks of a scope, run at a time.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::yield_now;

use futures_lite::StreamExt;
use futures_lite::future::block_on;
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
fn runs_on_few(few: usize, work: impl Fn(&pool_core::Pool)) -> bool {
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
