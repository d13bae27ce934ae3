//! The wait queue: submitters without room, the order in which they get it, and how they leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use pool_core::{Pool, SubmitError};
use testkit::{DropCounter, Gate, PanicOnDrop, waker_fn};

use crate::support::{
    Journal, end, enter_line, hold, poll, poll_with, pool, queueing, until, wait_in_line,
};

const SECOND: Duration = Duration::from_secs(1);

#[testkit::test]
fn threads_and_futures_get_room_in_order() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let journal = Journal::new();
    let (mut threads, mut futures) = (Vec::new(), Vec::new());
    for number in 0..10 {
        let task = journal.writer(number);
        if number % 2 == 0 {
            threads.push(wait_in_line(&pool, task));
        } else {
            let mut future = pool.submit_async(task);
            assert!(poll(&mut future).is_pending());
            futures.push(future);
        }
        assert_eq!(pool.waiting(), number + 1);
    }
    gate.open();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    pool.wait_idle().unwrap();
    assert!(journal.entries().into_iter().eq(0..10));
    for mut future in futures {
        assert!(matches!(poll(&mut future), Poll::Ready(Ok(()))));
    }
    assert_eq!(pool.waiting(), 0);
}

#[testkit::test]
fn an_unpolled_future_gets_room_in_its_turn_and_delays_no_waiter() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let journal = Journal::new();
    let mut future = pool.submit_async(journal.writer("future"));
    assert!(poll(&mut future).is_pending());
    let thread = wait_in_line(&pool, journal.writer("thread"));
    gate.open();
    thread.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["future", "thread"]);
}

#[testkit::test]
fn a_waiting_submit_returns_as_soon_as_its_task_is_accepted() {
    let pool = queueing(16);
    let first = hold(&pool, 1);
    let second = Gate::new();
    let shut = second.clone();
    pool.submit(move || shut.wait()).unwrap();
    (0..15).for_each(|_| pool.submit(|| {}).unwrap());
    let submitter = wait_in_line(&pool, || {});
    first.open();
    // The submit was accepted. 16 tasks wait behind the second gate, so no room is freed before it
    // opens.
    submitter.join().unwrap().unwrap();
    assert_eq!((pool.queued(), pool.waiting()), (16, 0));
    second.open();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 18);
}

#[testkit::test]
fn an_unpolled_future_has_no_effect() {
    let pool = pool(1);
    let drops = DropCounter::new();
    let token = drops.token();
    let future = pool.submit_async(move || drop(token));
    assert_eq!((pool.stats().submitted, pool.running()), (0, 0));
    drop(future);
    assert_eq!((drops.alive(), pool.stats().refused), (0, 0));
}

#[testkit::test]
fn dropping_a_waiting_future_removes_its_task() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let (drops, journal) = (DropCounter::new(), Journal::new());
    let before = wait_in_line(&pool, journal.writer("before"));
    let token = drops.token();
    let mut future = pool.submit_async(move || drop(token));
    assert!(poll(&mut future).is_pending());
    let after = wait_in_line(&pool, journal.writer("after"));
    assert_eq!(pool.waiting(), 3);
    drop(future);
    assert_eq!(
        (drops.alive(), pool.waiting(), pool.stats().refused),
        (0, 2, 1)
    );
    gate.open();
    before.join().unwrap().unwrap();
    after.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["before", "after"]);
    assert_eq!(pool.stats().submitted, 3);
}

#[testkit::test]
fn dropping_a_future_after_its_task_was_accepted_lets_the_task_run() {
    let pool = pool(1);
    let (first, second) = (hold(&pool, 1), Gate::new());
    let task = second.clone();
    let mut future = pool.submit_async(move || task.wait());
    assert!(poll(&mut future).is_pending());
    first.open();
    second.wait_for_arrivals(1); // The task has left the queue and runs.
    drop(future);
    second.open();
    pool.wait_idle().unwrap();
    assert_eq!((pool.stats().completed, pool.stats().refused), (2, 0));
}

#[testkit::test]
fn no_submit_overtakes_a_waiter() {
    let pool = pool(1);
    for _ in 0..200 {
        let (first, second) = (Gate::new(), Gate::new());
        let held = first.clone();
        let handle = pool.try_spawn(move || held.wait()).unwrap();
        let task = second.clone();
        let waiter = wait_in_line(&pool, move || task.wait());
        first.open();
        handle.join().unwrap();
        // The waiter already holds the room, although it may not have noticed.
        assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
        assert_eq!((pool.in_flight(), pool.waiting()), (1, 0));
        second.open();
        waiter.join().unwrap().unwrap();
        pool.wait_idle().unwrap();
    }
}

