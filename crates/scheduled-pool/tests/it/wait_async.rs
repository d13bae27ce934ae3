//! Async waits for the end of a scheduled pool.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pool_core::WaitError;
use testkit::{CountingWaker, block_on};

use crate::support::{Rig, SECOND, secs};

fn poll<F: Future>(future: std::pin::Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

#[testkit::test]
fn release_async_is_ready_once_every_schedule_and_the_pool_have_ended() {
    let rig = Rig::new(1);
    let last = rig.scheduled.spawn_after(secs(5), || 7).unwrap();
    let mut waits = pin!(rig.scheduled.wait_released_async());
    let mut releases = pin!(rig.scheduled.release_async());
    assert!(!rig.scheduled.is_released(), "not before the first poll");
    assert!(poll(releases.as_mut(), Waker::noop()).is_pending());
    assert!(poll(waits.as_mut(), Waker::noop()).is_pending());
    assert!(rig.scheduled.is_released() && !rig.pool.is_released());
    rig.sleeps_until(secs(5));
    rig.clock.advance(secs(5));
    assert_eq!((block_on(releases), block_on(waits)), (Ok(()), Ok(())));
    assert_eq!(last.join().unwrap(), 7);
    assert!(rig.pool.is_released());
    assert_eq!((rig.pool.running(), rig.scheduled.pending()), (0, 0));
    rig.scheduled.wait_released().unwrap();
}

#[testkit::test]
fn release_async_ends_at_its_deadline_while_a_schedule_is_pending() {
    let rig = Rig::new(1);
    let later = rig.scheduled.spawn_after(secs(5), || ()).unwrap();
    let waker = CountingWaker::new();
    let mut future = pin!(rig.scheduled.release_timeout_async(SECOND));
    assert!(poll(future.as_mut(), &waker.waker()).is_pending());
    rig.clock.advance(SECOND);
    waker.wait_for_wakes(1);
    let late = Poll::Ready(Err(WaitError::TimedOut));
    assert_eq!(poll(future.as_mut(), &waker.waker()), late);
    assert!(later.cancel());
    assert_eq!(block_on(rig.scheduled.wait_released_async()), Ok(()));
}

#[testkit::test]
fn a_dropped_wait_released_async_steals_no_wake_up() {
    let rig = Rig::new(1);
    let last = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    let kept = CountingWaker::new();
    let mut waits = pin!(rig.scheduled.wait_released_async());
    assert!(poll(waits.as_mut(), &kept.waker()).is_pending());
    for _ in 0..10 {
        let mut dropped = pin!(rig.scheduled.wait_released_async());
        assert!(poll(dropped.as_mut(), Waker::noop()).is_pending());
    }
    assert!(last.cancel());
    rig.scheduled.release();
    kept.wait_for_wakes(1);
    assert_eq!(block_on(waits), Ok(()));
}
