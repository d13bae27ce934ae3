//! A host that refuses threads: the calls that wait for their own tasks, and those of a pool that runs tasks in
//! their callers, run them on the calling thread.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;

use pool_core::{Builder, Closures, OnFull, Pool, SubmitError, current};
use pool_util::{MapError, PoolExt};
use testkit::block_on;

fn builder() -> Builder<Closures> {
    let gate = || Err(io::ErrorKind::Unsupported.into());
    Pool::builder().capacity(2).queue_depth(8).thread_gate(gate)
}

#[testkit::test]
fn mappings_run_in_the_caller() {
    let pool = builder().build().unwrap();
    let here = thread::current().id();
    let twice = move |n: u32| {
        assert_eq!(thread::current().id(), here);
        2 * n
    };
    let sum: Result<u32, _> = pool.map(0..1000, twice).sum();
    assert_eq!(sum.unwrap(), 999_000);
    let sum: Result<u32, _> = pool.map_unordered(0..1000, twice).sum();
    assert_eq!(sum.unwrap(), 999_000);
    let sum = Arc::new(AtomicUsize::new(0));
    let ours = Arc::clone(&sum);
    pool.for_each(0..1000, move |n| _ = ours.fetch_add(n, SeqCst))
        .unwrap();
    assert_eq!(sum.load(SeqCst), 499_500);
    let mut some = pool.try_map(0..9, |n| if n == 3 { Err(n) } else { Ok(n) });
    assert!(some.by_ref().take(3).map(Result::unwrap).eq(0..3));
    assert!(matches!(some.next(), Some(Err(MapError::Failed(3)))));
    assert!(some.next().is_none());
    let failed = pool.try_for_each(0..9, |n| if n == 3 { Err(n) } else { Ok(()) });
    assert!(matches!(failed, Err(MapError::Failed(3))));
    let failed = pool.for_each(0..9, |n| assert_ne!(n, 3));
    assert!(matches!(failed, Err(MapError::Panicked(_))));
    assert_eq!(pool.scope(|scope| scope.map(0..9, |n| n).count()), 9);
    assert_eq!(pool.stats().live, 0);
}

#[testkit::test]
fn an_endless_mapping_in_the_caller_returns_each_result_before_it_pulls_far_ahead() {
    let pool = builder().build().unwrap();
    let mut pulled = 0;
    let source = std::iter::repeat_with(|| pulled += 1);
    let mut results = pool.map(source, |()| ()).window(1_000_000);
    for _ in 0..3 {
        results.next().unwrap().unwrap();
    }
    drop(results);
    assert!(pulled < 1_000, "{pulled}");
}

/// A walk of a tree: the items add to their own source.
fn walk(pool: &Pool) -> usize {
    let found = Arc::new(Mutex::new((VecDeque::from([1_usize]), 1)));
    let ours = Arc::clone(&found);
    let source = std::iter::from_fn(move || {
        loop {
            let mut found = ours.lock().unwrap();
            if let Some(next) = found.0.pop_front() {
                return Some(next);
            }
            if found.1 == 0 {
                return None;
            }
            drop(found);
            thread::yield_now();
        }
    });
    let visit = move |node: usize| {
        let mut found = found.lock().unwrap();
        if node < 64 {
            found.0.extend([2 * node, 2 * node + 1]);
            found.1 += 2;
        }
        found.1 -= 1;
    };
    pool.map(source, visit).map(Result::unwrap).count()
}

#[testkit::test]
fn a_source_that_waits_for_earlier_items_works_in_the_caller() {
    assert_eq!(walk(&builder().build().unwrap()), 127);
}

#[testkit::test]
fn workers_whose_mappings_feed_their_own_sources_do_not_wait_for_each_other() {
    for (capacity, depth) in [(1, 0), (1, 9), (2, 0), (4, 0), (4, 100)] {
        let pool = Pool::builder().capacity(capacity).queue_depth(depth);
        let pool = pool.build().unwrap();
        let walks: Vec<_> = (0..capacity)
            .map(|_| {
                let inner = pool.clone();
                pool.spawn(move || walk(&inner)).unwrap()
            })
            .collect();
        for walk in walks {
            assert_eq!(walk.join().unwrap(), 127);
        }
    }
}

