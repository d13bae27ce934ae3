//! Batches: several tasks submitted by one call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pool_core::{Clock, FuncPool, ManualClock, Pool, QueueDepth, SubmitError};
use testkit::Gate;

use crate::support::{Journal, enter_line, hold, poll};

/// A pool whose one worker is held by the gate, with a queue of this depth.
fn held(depth: usize) -> (Pool, Gate) {
    let pool = Pool::builder().capacity(1).queue_depth(depth).build();
    let (pool, gate) = (pool.expect("it has a capacity"), Gate::new());
    let wait = gate.clone();
    pool.submit(move || wait.wait()).expect("there is room");
    gate.wait_for_arrivals(1);
    (pool, gate)
}

#[testkit::test]
fn a_batch_of_any_length_runs_in_order() {
    for depth in [
        QueueDepth::from(0),
        QueueDepth::from(7),
        QueueDepth::Unlimited,
    ] {
        let pool = Pool::builder().capacity(1).queue_depth(depth).build();
        let pool = pool.expect("it has a capacity");
        for length in [0, 1, 255, 256, 257, 1_000] {
            let ran = Arc::new(Mutex::new(Vec::new()));
            let tasks = (0..length).map(|n| {
                let ran = Arc::clone(&ran);
                move || ran.lock().expect("no panic").push(n)
            });
            assert_eq!(pool.submit_batch(tasks).expect("it waits"), length);
            pool.wait_idle().expect("the caller is not a worker");
            assert!(ran.lock().expect("no panic").iter().copied().eq(0..length));
        }
        let stats = pool.stats();
        assert_eq!((stats.submitted, stats.completed), (1_769, 1_769));
    }
}

#[testkit::test]
fn a_batch_does_not_poll_its_iterator_after_the_end() {
    for length in [0, 1, 16, 17, 300] {
        let pool = Pool::builder().capacity(1).build();
        let pool = pool.expect("it has a capacity");
        let mut asked = 0;
        let tasks = std::iter::from_fn(|| {
            asked += 1;
            (asked != length + 1).then_some(|| ()) // Returns a value again after the first `None`.
        });
        assert_eq!(pool.submit_batch(tasks).expect("it waits"), length);
    }
}

#[testkit::test]
fn tasks_pulled_before_an_iterator_panics_are_run() {
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited);
    let pool = pool.build().expect("it has a capacity");
    for given in [0, 1, 15, 16, 300] {
        let ran = Arc::new(AtomicUsize::new(0));
        let tasks = (0..=given).map(|n| {
            assert!(n < given, "the iterator");
            let ran = Arc::clone(&ran);
            move || ran.fetch_add(1, SeqCst)
        });
        let unwound = catch_unwind(AssertUnwindSafe(|| pool.submit_batch(tasks)));
        assert!(unwound.is_err());
        pool.wait_idle().expect("the caller is not a worker");
        assert_eq!(ran.load(SeqCst), given);
    }
}

#[testkit::test]
fn a_batch_returns_pulled_tasks_without_room_in_order_and_pulls_no_more() {
    let (pool, gate) = held(100);
    let ran = Arc::new(AtomicUsize::new(0));
    let mut pulled = 0;
    let tasks = (0..1_000).map(|n| {
        pulled += 1;
        let ran = Arc::clone(&ran);
        (n, move || _ = ran.fetch_add(1, SeqCst))
    });
    let numbers = Mutex::new(Vec::new());
    let tasks = tasks.map(|(n, task)| {
        numbers.lock().expect("no panic").push(n);
        task
    });
    let refused = pool
        .try_submit_batch(tasks)
        .expect_err("there is room for a hundred");
    assert!(matches!(refused.reason(), SubmitError::Full(())));
    assert_eq!(
        (refused.submitted(), pool.queued(), pool.stats().refused),
        (100, 100, 1)
    );
    assert!(
        numbers.lock().expect("no panic").len() <= 128,
        "it pulls some at a time"
    );
    assert_eq!(refused.into_refused().count(), 900);
    gate.open();
    pool.wait_idle().expect("the caller is not a worker");
    assert_eq!((ran.load(SeqCst), pulled), (100, 1_000));
}

#[testkit::test]
fn a_waiting_batch_lets_other_submits_in_between_and_loses_no_task() {
    let pool = Pool::builder().capacity(2).queue_depth(3).build();
    let pool = pool.expect("it has a capacity");
    let ran = Arc::new(AtomicUsize::new(0));
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let tasks = (0..500).map(|_| {
                    let ran = Arc::clone(&ran);
                    move || ran.fetch_add(1, SeqCst)
                });
                assert_eq!(pool.submit_batch(tasks).expect("it waits"), 500);
            });
        }
    });
    pool.wait_idle().expect("the caller is not a worker");
    assert_eq!(ran.load(SeqCst), 2_000);
}

