//! Thread starts that the operating system refuses.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt};
use pool_core::{Pool, SubmitError};
use testkit::Gate;

use crate::support::{end, enter_lines, hold, poll};

/// Two pools of one worker. Only `permits` threads can be started.
fn scarce(permits: usize) -> (MultiPool, Arc<AtomicUsize>) {
    let permits = Arc::new(AtomicUsize::new(permits));
    let left = Arc::clone(&permits);
    let each = Pool::builder().capacity(1).thread_gate(move || {
        let taken = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        match taken {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::from(io::ErrorKind::WouldBlock)),
        }
    });
    (MultiBuilder::new(each).pools(2).build().unwrap(), permits)
}

#[testkit::test]
fn a_pool_whose_first_worker_is_refused_leaves_the_task_to_another() {
    let (pool, _) = scarce(1);
    for _ in 0..4 {
        // Every second turn belongs to the pool without a worker.
        pool.spawn(|| ()).unwrap().join().unwrap();
    }
    assert_eq!((pool.running(), pool.stats().completed), (1, 4));
    assert_eq!(pool.stats().refused, 0);
    end(&pool);
}

#[testkit::test]
fn a_task_is_returned_if_no_pool_can_start_a_worker() {
    let (pool, permits) = scarce(0);
    let refused = pool.submit(|| ());
    assert!(matches!(refused, Err(SubmitError::NoThread(..))));
    let refused = poll(&mut pool.submit_async(|| ()));
    assert!(matches!(
        refused,
        std::task::Poll::Ready(Err(SubmitError::NoThread(..)))
    ));
    assert_eq!(pool.stats().refused, 2);
    assert!(
        pool.stats().thread_failures >= 4,
        "both pools have tried to start both workers"
    );
    permits.store(1, SeqCst);
    permits.store(1, SeqCst);
    pool.submit(|| ()).unwrap();
    end(&pool);
    assert_eq!(pool.stats().completed, 1);
}

#[testkit::test]
fn a_submit_waits_for_the_pool_with_a_worker_if_another_cannot_start_one() {
    let (pool, _) = scarce(1);
    let gate = hold(&pool);
    let full = pool.try_submit(|| ());
    assert!(matches!(full, Err(SubmitError::Full(_))), "{full:?}");
    let thread = enter_lines(&pool, |pool| pool.submit(|| ()).is_ok());
    let mut future = pool.submit_async(|| ());
    assert!(poll(&mut future).is_pending());
    gate.open();
    assert!(thread.join().unwrap());
    testkit::block_on(future).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((pool.running(), pool.stats().completed), (1, 3));
    assert_eq!(
        (pool.waiting(), pool.waiting_of(0), pool.waiting_of(1)),
        (0, Ok(0), Ok(0))
    );
    end(&pool);
}

#[testkit::test]
fn a_submit_that_starts_a_pools_first_worker_does_not_overtake_waiters() {
    let (pool, permits) = scarce(1);
    let gate = hold(&pool);
    let second = Gate::new();
    let waiter = {
        let second = second.clone();
        enter_lines(&pool, move |pool| {
            pool.submit(move || second.wait()).is_ok()
        })
    };
    permits.store(1, SeqCst);
    let late = pool.try_submit(|| ());
    assert!(matches!(late, Err(SubmitError::Full(_))), "{late:?}");
    assert!(waiter.join().unwrap());
    second.wait_for_arrivals(1);
    second.open();
    gate.open();
    end(&pool);
    assert_eq!(pool.stats().completed, 2);
}

#[testkit::test]
fn tuning_admits_no_waiter_to_a_pool_without_workers() {
    // The first pool's start is refused, the second pool's is not, and then all are.
    let starts = AtomicUsize::new(0);
    let each = Pool::builder().capacity(1).thread_gate(move || {
        if starts.fetch_add(1, SeqCst) == 1 {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::WouldBlock))
        }
    });
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let gate = hold(&pool);
    assert_eq!((pool.running_of(0), pool.running_of(1)), (Ok(0), Ok(1)));
    let waiter = enter_lines(&pool, |pool| pool.submit(|| ()).is_ok());
    pool.tune(2).unwrap();
    assert!(
        waiter.join().unwrap(),
        "the second pool has room in its queue now"
    );
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats_of(1).unwrap().completed, 2);
    end(&pool);
}
