//! Batches over all pools.

use std::thread;

use multi_pool::{MultiBuilder, MultiFuncPool, MultiPoolExt};
use pool_core::{FuncPool, Pool, QueueDepth, SubmitError};
use testkit::Gate;

use crate::support::{Journal, end, enter_lines, poll, until};

/// Two pools whose workers are held, with a queue of this depth each, and a journal of the
/// arguments.
fn held(depth: usize) -> (MultiFuncPool<u32>, Gate, Journal<u32>) {
    let (gate, called) = (Gate::new(), Journal::new());
    let (wait, calls) = (gate.clone(), called.clone());
    let each = FuncPool::builder(move |n| match n {
        u32::MAX => wait.wait(),
        n => calls.write(n),
    });
    let each = each.capacity(1).queue_depth(depth);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    for workers in 1..=2 {
        pool.try_submit(u32::MAX).unwrap();
        gate.wait_for_arrivals(workers);
    }
    (pool, gate, called)
}

#[testkit::test]
fn a_batch_is_distributed_in_turn_and_each_task_runs_once() {
    let each = Pool::builder().capacity(2);
    let each = each.queue_depth(QueueDepth::Unlimited).start_paused(true);
    let pool = MultiBuilder::new(each).pools(3).build().unwrap();
    let journal = Journal::new();
    let tasks = (0..600).map(|n| journal.writer(n));
    assert_eq!(pool.submit_batch(tasks).unwrap(), 600);
    pool.resume();
    end(&pool);
    let mut ran = journal.entries();
    ran.sort_unstable();
    assert!(ran.into_iter().eq(0..600));
    let completed = [0, 1, 2].map(|index| pool.stats_of(index).unwrap().completed);
    assert!(completed.iter().all(|count| *count > 0), "{completed:?}");
}

#[testkit::test]
fn a_batch_returns_tasks_without_room_in_order() {
    let (pool, gate, called) = held(3);
    let mut source = 0..100;
    let refused = pool.try_submit_batch(source.by_ref()).unwrap_err();
    assert!(matches!(refused.reason(), SubmitError::Full(())));
    assert_eq!((refused.submitted(), pool.queued()), (6, 6));
    assert!(refused.into_refused().eq(6..100));
    assert_eq!(pool.stats().refused, 1);
    gate.open();
    pool.wait_idle().unwrap();
    let mut called = called.entries();
    called.sort_unstable();
    assert_eq!(called, [0, 1, 2, 3, 4, 5]);
    end(&pool);
    let refused = pool.submit_batch(0..5).unwrap_err();
    assert!(matches!(refused.reason(), SubmitError::Released(())));
    assert!(refused.into_refused().eq(0..5));
}

#[testkit::test]
fn a_batch_waits_in_the_wait_queues_of_all_pools() {
    let (pool, gate, called) = held(1);
    let batch = enter_lines(&pool, |pool| pool.submit_batch(0..50));
    assert_eq!((pool.queued(), pool.waiting()), (2, 1));
    let other = {
        let pool = pool.clone();
        thread::spawn(move || pool.submit(50))
    };
    until(|| pool.waiting() == 2); // Behind the third task of the batch.
    gate.open();
    assert_eq!(batch.join().unwrap().unwrap(), 50);
    other.join().unwrap().unwrap();
    end(&pool);
    let mut called = called.entries();
    called.sort_unstable();
    assert!(called.into_iter().eq(0..=50));
}

#[testkit::test]
fn a_batch_future_waits_in_the_wait_queues_of_all_pools() {
    let (pool, gate, called) = held(1);
    let mut batch = Box::pin(pool.submit_batch_async(0..50));
    assert!(poll(&mut batch).is_pending());
    assert_eq!((pool.queued(), pool.waiting()), (2, 1));
    gate.open();
    assert_eq!(testkit::block_on(batch).unwrap(), 50);
    end(&pool);
    let mut called = called.entries();
    called.sort_unstable();
    assert!(called.into_iter().eq(0..50));
}
