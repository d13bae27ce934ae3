//! Futures under several runtimes, and wakers that panic or call back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;

use async_executor::Executor;
use pool_core::{JoinError, Pool};
use testkit::{CountingWaker, DropCounter, Gate, block_on, waker_fn, waker_whose_clone_panics};

use crate::support::{end, hold, poll, poll_with, pool, queueing, until};

/// Submits a hundred tasks to a pool of two workers. Awaits each admission and each value.
async fn hundred(pool: Pool, sum: Arc<AtomicU64>) -> u64 {
    let mut values = 0;
    for n in 0..100 {
        let sum = Arc::clone(&sum);
        pool.submit_async(move || _ = sum.fetch_add(n, SeqCst))
            .await
            .unwrap();
        values += pool.spawn_async(move || n).await.unwrap().await.unwrap();
    }
    values
}

fn check(pool: &Pool, sum: &AtomicU64, values: impl Iterator<Item = u64>) {
    pool.wait_idle().unwrap();
    let values: Vec<_> = values.collect();
    assert_eq!(values, vec![4950; values.len()]);
    assert_eq!(sum.load(SeqCst), 4950 * values.len() as u64);
    assert_eq!(pool.waiting(), 0);
}

#[testkit::test]
fn submitting_works_under_tokio() {
    let (pool, sum) = (pool(2), Arc::new(AtomicU64::new(0)));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build();
    let runtime = runtime.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| runtime.spawn(hundred(pool.clone(), Arc::clone(&sum))))
        .collect();
    let values = tasks
        .into_iter()
        .map(|task| runtime.block_on(task).unwrap());
    check(&pool, &sum, values.collect::<Vec<_>>().into_iter());
}

#[testkit::test]
fn submitting_works_under_smol() {
    let (pool, sum) = (pool(2), Arc::new(AtomicU64::new(0)));
    let executor = Executor::new();
    let tasks: Vec<_> = (0..8)
        .map(|_| executor.spawn(hundred(pool.clone(), Arc::clone(&sum))))
        .collect();
    let values = futures_lite::future::block_on(executor.run(async {
        let mut values = Vec::new();
        for task in tasks {
            values.push(task.await);
        }
        values
    }));
    check(&pool, &sum, values.into_iter());
}

#[testkit::test]
fn submitting_works_without_a_runtime() {
    let (pool, sum) = (pool(2), Arc::new(AtomicU64::new(0)));
    let value = block_on(hundred(pool.clone(), Arc::clone(&sum)));
    check(&pool, &sum, [value].into_iter());
}

#[testkit::test]
fn only_the_waker_of_the_last_poll_is_called_and_only_once() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let mut future = pool.submit_async(|| ());
    let wakers = [(); 3].map(|()| CountingWaker::new());
    for waker in &wakers {
        assert!(poll_with(&mut future, &waker.waker()).is_pending());
    }
    assert_eq!(wakers.each_ref().map(CountingWaker::wakers), [0, 0, 1]);
    gate.open();
    wakers[2].wait_for_wakes(1);
    pool.wait_idle().unwrap();
    assert_eq!(wakers.each_ref().map(CountingWaker::wakes), [0, 0, 1]);
    assert!(matches!(poll(&mut future), Poll::Ready(Ok(()))));
    assert!(poll(&mut future).is_pending(), "it was ready once");
}

#[testkit::test]
fn a_waker_may_call_the_pool_it_waits_for() {
    let pool = Pool::builder().capacity(1).queue_depth(1).build().unwrap();
    let gate = hold(&pool, 1);
    pool.try_submit(|| ()).unwrap();
    let (calls, inner) = (Arc::new(AtomicUsize::new(0)), pool.clone());
    let count = Arc::clone(&calls);
    let waker = waker_fn(move || {
        let _ = (inner.stats(), inner.try_submit(|| ()), inner.tune(1));
        count.fetch_add(1, SeqCst);
    });
    let mut entering = pool.submit_async(|| ());
    assert!(poll_with(&mut entering, &waker).is_pending());
    gate.open();
    until(|| calls.load(SeqCst) == 1);
    let gate = Gate::new();
    let held = gate.clone();
    let mut handle = block_on(pool.spawn_async(move || held.wait())).unwrap();
    assert!(poll_with(&mut handle, &waker).is_pending());
    gate.open();
    until(|| calls.load(SeqCst) == 2);
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_waker_may_call_the_pool_from_its_own_drop() {
    struct Calls(Pool, Arc<AtomicUsize>);
    impl Drop for Calls {
        fn drop(&mut self) {
            let _ = (self.0.stats(), self.0.try_submit(|| ()));
            self.1.fetch_add(1, SeqCst);
        }
    }
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let drops = Arc::new(AtomicUsize::new(0));
    let waker = || {
        let calls = Calls(pool.clone(), Arc::clone(&drops));
        waker_fn(move || _ = &calls)
    };
    // Replaced by a later poll, removed from the wait queue, and dropped after a wake-up.
    let mut replaced = pool.submit_async(|| ());
    assert!(poll_with(&mut replaced, &waker()).is_pending());
    assert!(poll_with(&mut replaced, &waker()).is_pending());
    assert_eq!(drops.load(SeqCst), 1);
    drop(replaced);
    assert_eq!(drops.load(SeqCst), 2);
    let mut served = pool.spawn_async(|| ());
    assert!(poll_with(&mut served, &waker()).is_pending());
    gate.open();
    until(|| drops.load(SeqCst) == 3);
    let mut handle = block_on(served).unwrap();
    let _ = poll_with(&mut handle, &waker());
    drop(handle);
    until(|| drops.load(SeqCst) == 4);
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_panicking_waker_affects_only_its_own_future() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let waker = waker_fn(|| panic!("a waker"));
    let mut first = pool.submit_async(|| ());
    let mut second = pool.spawn_async(|| 2);
    assert!(poll_with(&mut first, &waker).is_pending());
    assert!(poll_with(&mut second, &waker).is_pending());
    gate.open();
    pool.wait_idle().unwrap();
    assert!(matches!(poll(&mut first), Poll::Ready(Ok(()))));
    assert_eq!(block_on(block_on(second).unwrap()).unwrap(), 2);

    let gate = Gate::new();
    let held = gate.clone();
    let mut handle = block_on(pool.spawn_async(move || held.wait())).unwrap();
    assert!(poll_with(&mut handle, &waker).is_pending());
    gate.open();
    pool.wait_idle().unwrap();
    block_on(handle).unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.completed, stats.panicked, stats.threads_started),
        (4, 0, 1)
    );
}

