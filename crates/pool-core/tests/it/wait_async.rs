//! Async waits for idleness and for the end, and the drop of a pool inside a runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pool_core::{Clock, DropPolicy, ManualClock, Pool, WaitError};
use sync_shim::thread::SystemThread;
use testkit::{CountingWaker, Gate, block_on, waker_fn};

use crate::support::{Journal, WithoutAlarms, end, hold, poll, poll_with, pool, until};

const SECOND: Duration = Duration::from_secs(1);

#[testkit::test]
fn wait_idle_async_is_ready_once_nothing_is_in_flight() {
    let pool = pool(2);
    assert_eq!(poll(&mut pool.wait_idle_async()), Poll::Ready(Ok(())));
    let gate = hold(&pool, 2);
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    let mut future = pool.wait_idle_async();
    for waker in &wakers {
        assert!(poll_with(&mut future, &waker.waker()).is_pending());
    }
    gate.open();
    wakers[1].wait_for_wakes(1);
    assert_eq!(
        wakers[0].wakes(),
        0,
        "only the waker of the last poll is called"
    );
    let gate = hold(&pool, 1); // The pool was idle, although it is busy again.
    assert_eq!(poll(&mut future), Poll::Ready(Ok(())));
    gate.open();
    end(&pool);
}

#[testkit::test]
fn wait_released_async_is_ready_once_the_last_worker_is_gone() {
    let pool = pool(2);
    let gate = hold(&pool, 2);
    let waker = CountingWaker::new();
    let mut future = pool.wait_released_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    pool.release();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    gate.open();
    waker.wait_for_wakes(1);
    assert_eq!(poll(&mut future), Poll::Ready(Ok(())));
    assert_eq!((pool.running(), pool.in_flight()), (0, 0));
    assert_eq!(poll(&mut pool.wait_released_async()), Poll::Ready(Ok(())));
    pool.wait_released().unwrap(); // Joins the threads that the future has not joined.
    assert_eq!(pool.stats().ending, 0);
}

#[testkit::test]
fn release_async_releases_at_its_first_poll() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let mut future = pool.release_async();
    assert!(!pool.is_released());
    assert!(poll(&mut future).is_pending());
    assert!(pool.is_released());
    gate.open();
    assert_eq!(block_on(future), Ok(()));
    assert_eq!(pool.running(), 0);
    drop(pool.release_async()); // Not polled, so it has no effect.
    pool.reboot();
    end(&pool);
}

#[testkit::test]
fn wait_released_async_waits_for_permits() {
    let pool = pool(1);
    let permit = pool.reserve().unwrap();
    let waker = CountingWaker::new();
    let mut future = pool.release_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    assert_eq!(
        block_on(pool.wait_idle_async()),
        Ok(()),
        "a permit is no task"
    );
    drop(permit);
    waker.wait_for_wakes(1);
    assert_eq!(poll(&mut future), Poll::Ready(Ok(())));
}

#[testkit::test]
fn wait_released_async_returns_rebooted_after_a_reboot() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let waker = CountingWaker::new();
    let mut releases = pool.release_async();
    let mut waits = pool.wait_released_async();
    assert!(poll_with(&mut releases, &waker.waker()).is_pending());
    assert!(poll_with(&mut waits, &waker.waker()).is_pending());
    pool.reboot();
    waker.wait_for_wakes(2);
    assert_eq!(poll(&mut releases), Poll::Ready(Err(WaitError::Rebooted)));
    assert_eq!(poll(&mut waits), Poll::Ready(Err(WaitError::Rebooted)));
    gate.open();
    end(&pool);
}

#[testkit::test]
fn release_async_ends_at_its_deadline_on_the_pools_clock() {
    let clock = ManualClock::new();
    let pool = Pool::builder().capacity(1).clock(clock.clone());
    let pool = pool.keep_alive(None).build().unwrap();
    let gate = hold(&pool, 1);
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    let mut future = pool.release_timeout_async(clock.now() + SECOND);
    for waker in &wakers {
        for _ in 0..2 {
            assert!(poll_with(&mut future, &waker.waker()).is_pending());
        }
    }
    assert_eq!(clock.sleepers(), 1, "one alarm, for the last waker");
    clock.advance(Duration::from_nanos(999_999_999));
    assert!(poll_with(&mut future, &wakers[1].waker()).is_pending());
    assert_eq!(wakers.each_ref().map(CountingWaker::wakes), [0, 0]);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(wakers.each_ref().map(CountingWaker::wakes), [0, 1]);
    assert_eq!(poll(&mut future), Poll::Ready(Err(WaitError::TimedOut)));
    drop(future);
    assert_eq!(clock.sleepers(), 0);

    let mut late = pool.release_timeout_async(clock.now());
    assert_eq!(poll(&mut late), Poll::Ready(Err(WaitError::TimedOut)));
    gate.open();
    // A deadline that has passed is no error if the pool has ended.
    pool.wait_released().unwrap();
    let mut late = pool.release_timeout_async(clock.now());
    assert_eq!(poll(&mut late), Poll::Ready(Ok(())));
}