#[testkit::test]
fn with_a_limit_of_zero_waiters_every_wait_is_refused() {
    let pool = Pool::builder().capacity(1).max_waiting(0).build().unwrap();
    let gate = hold(&pool, 1);
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Full(_))));
    assert!(matches!(
        pool.submit_timeout(|| (), SECOND),
        Err(SubmitError::Full(_))
    ));
    let refused = poll(&mut pool.submit_async(|| ()));
    assert!(matches!(refused, Poll::Ready(Err(SubmitError::Full(_)))));
    gate.open();
}

#[testkit::test]
fn a_waiter_over_the_limit_is_refused_and_the_others_get_room() {
    let pool = Pool::builder().capacity(1).max_waiting(2).build().unwrap();
    let gate = hold(&pool, 1);
    let journal = Journal::new();
    let thread = wait_in_line(&pool, journal.writer("thread"));
    let mut leaves = pool.submit_async(journal.writer("left"));
    assert!(poll(&mut leaves).is_pending());
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Full(_))));
    assert!(poll(&mut pool.submit_async(|| ())).is_ready());
    drop(leaves); // Its place in the wait queue is free again.
    let second = wait_in_line(&pool, journal.writer("second"));
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Full(_))));
    gate.open();
    thread.join().unwrap().unwrap();
    second.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["thread", "second"]);
}

#[testkit::test]
fn a_release_returns_the_task_of_every_waiter() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let journal = Journal::new();
    let threads: Vec<_> = (0..5)
        .map(|n| wait_in_line(&pool, journal.writer(n)))
        .collect();
    let mut future = pool.submit_async(journal.writer(5));
    assert!(poll(&mut future).is_pending());
    let spawned = enter_line(&pool, |pool| pool.spawn(|| 6));
    assert!(pool.release());
    for thread in threads {
        let back = thread.join().unwrap().unwrap_err();
        assert!(back.is_released());
        back.into_task()();
    }
    let Poll::Ready(Err(SubmitError::Released(task))) = poll(&mut future) else {
        panic!("a released future is ready");
    };
    task();
    assert_eq!(spawned.join().unwrap().unwrap_err().into_task()(), 6);
    assert_eq!((pool.waiting(), pool.stats().refused), (0, 7));
    gate.open();
    pool.wait_released().unwrap();
    assert!(journal.entries().into_iter().eq(0..6));
    assert_eq!(
        pool.stats().completed,
        1,
        "only the held one ran in the pool"
    );
}

#[testkit::test]
fn a_release_ends_all_producers_of_a_full_pool() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let refused = Arc::new(AtomicUsize::new(0));
    let producers: Vec<_> = (0..2)
        .map(|_| {
            let refused = Arc::clone(&refused);
            enter_line(&pool, move |pool| {
                for _ in 0..30 {
                    refused.fetch_add(usize::from(pool.submit(|| ()).is_err()), SeqCst);
                }
            })
        })
        .collect();
    pool.release();
    for producer in producers {
        producer.join().unwrap();
    }
    assert_eq!(refused.load(SeqCst), 60);
    gate.open();
    end(&pool);
}

#[testkit::test]
fn a_future_dropped_during_a_release_delays_no_other_waiter() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let drops = DropCounter::new();
    let bomb = (PanicOnDrop::new(), drops.token());
    let mut second = pool.submit_async(move || drop(bomb));
    let doomed = Arc::new(std::sync::Mutex::new(None));
    // The release calls the first future's waker, which drops the second future.
    let mut first = pool.submit_async(|| ());
    let slot = Arc::clone(&doomed);
    let waker = waker_fn(move || drop(slot.lock().unwrap().take()));
    assert!(poll_with(&mut first, &waker).is_pending());
    assert!(poll(&mut second).is_pending());
    *doomed.lock().unwrap() = Some(second);
    let third = wait_in_line(&pool, || ());
    assert!(pool.release());
    assert!(third.join().unwrap().unwrap_err().is_released());
    assert_eq!(drops.alive(), 0);
    gate.open();
    until(|| pool.running() == 0);
}