#[testkit::test]
fn a_scopes_mapping_that_feeds_its_own_source_needs_no_worker() {
    let pool = builder().build().unwrap();
    let found = Mutex::new(VecDeque::from([1_usize]));
    let ended = AtomicUsize::new(0);
    let seen = pool.scope(|scope| {
        let mut pulled = 0;
        let source = std::iter::from_fn(|| {
            loop {
                let next = found.lock().unwrap().pop_front();
                if next.is_some() || ended.load(SeqCst) == pulled {
                    pulled += usize::from(next.is_some());
                    return next;
                }
                thread::yield_now();
            }
        });
        let visit = |node: usize| {
            if node < 64 {
                found.lock().unwrap().extend([2 * node, 2 * node + 1]);
            }
            ended.fetch_add(1, SeqCst);
        };
        scope.map(source, visit).map(Result::unwrap).count()
    });
    assert_eq!(seen, 127);
}

#[testkit::test]
fn invoke_any_runs_its_tasks_in_the_caller() {
    let pool = builder().build().unwrap();
    let tries = ["no", "7", "8"].map(|text| move || text.parse::<u32>());
    assert_eq!(pool.invoke_any(tries).unwrap(), Some(7));
    let failed = pool.invoke_any(["no"].map(|text| move || text.parse::<u32>()));
    assert!(matches!(failed, Err(MapError::Failed(_))));
}

#[testkit::test]
fn a_pool_that_runs_tasks_in_their_callers_needs_no_thread() {
    let pool = builder().on_full(OnFull::RunInCaller).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let task = || {
        let ran = Arc::clone(&ran);
        move || ran.fetch_add(1, SeqCst)
    };
    pool.submit(task()).unwrap();
    assert_eq!(pool.spawn(task()).unwrap().join().unwrap(), 1);
    assert_eq!(pool.submit_batch([(); 3].map(|()| task())).unwrap(), 3);
    let group = pool.group();
    group.spawn(task()).unwrap();
    group.submit(task()).unwrap();
    group.task().name("third").spawn(task()).unwrap();
    assert!(group.next().is_some_and(|value| value.unwrap() == 5));
    group.wait().unwrap();
    assert_eq!(ran.load(SeqCst), 8);
    let panics = pool.spawn(|| panic!("in the caller")).unwrap();
    assert!(panics.join().is_err());
    let nested = pool.clone();
    let inner = pool.spawn(move || nested.spawn(|| 7).unwrap().join());
    assert_eq!(inner.unwrap().join().unwrap().unwrap(), 7);
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.submitted, stats.completed, stats.panicked),
        (11, 10, 1)
    );
    assert_eq!((stats.refused, stats.in_flight, stats.live), (0, 0, 0));
}

#[testkit::test]
fn a_group_in_the_caller_ends_with_its_first_failure() {
    let pool = builder().on_full(OnFull::RunInCaller).build().unwrap();
    let group = pool.group().cancel_on_failure();
    let refused = (0_u32..).find_map(|n| {
        let task = move || {
            if n == 4 {
                Err(n)
            } else {
                Ok(current().is_cancelled())
            }
        };
        group.spawn(task).err()
    });
    assert!(matches!(refused, Some(SubmitError::Cancelled(_))));
    assert!(matches!(group.wait_ok(), Err(MapError::Failed(4))));
}

#[testkit::test]
fn a_call_that_cannot_run_its_task_returns_it() {
    let pool = builder().build().unwrap();
    let task = |refused| match refused {
        Err(SubmitError::NoThread(task, _)) => task,
        _ => panic!("it was accepted"),
    };
    let one: fn() -> u32 = || 1;
    assert_eq!(task(pool.submit(one))(), 1);
    assert_eq!(task(pool.try_submit(one))(), 1);
    assert_eq!(task(pool.spawn(one).map(drop))(), 1);
    assert_eq!(task(block_on(pool.submit_async(one)))(), 1);
    assert_eq!(task(pool.group().spawn(one))(), 1);
    let refused = pool.submit_batch([one]).unwrap_err();
    assert!(matches!(refused.reason(), SubmitError::NoThread(..)));
    let refused = pool.keyed().submit(7, one);
    assert!(matches!(refused, Err(SubmitError::NoThread((7, _), _))));
    assert_eq!(pool.stats().submitted, 0);
}
