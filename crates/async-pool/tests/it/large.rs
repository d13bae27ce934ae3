//! Large futures do not overflow the stack of the caller, nor of the worker.
#![expect(
    clippy::large_futures,
    clippy::large_stack_arrays,
    reason = "such futures are tested"
)]
#![expect(clippy::unwrap_used, reason = "a test that fails is to panic")]

use std::future::Future;
use std::hint::black_box;
use std::thread;

use async_pool::{AsyncPool, yield_now};
use futures_lite::future::block_on;

use crate::pool;

/// As much as the crate's page promises for an unoptimized build.
const LARGE: usize = 48 * 1024;

fn large() -> impl Future<Output = usize> + Send + 'static {
    let bytes = [1_u8; LARGE];
    async move {
        yield_now().await;
        black_box(&bytes)
            .iter()
            .map(|&byte| usize::from(byte))
            .sum()
    }
}

/// Calls `call` with a pool, on a thread with the usual stack.
fn check(call: impl FnOnce(&AsyncPool) + Send + 'static) {
    let called = thread::Builder::new().stack_size(2 * 1024 * 1024);
    let called = called.spawn(move || {
        let pool = pool(1, 2);
        call(&pool);
        pool.wait_idle().unwrap();
        assert_eq!(pool.stats().panicked, 0);
    });
    called.unwrap().join().unwrap();
}

#[testkit::test]
fn tasks_may_be_large_futures() {
    check(|pool| {
        pool.submit(async { assert_eq!(large().await, LARGE) })
            .unwrap_or_else(|_| panic!());
    });
    check(|pool| {
        let task = pool.spawn(large()).unwrap_or_else(|_| panic!());
        assert_eq!(task.join().unwrap(), LARGE);
    });
    check(|pool| {
        let task = block_on(pool.spawn_async(large())).unwrap_or_else(|_| panic!());
        assert_eq!(task.join().unwrap(), LARGE);
    });
    check(|pool| {
        let permit = pool.reserve().unwrap();
        assert_eq!(permit.spawn(large()).join().unwrap(), LARGE);
    });
    check(|pool| {
        let group = pool.group();
        group.spawn(large()).unwrap_or_else(|_| panic!());
        assert_eq!(group.next().unwrap().unwrap(), LARGE);
        block_on(group.spawn_async(large())).unwrap_or_else(|_| panic!());
        assert_eq!(group.next().unwrap().unwrap(), LARGE);
    });
    check(|pool| {
        let results = pool.map(0..2, 2, |_| large());
        let mut results = results;
        for _ in 0..2 {
            assert_eq!(block_on(results.next_async()).unwrap().unwrap(), LARGE);
        }
    });
}

#[testkit::test]
fn a_refused_large_future_is_returned() {
    check(|pool| {
        pool.release();
        let refused = pool
            .spawn(large())
            .map(drop)
            .map_err(async_pool::SubmitError::into_task);
        let future = refused.expect_err("the pool is released");
        assert_eq!(block_on(future), LARGE);
    });
}