#[testkit::test]
fn without_alarms_a_wait_times_out_at_its_deadline_and_not_before() {
    let clock = WithoutAlarms::default();
    let pool = Pool::builder().capacity(1).clock(clock.clone());
    let pool = pool.keep_alive(None).build().unwrap();
    let gate = hold(&pool, 1);
    let waker = CountingWaker::new();
    let mut future = pool.release_timeout_async(clock.now() + SECOND);
    for polls in 1..4 {
        assert!(poll_with(&mut future, &waker.waker()).is_pending());
        assert_eq!(waker.wakes(), polls, "it looks again by itself");
    }
    clock.advance(SECOND);
    assert_eq!(poll(&mut future), Poll::Ready(Err(WaitError::TimedOut)));
    assert!(pool.is_released());
    gate.open();
    assert_eq!(block_on(pool.release_async()), Ok(()));
}

#[testkit::test]
fn without_alarms_a_timed_wait_ends_with_the_pool() {
    let clock = WithoutAlarms::default();
    let pool = Pool::builder().capacity(1).clock(clock.clone());
    let pool = pool.keep_alive(None).build().unwrap();
    let gate = hold(&pool, 1);
    let mut future = pool.release_timeout_async(clock.now() + SECOND);
    assert!(poll(&mut future).is_pending());
    gate.open();
    assert_eq!(block_on(future), Ok(()));
}

#[testkit::test]
fn a_panicking_waker_at_the_end_does_not_affect_other_waiters() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let panics = waker_fn(|| panic!("a waker"));
    let (mut rest, mut ends) = (pool.wait_idle_async(), pool.wait_released_async());
    assert!(poll_with(&mut rest, &panics).is_pending());
    assert!(poll_with(&mut ends, &panics).is_pending());
    let waits = {
        let pool = pool.clone();
        thread::spawn(move || (pool.wait_idle(), pool.wait_released()))
    };
    let others = {
        let pool = pool.clone();
        thread::spawn(move || {
            let rest = block_on(pool.wait_idle_async());
            (rest, block_on(pool.wait_released_async()))
        })
    };
    gate.open();
    pool.wait_idle().unwrap();
    pool.release();
    assert_eq!(waits.join().unwrap(), (Ok(()), Ok(())));
    assert_eq!(others.join().unwrap(), (Ok(()), Ok(())));
    assert_eq!(poll(&mut rest), Poll::Ready(Ok(())));
    assert_eq!(poll(&mut ends), Poll::Ready(Ok(())));
}

#[testkit::test]
fn wakers_of_wait_idle_and_wait_released_may_call_the_pool() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let (calls, inner) = (Arc::new(AtomicUsize::new(0)), pool.downgrade());
    let count = Arc::clone(&calls);
    let waker = waker_fn(move || {
        let pool = inner.upgrade().unwrap();
        let _ = (pool.stats(), pool.tune(1), pool.try_submit(|| ()));
        // The pool is idle and has ended, so neither call blocks, on a worker or elsewhere.
        let _ = (poll(&mut pool.wait_idle_async()), pool.wait_released());
        count.fetch_add(1, SeqCst);
    });
    let (mut rest, mut ends) = (pool.wait_idle_async(), pool.wait_released_async());
    assert!(poll_with(&mut rest, &waker).is_pending());
    assert!(poll_with(&mut ends, &waker).is_pending());
    gate.open();
    until(|| calls.load(SeqCst) == 1);
    pool.release();
    until(|| calls.load(SeqCst) == 2);
    pool.wait_released().unwrap();
}

#[testkit::test]
fn pools_end_under_tokio_and_under_smol() {
    let ends = |pool: Pool| async move {
        for _ in 0..10 {
            pool.submit_async(|| ()).await.unwrap();
        }
        pool.wait_idle_async().await.unwrap();
        assert_eq!(pool.stats().completed, 10);
        pool.release_async().await.unwrap();
        pool.running()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    assert_eq!(runtime.block_on(runtime.spawn(ends(pool(2)))).unwrap(), 0);
    assert_eq!(futures_lite::future::block_on(ends(pool(2))), 0);
}

/// Drops a pool with `DropPolicy::Join` and a held task in a single-threaded runtime, while another
/// future is ready to run. Returns the order in which they end.
fn dropped_in_a_runtime(releases_first: bool) -> Vec<&'static str> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let journal = Journal::new();
    let pool = Pool::builder().capacity(1).drop_policy(DropPolicy::Join);
    let pool = pool.build().unwrap();
    let gate = Gate::new();
    let (held, log) = (gate.clone(), journal.clone());
    pool.submit(move || {
        held.wait();
        log.write("task");
    })
    .unwrap();
    // The other future opens the gate, if the runtime gets to run it.
    let (log, opens) = (journal.clone(), gate.clone());
    let other = async move {
        log.write("other");
        opens.open();
    };
    // If it does not run, another thread opens the gate once the drop sleeps.
    let dropper = SystemThread::current();
    let helper = (!releases_first).then(|| {
        let gate = gate.clone();
        thread::spawn(move || {
            until(|| !dropper.is_runnable());
            gate.open();
        })
    });
    let log = journal.clone();
    runtime.unwrap().block_on(async move {
        let other = tokio::spawn(other);
        if releases_first {
            pool.release_async().await.unwrap();
        }
        drop(pool);
        log.write("dropped");
        other.await.unwrap();
    });
    if let Some(helper) = helper {
        helper.join().unwrap();
    }
    journal.entries()
}

#[testkit::test]
fn a_joining_drop_blocks_the_runtimes_thread() {
    let order = ["task", "dropped", "other"];
    assert_eq!(dropped_in_a_runtime(false), order);
}

#[testkit::test]
fn a_joining_drop_after_release_async_does_not_block_the_runtime() {
    let order = ["other", "task", "dropped"];
    assert_eq!(dropped_in_a_runtime(true), order);
}
