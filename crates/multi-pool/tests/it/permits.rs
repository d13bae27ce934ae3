//! Permits of several pools: room in the first pool that has some.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::thread;

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt};
use pool_core::{DropPolicy, Pool, SubmitError};
use testkit::{CountingWaker, Gate, block_on, waker_whose_clone_panics};

use crate::support::{Journal, end, enter_lines, here, hold_all, multi, poll, poll_with, until};

#[testkit::test]
fn permits_fill_all_pools_and_their_tasks_run_in_the_pool_of_the_permit() {
    let pool = multi(3, 1);
    let permits: Vec<_> = (0..3).map(|_| pool.reserve().unwrap()).collect();
    assert!(matches!(pool.try_reserve(), Err(SubmitError::Full(()))));
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    assert_eq!((pool.stats().reserved, pool.stats().refused), (3, 2));
    let handles: Vec<_> = permits
        .into_iter()
        .map(|permit| permit.spawn(here))
        .collect();
    let ran = handles.into_iter().map(|handle| handle.join().unwrap());
    assert_eq!(ran.collect::<Vec<_>>(), [0, 1, 2]);
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().reserved, 0);
    end(&pool);
}

#[testkit::test]
fn a_permit_dropped_in_any_pool_admits_the_first_waiter() {
    for dropped in 0..2 {
        let pool = multi(2, 1);
        let mut permits: Vec<_> = (0..2).map(|_| pool.reserve().unwrap()).collect();
        let mut future = pool.reserve_async();
        assert!(poll(&mut future).is_pending());
        let behind = enter_lines(&pool, |pool| pool.spawn(here));
        drop(permits.remove(dropped));
        assert_eq!((pool.waiting(), pool.stats().reserved), (1, 2));
        let Poll::Ready(Ok(permit)) = poll(&mut future) else {
            panic!("it was admitted")
        };
        assert_eq!(permit.spawn(here).join().unwrap(), dropped);
        assert_eq!(behind.join().unwrap().unwrap().join().unwrap(), dropped);
        drop(permits);
        end(&pool);
    }
}

#[testkit::test]
fn dropping_a_reserve_future_in_any_state_leaves_every_wait_queue() {
    let pool = multi(2, 1);
    let nothing_is_left = |reserved: usize| {
        assert_eq!((pool.waiting(), pool.stats().reserved), (0, reserved));
        assert!((0..2).all(|index| pool.waiting_of(index) == Ok(0)));
    };
    drop(pool.reserve_async());
    let permits = [pool.reserve().unwrap(), pool.reserve().unwrap()];
    let mut waiting = pool.reserve_async();
    assert!(poll(&mut waiting).is_pending());
    assert_eq!(pool.waiting(), 1);
    drop(waiting);
    nothing_is_left(2);

    let mut panics = pool.reserve_async();
    let polled = catch_unwind(AssertUnwindSafe(|| {
        poll_with(&mut panics, &waker_whose_clone_panics())
    }));
    assert!(polled.is_err());
    drop(panics);
    nothing_is_left(2);

    let waker = CountingWaker::new();
    let mut served = pool.reserve_async();
    assert!(poll_with(&mut served, &waker.waker()).is_pending());
    drop(permits);
    waker.wait_for_wakes(1);
    assert_eq!(pool.stats().reserved, 1);
    drop(served);
    nothing_is_left(0);

    let mut ready = pool.reserve_async();
    assert!(poll(&mut ready).is_ready()); // The permit was dropped at once.
    nothing_is_left(0);
    end(&pool);
}

#[testkit::test]
fn a_waiting_reservation_gets_a_permit_of_the_first_pool_that_frees_room() {
    for frees in 0..2 {
        let pool = multi(2, 1);
        let gates = hold_all(&pool, 2);
        let waiter = enter_lines(&pool, MultiPool::reserve);
        gates[frees].open();
        let permit = waiter.join().unwrap().unwrap();
        assert_eq!(permit.spawn(here).join().unwrap(), frees);
        gates.iter().for_each(Gate::open);
        end(&pool);
    }
}

#[testkit::test]
fn a_release_of_all_pools_keeps_permits_valid_and_refuses_waiting_reservations() {
    let pool = multi(2, 1);
    let permits = [pool.reserve().unwrap(), pool.reserve().unwrap()];
    let waiter = enter_lines(&pool, MultiPool::reserve);
    let mut future = pool.reserve_async();
    assert!(poll(&mut future).is_pending());
    pool.release();
    assert!(waiter.join().unwrap().unwrap_err().is_released());
    let Poll::Ready(Err(refused)) = poll(&mut future) else {
        panic!("it was released")
    };
    assert!(refused.is_released());
    let waits = {
        let pool = pool.clone();
        thread::spawn(move || pool.wait_released())
    };
    let [used, unused] = permits;
    assert_eq!(used.spawn(|| 7).join().unwrap(), 7);
    drop(unused);
    waits.join().unwrap().unwrap();
}

#[testkit::test]
fn a_reservation_by_a_worker_of_any_full_pool_is_refused() {
    let pool = multi(2, 1);
    let permit = pool.reserve().unwrap();
    let inner = pool.clone();
    let refused = pool.spawn(move || inner.reserve().unwrap_err());
    let refused = refused.unwrap().join().unwrap();
    assert!(matches!(refused, SubmitError::Full(())), "{refused:?}");
    drop(permit);
    end(&pool);
}

#[testkit::test]
fn a_permit_keeps_all_pools_open() {
    let journal = Journal::new();
    let each = Pool::builder().capacity(1).drop_policy(DropPolicy::Join);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let weak = pool.downgrade();
    let mut future = pool.reserve_async();
    let permit = block_on(&mut future).unwrap();
    assert_eq!(pool.stats().reserved, 1);
    drop((future, pool));
    until(|| weak.upgrade().is_some_and(|pool| !pool.is_released()));
    permit.submit(journal.writer("ran"));
    assert!(weak.upgrade().is_none());
    assert_eq!(journal.entries(), ["ran"], "the drop waited for the end");
}
