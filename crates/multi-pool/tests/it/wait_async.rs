//! Async waits for idleness and for the end of all pools.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use multi_pool::MultiBuilder;
use pool_core::{Clock, ManualClock, Pool, WaitError};
use testkit::{CountingWaker, Gate, block_on};

use crate::support::{end, hold_all, multi, poll};

const SECOND: Duration = Duration::from_secs(1);

#[testkit::test]
fn wait_idle_async_is_ready_once_every_pool_is_idle() {
    let pool = multi(3, 1);
    assert_eq!(block_on(pool.wait_idle_async()), Ok(()));
    let gates = hold_all(&pool, 3);
    let mut future = pin!(pool.wait_idle_async());
    assert!(poll(&mut future).is_pending());
    gates[..2].iter().for_each(Gate::open);
    assert!(poll(&mut future).is_pending(), "one is held");
    gates[2].open();
    assert_eq!(block_on(future), Ok(()));
    assert_eq!(pool.in_flight(), 0);
    end(&pool);
}

#[testkit::test]
fn release_async_ends_all_pools() {
    let pool = multi(3, 1);
    let gates = hold_all(&pool, 2);
    let mut future = pin!(pool.release_async());
    assert!(!pool.is_released());
    assert!(poll(&mut future).is_pending());
    assert!(pool.is_released());
    gates.iter().for_each(Gate::open);
    assert_eq!(block_on(future), Ok(()));
    assert_eq!(pool.running(), 0);
    assert_eq!(block_on(pool.wait_released_async()), Ok(()));
}

#[testkit::test]
fn release_async_reports_the_pools_that_timed_out_or_were_rebooted() {
    let clock = ManualClock::new();
    let each = Pool::builder().capacity(1).keep_alive(None);
    let each = each.clock(clock.clone());
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let gates = hold_all(&pool, 2);
    let waker = CountingWaker::new();
    let mut future = pin!(pool.release_timeout_async(clock.now() + SECOND));
    assert!(crate::support::poll_with(&mut future, &waker.waker()).is_pending());
    gates[0].open();
    waker.wait_for_wakes(1); // The first pool has ended.
    assert!(crate::support::poll_with(&mut future, &waker.waker()).is_pending());
    clock.advance(SECOND);
    waker.wait_for_wakes(2);
    let Poll::Ready(Err(late)) = poll(&mut future) else {
        panic!("the time is up")
    };
    assert_eq!(late.pools(), [(1, WaitError::TimedOut)]);

    let mut future = pin!(pool.wait_released_async());
    assert!(poll(&mut future).is_pending());
    pool.reboot();
    let Poll::Ready(Err(rebooted)) = poll(&mut future) else {
        panic!("it was rebooted")
    };
    assert!(rebooted.pools().contains(&(1, WaitError::Rebooted)));
    gates[1].open();
    end(&pool);
}