#[testkit::test]
fn a_batch_wakes_several_workers() {
    let pool = Pool::builder()
        .capacity(4)
        .queue_depth(QueueDepth::Unlimited)
        .build();
    let pool = pool.expect("it has a capacity");
    for _ in 0..50 {
        // Each task waits for the other three, so a single worker would never finish.
        let all = Arc::new(Barrier::new(4));
        let tasks = (0..4).map(|_| {
            let all = Arc::clone(&all);
            move || all.wait().is_leader()
        });
        pool.submit_batch(tasks).expect("there is room");
        pool.wait_idle().expect("the caller is not a worker");
    }
}

#[testkit::test]
fn a_released_pool_returns_a_whole_batch() {
    let pool = FuncPool::builder(|_: u32| ())
        .capacity(1)
        .build()
        .expect("it has a capacity");
    pool.release();
    let refused = pool.submit_batch(0..200).expect_err("it is released");
    assert!(matches!(refused.reason(), SubmitError::Released(())));
    assert_eq!(
        (refused.submitted(), refused.to_string().is_empty()),
        (0, false)
    );
    assert!(refused.into_refused().eq(0..200));
}

#[testkit::test]
fn an_iterator_may_submit_to_the_same_pool() {
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited)
        .build();
    let pool = pool.expect("it has a capacity");
    let (sender, receiver) = mpsc::channel();
    let tasks = (0..100).map(|n| {
        let (inner, outer) = (sender.clone(), sender.clone());
        pool.submit(move || inner.send(n)).expect("there is room");
        move || outer.send(100 + n)
    });
    assert_eq!(pool.submit_batch(tasks).expect("there is room"), 100);
    pool.wait_idle().expect("the caller is not a worker");
    drop(sender);
    assert_eq!(receiver.iter().count(), 200);
}

#[testkit::test]
fn a_batch_that_times_out_returns_the_tasks_without_room() {
    let clock = ManualClock::new();
    let pool = Pool::builder().capacity(1).queue_depth(2);
    let pool = pool.keep_alive(None).clock(clock.clone()).build().unwrap();
    let gate = hold(&pool, 1);
    let journal = Journal::new();
    for round in 0..2 {
        let tasks: Vec<_> = (0..5).map(|n| journal.writer(n)).collect();
        let second = Duration::from_secs(1);
        let deadline = clock.now() + second;
        let batch = enter_line(&pool, move |pool| match round {
            0 => pool.submit_batch_timeout(tasks, second),
            _ => pool.submit_batch_timeout(tasks, deadline),
        });
        clock.wait_for_sleepers(1);
        clock.advance(second);
        let refused = batch.join().unwrap().unwrap_err();
        assert!(matches!(refused.reason(), SubmitError::TimedOut(())));
        assert_eq!(refused.submitted(), 2 - 2 * round); // The first batch fills the queue.
        assert_eq!((pool.waiting(), pool.queued()), (0, 2));
        let first = refused.into_refused().next().expect("they come back");
        first();
    }
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), [2, 0, 0, 1]);
}

#[testkit::test]
fn a_batch_future_waits_for_room_and_keeps_its_order() {
    let (pool, gate) = held(2);
    let journal = Journal::new();
    let tasks = (0..500).map(|n| journal.writer(n));
    let mut batch = Box::pin(pool.submit_batch_async(tasks));
    assert!(poll(&mut batch).is_pending());
    assert_eq!((pool.queued(), pool.waiting()), (2, 1));
    gate.open();
    assert_eq!(testkit::block_on(batch).expect("it waits"), 500);
    pool.wait_idle().expect("the caller is not a worker");
    assert!(journal.entries().into_iter().eq(0..500));
}

#[testkit::test]
fn a_dropped_batch_future_leaves_the_wait_queue_and_its_accepted_tasks_run() {
    let (pool, gate) = held(2);
    let journal = Journal::new();
    let tasks = (0..500).map(|n| journal.writer(n));
    let mut batch = Box::pin(pool.submit_batch_async(tasks));
    assert!(poll(&mut batch).is_pending());
    drop(batch);
    assert_eq!((pool.queued(), pool.waiting()), (2, 0));
    gate.open();
    pool.wait_idle().expect("the caller is not a worker");
    assert_eq!(journal.entries(), [0, 1]);
}

#[testkit::test]
fn a_release_makes_a_batch_future_return_the_rest_in_order() {
    let gate = Gate::new();
    let wait = gate.clone();
    let pool = FuncPool::builder(move |n| (n == 0).then(|| wait.wait()));
    let pool = pool
        .capacity(1)
        .queue_depth(2)
        .build()
        .expect("it has a capacity");
    let mut batch = Box::pin(pool.submit_batch_async(0..500));
    assert!(poll(&mut batch).is_pending());
    pool.release();
    let Poll::Ready(Err(refused)) = poll(&mut batch) else {
        panic!("a released pool refuses")
    };
    assert!(matches!(refused.reason(), SubmitError::Released(())));
    assert_eq!(refused.submitted(), 3);
    assert!(refused.into_refused().eq(3..500));
    gate.open();
}