#[testkit::test]
fn dropping_a_future_whose_wakers_clone_panicked_removes_its_task() {
    let (pool, drops) = (pool(1), DropCounter::new());
    let gate = hold(&pool, 1);
    let token = drops.token();
    let mut entering = pool.submit_async(move || drop(token));
    let polls = |entering: &mut _| {
        catch_unwind(AssertUnwindSafe(|| {
            poll_with(entering, &waker_whose_clone_panics())
        }))
    };
    assert!(polls(&mut entering).is_err());
    assert_eq!(
        (pool.waiting(), drops.alive()),
        (1, 1),
        "it has its place, and no waker yet"
    );
    assert!(poll(&mut entering).is_pending());
    assert!(polls(&mut entering).is_err());
    assert_eq!(
        (pool.waiting(), drops.alive()),
        (1, 1),
        "it keeps its place"
    );
    drop(entering);
    assert_eq!((pool.waiting(), drops.alive()), (0, 0));
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().submitted, 1);
}

#[testkit::test]
fn a_handle_polled_with_a_waker_whose_clone_panics_can_still_be_awaited() {
    let pool = queueing(1);
    let gate = hold(&pool, 1);
    let mut handle = pool.spawn(|| 7).unwrap();
    let polled = catch_unwind(AssertUnwindSafe(|| {
        poll_with(&mut handle, &waker_whose_clone_panics())
    }));
    assert!(polled.is_err());
    gate.open();
    assert_eq!(block_on(handle).unwrap(), 7);
}

#[testkit::test]
fn a_poll_of_a_handle_on_an_own_worker_runs_its_task_as_a_join_does() {
    let pool = queueing(2);
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let here = thread::current().id();
        let other = inner.spawn(|| ()).unwrap();
        let child = inner.spawn(move || thread::current().id() == here);
        assert!(block_on(child.unwrap()).unwrap());
        assert!(!other.is_finished(), "it runs no other task");
    });
    outer.unwrap().join().unwrap();
}

#[testkit::test]
fn a_poll_of_a_handle_on_an_own_worker_at_the_nesting_limit_returns_would_deadlock() {
    let pool = Pool::builder().capacity(1).queue_depth(1).nesting_limit(0);
    let pool = pool.build().unwrap();
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let child = inner.spawn(|| ()).unwrap();
        assert!(matches!(block_on(child), Err(JoinError::WouldDeadlock)));
    });
    outer.unwrap().join().unwrap();
    end(&pool);
    assert_eq!(pool.stats().completed, 2);
}

#[testkit::test]
fn a_future_polled_by_the_pools_tasks_may_await_other_tasks_of_the_pool() {
    // The only worker. Each poll is its own task, so a pending future frees the worker.
    let pool = queueing(100);
    let executor = Arc::new(Executor::new());
    let inner = pool.clone();
    let awaits = executor.spawn(async move { hundred_of(&inner).await });
    while !awaits.is_finished() {
        let turn = Arc::clone(&executor);
        pool.spawn(move || _ = turn.try_tick())
            .unwrap()
            .join()
            .unwrap();
    }
    assert_eq!(block_on(awaits), 4950);
    assert_eq!(pool.stats().peak_live, 1);
}

/// Awaits a hundred tasks one after the other.
async fn hundred_of(pool: &Pool) -> u64 {
    let mut sum = 0;
    for n in 0..100 {
        sum += pool.spawn_async(move || n).await.unwrap().await.unwrap();
    }
    sum
}
