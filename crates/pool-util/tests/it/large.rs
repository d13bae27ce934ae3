//! Large captures and items do not overflow the stack of the caller, nor of the worker.
#![expect(clippy::large_stack_arrays, reason = "their captures are tested")]

use std::hint::black_box;
use std::thread;

use pool_core::{Pool, SubmitError};
use pool_util::PoolExt;
use testkit::block_on;

/// As much as the closure of a plain thread can capture in an unoptimized build.
const LARGE: usize = 128 * 1024;
const STACK: usize = 2 * 1024 * 1024;

type Large = [u8; LARGE];

/// Calls `call` with a pool, on a thread with the usual stack.
fn check(call: impl FnOnce(&Pool) + Send + 'static) {
    let pool = Pool::builder().capacity(1).queue_depth(9).stack_size(STACK);
    let pool = pool.build().unwrap();
    let called = thread::Builder::new().stack_size(STACK).spawn(move || {
        call(&pool);
        pool.wait_idle().unwrap();
        assert_eq!(pool.stats().panicked, 0);
    });
    called.unwrap().join().unwrap();
}

fn sum(bytes: &Large) -> usize {
    black_box(bytes).iter().map(|&byte| usize::from(byte)).sum()
}

#[testkit::test]
fn submitted_and_spawned_tasks_may_have_large_captures() {
    check(|pool| {
        let bytes = [1; LARGE];
        pool.submit(move || assert_eq!(sum(&bytes), LARGE))
            .unwrap_or_else(|_| panic!());
    });
    check(|pool| {
        let bytes = [1; LARGE];
        let task = pool.spawn(move || sum(&bytes));
        assert_eq!(task.unwrap_or_else(|_| panic!()).join().unwrap(), LARGE);
    });
    check(|pool| {
        let bytes = [1; LARGE];
        let task = pool.task().name("large").spawn(move || sum(&bytes));
        assert_eq!(task.unwrap_or_else(|_| panic!()).join().unwrap(), LARGE);
    });
    check(|pool| {
        let bytes = [1; LARGE];
        let task = block_on(pool.spawn_async(move || sum(&bytes)));
        assert_eq!(task.unwrap_or_else(|_| panic!()).join().unwrap(), LARGE);
    });
}

#[testkit::test]
fn tasks_of_groups_may_have_large_captures() {
    check(|pool| {
        let (bytes, group) = ([1; LARGE], pool.group());
        group
            .spawn(move || sum(&bytes))
            .unwrap_or_else(|_| panic!());
        assert_eq!(group.next().unwrap().unwrap(), LARGE);
    });
    check(|pool| {
        let (bytes, group) = ([1; LARGE], pool.group::<()>());
        group
            .submit(move || sum(&bytes))
            .unwrap_or_else(|_| panic!());
        group.wait().unwrap();
    });
}

#[testkit::test]
fn tasks_with_keys_and_tasks_of_scopes_may_have_large_captures() {
    check(|pool| {
        let (bytes, keyed) = ([1; LARGE], pool.keyed());
        keyed
            .submit(1, move || sum(&bytes))
            .unwrap_or_else(|_| panic!());
    });
    check(|pool| {
        let (bytes, keyed) = ([1; LARGE], pool.keyed());
        let task = keyed.spawn(1, move || sum(&bytes));
        assert_eq!(task.unwrap_or_else(|_| panic!()).join().unwrap(), LARGE);
    });
    check(|pool| {
        let sum = pool.scope(|scope| {
            let bytes = [1; LARGE];
            scope.spawn(move || sum(&bytes)).join()
        });
        assert_eq!(sum.unwrap(), LARGE);
    });
}

#[testkit::test]
fn mapped_items_may_be_large() {
    let items = || (0..3).map(|_| [1; LARGE]);
    check(move |pool| {
        let sums = pool.map(items(), |bytes| sum(&bytes));
        assert_eq!(sums.map(Result::unwrap).sum::<usize>(), 3 * LARGE);
    });
    check(move |pool| {
        pool.for_each(items(), |bytes| assert_eq!(sum(&bytes), LARGE))
            .unwrap();
    });
    check(move |pool| {
        let sum = pool.scope(|scope| {
            let sums = scope.map(items(), |bytes| sum(&bytes));
            sums.map(Result::unwrap).sum::<usize>()
        });
        assert_eq!(sum, 3 * LARGE);
    });
}

/// The captures are in a box, from which the error takes them.
#[testkit::test]
fn a_refused_task_with_large_captures_is_returned() {
    const SIZE: usize = 20 * 1024;
    check(|pool| {
        let task = |n: u8| {
            let bytes = [n; SIZE];
            move || {
                black_box(&bytes)
                    .iter()
                    .map(|&byte| usize::from(byte))
                    .sum::<usize>()
            }
        };
        pool.release();
        let group = pool.group();
        let refused = [
            pool.submit(task(1)),
            pool.spawn(task(1)).map(drop),
            block_on(pool.spawn_async(task(1))).map(drop),
            group.spawn(task(1)),
            block_on(group.submit_async(task(1))),
        ];
        for refused in refused {
            let Err(SubmitError::Released(task)) = refused else {
                panic!("it was accepted");
            };
            assert_eq!(task(), SIZE);
        }
        let refused = pool.keyed().submit(7, task(1));
        let (key, task) = refused.unwrap_err().into_task();
        assert_eq!((key, task()), (7, SIZE));
    });
}
