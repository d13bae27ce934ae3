//! Handles: joining, polling and dropping.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use pool_core::JoinError;
use scheduled_pool::{ScheduledHandle, ScheduledPool, SeriesHandle};
use testkit::{CountingWaker, DropCounter, block_on, waker_fn};

use crate::support::{Gates, Rig, SECOND, every_second, secs, until};

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn handles_are_send_sync_and_small() {
    fn goes<T: Send + Sync + Unpin + 'static>() {}
    goes::<ScheduledPool>();
    goes::<ScheduledHandle<std::cell::Cell<u8>>>();
    goes::<SeriesHandle>();
    goes::<scheduled_pool::WeakScheduledPool>();
}

#[testkit::test]
fn a_thread_that_joins_sleeps_until_the_task_has_ended() {
    let rig = Rig::new(1);
    let handle = rig.scheduled.spawn_after(SECOND, || 5).unwrap();
    let joiner = thread::spawn(move || handle.join().unwrap());
    rig.clock.advance(SECOND);
    assert_eq!(joiner.join().unwrap(), 5);
    rig.end();
}

#[testkit::test]
fn a_timed_join_returns_the_handle_and_can_be_repeated() {
    let rig = Rig::new(1);
    let handle = rig.scheduled.spawn_after(secs(5), || 5).unwrap();
    rig.sleeps_until(secs(5));
    let joiner = thread::spawn(move || handle.join_timeout(secs(2)));
    rig.sleeps_until(secs(2));
    rig.clock.advance(secs(2));
    let handle = joiner.join().unwrap().unwrap_err();
    let handle = handle.try_join().unwrap_err();
    let handle = handle.join_timeout(rig.start).unwrap_err();
    rig.clock.advance(secs(3));
    until(|| handle.is_finished());
    assert_eq!(handle.try_join().unwrap().unwrap(), 5);

    let series = rig
        .scheduled
        .spawn_at_fixed_rate(SECOND, SECOND, || ())
        .unwrap();
    let series = series.try_join().unwrap_err();
    let series = series.join_timeout(rig.start).unwrap_err();
    let joiner = thread::spawn(move || series.join_timeout(secs(0)));
    let series = joiner.join().unwrap().unwrap_err();
    series.cancel();
    assert!(matches!(series.try_join(), Ok(Err(JoinError::Cancelled))));
    rig.end();
}

#[testkit::test]
fn a_handle_is_a_future_on_any_runtime() {
    let rig = Rig::new(1);
    let handle = rig.scheduled.spawn_after(SECOND, || 5).unwrap();
    let clock = rig.clock.clone();
    let mover = thread::spawn(move || {
        clock.wait_for_sleepers(1);
        clock.advance(SECOND);
    });
    assert_eq!(futures_lite::future::block_on(handle).unwrap(), 5);
    mover.join().unwrap();
    let series = rig
        .scheduled
        .spawn_at_fixed_rate(SECOND, SECOND, || panic!("at once"))
        .unwrap();
    rig.clock.advance(SECOND);
    let ended = block_on(series);
    assert!(matches!(ended, Err(JoinError::Panicked(_))));
    rig.end();
}

#[testkit::test]
fn the_last_waker_is_called_once_and_earlier_ones_never() {
    let rig = Rig::new(1);
    let mut handle = rig.scheduled.spawn_after(SECOND, || 5).unwrap();
    let (stale, last) = (CountingWaker::new(), CountingWaker::new());
    assert!(poll(&mut handle, &stale.waker()).is_pending());
    assert!(poll(&mut handle, &last.waker()).is_pending());
    assert_eq!(stale.wakers(), 0, "it was dropped when it was replaced");
    rig.clock.advance(SECOND);
    last.wait_for_wakes(1);
    assert!(matches!(
        poll(&mut handle, Waker::noop()),
        Poll::Ready(Ok(5))
    ));
    let again = poll(&mut handle, Waker::noop());
    assert!(matches!(again, Poll::Ready(Err(JoinError::Taken))));
    assert_eq!((stale.wakes(), last.wakes()), (0, 1));
    until(|| last.wakers() == 0);
    rig.end();
}

#[testkit::test]
fn a_dropped_handle_detaches_and_the_value_is_dropped_on_the_worker() {
    let rig = Rig::new(1);
    let (drops, gates) = (DropCounter::new(), Gates::new(1));
    let (value, mut wait) = (drops.token(), gates.task(|| ()));
    let handle = rig.scheduled.spawn_after(SECOND, move || {
        wait();
        value
    });
    rig.clock.advance(SECOND);
    gates.reached(0);
    drop(handle);
    assert_eq!(drops.alive(), 1);
    gates.open(0);
    until(|| drops.alive() == 0);

    let value = drops.token();
    let handle = rig.scheduled.spawn_after(SECOND, move || value).unwrap();
    rig.clock.advance(SECOND);
    until(|| handle.is_finished());
    drop(handle);
    assert_eq!(drops.alive(), 0);
    rig.end();
}

#[testkit::test]
fn a_series_continues_without_its_handle() {
    let rig = Rig::new(1);
    let stamps = rig.stamps();
    let task = stamps.clone();
    drop(
        rig.scheduled
            .spawn_series(SECOND, &every_second(), move || task.stamp()),
    );
    rig.walk(4, || rig.scheduled.stats().runs);
    assert_eq!(stamps.seconds(), [1, 2, 3, 4]);
    rig.end();
}

#[testkit::test]
fn a_worker_may_not_join_an_unstarted_schedule() {
    let rig = Rig::new(1);
    let scheduled = rig.scheduled.downgrade();
    let task = rig.pool.spawn(move || {
        let scheduled = scheduled.upgrade().unwrap();
        let late = scheduled.spawn_after(SECOND, || 5).unwrap();
        let late = late.join_timeout(SECOND).unwrap();
        let series = scheduled.spawn_at_fixed_rate(SECOND, SECOND, || ());
        let series = series.unwrap().join();
        let ends = [
            scheduled.wait_released(),
            block_on(scheduled.wait_released_async()),
        ];
        (late, series, ends)
    });
    let (late, series, ends) = task.unwrap().join().unwrap();
    assert!(matches!(late, Err(JoinError::WouldDeadlock)));
    assert!(matches!(series, Err(JoinError::WouldDeadlock)));
    assert_eq!(ends, [Err(pool_core::WaitError::WouldDeadlock); 2]);
    // Both schedules continue.
    assert_eq!(rig.scheduled.pending(), 2);
    rig.clock.advance(SECOND);
    until(|| rig.scheduled.stats().runs >= 2);
    rig.end();
}

#[testkit::test]
fn a_worker_may_wait_for_a_task_on_another_worker() {
    let rig = Rig::new(2);
    let gates = Gates::new(1);
    let mut wait = gates.task(|| ());
    let handle = rig
        .scheduled
        .spawn_after(SECOND, move || {
            wait();
            5
        })
        .unwrap();
    rig.clock.advance(SECOND);
    gates.reached(0);
    let joiner = rig.pool.spawn(move || handle.join().unwrap()).unwrap();
    gates.open(0);
    assert_eq!(joiner.join().unwrap(), 5);
    rig.end();
}

#[testkit::test]
fn a_schedule_of_a_worker_may_be_awaited_by_another_thread_only() {
    let rig = Rig::new(1);
    let scheduled = rig.scheduled.clone();
    let slot = Arc::new(Mutex::new(None));
    let later = Arc::clone(&slot);
    let task = rig.pool.spawn(move || {
        let refused = block_on(scheduled.spawn_after(SECOND, || ()).unwrap());
        assert!(matches!(refused, Err(JoinError::WouldDeadlock)));
        let late = scheduled.spawn_after(SECOND, || 5).unwrap();
        *later.lock().unwrap() = Some(late);
    });
    task.unwrap().join().unwrap();
    rig.clock.advance(SECOND);
    let late = slot.lock().unwrap().take().unwrap();
    assert_eq!(block_on(late).unwrap(), 5);
    rig.end();
}

#[testkit::test]
fn debug_output_shows_pending_schedules_and_runs() {
    let rig = Rig::new(1);
    let handle = rig.scheduled.spawn_after(SECOND, || 5).unwrap();
    let series = rig
        .scheduled
        .spawn_at_fixed_rate(SECOND, SECOND, || ())
        .unwrap();
    let text = format!("{:?} {handle:?} {series:?}", rig.scheduled);
    for (part, times) in [
        ("ScheduledPool", 1),
        ("pending: 2", 1),
        ("ScheduledHandle", 2),
        ("runs: 0", 3), // The pool prints this field too.
    ] {
        assert_eq!(text.matches(part).count(), times, "{part}: {text}");
    }
    assert!(handle.cancel());
    rig.end();
}

/// Runs a closure when the last clone of a waker is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[testkit::test]
fn a_join_is_woken_although_the_drop_of_a_stale_waker_waits() {
    let rig = Rig::new(1);
    let mut handle = rig.scheduled.spawn_after(SECOND, || 5).unwrap();
    let (clock, scheduled) = (rig.clock.clone(), rig.scheduled.clone());
    let waits = OnDrop(move || {
        // The join is no longer parked. Its task ends, which unparks this thread, before the only
        // worker runs the task that is joined here.
        clock.advance(SECOND);
        let inner = scheduled.spawn_after(Duration::ZERO, || 6).unwrap();
        assert_eq!(inner.join().unwrap(), 6);
    });
    let waker = waker_fn(move || _ = &waits);
    assert!(poll(&mut handle, &waker).is_pending());
    drop(waker);
    assert_eq!(handle.join().unwrap(), 5);
    rig.end();
}

#[testkit::test]
fn a_panic_in_the_drop_of_a_stale_waker_leaves_the_join_and_the_task_runs() {
    let rig = Rig::new(1);
    let runs = Arc::new(Mutex::new(0));
    let inner = Arc::clone(&runs);
    let count = move || *inner.lock().unwrap() += 1;
    let mut handle = rig.scheduled.spawn_after(SECOND, count).unwrap();
    let bomb = OnDrop(|| panic!("a waker's own affair"));
    let waker = waker_fn(move || _ = &bomb);
    assert!(poll(&mut handle, &waker).is_pending());
    drop(waker);
    let joined = thread::spawn(move || handle.join()).join();
    assert!(joined.is_err(), "its own panic");
    rig.clock.advance(SECOND);
    until(|| rig.scheduled.stats().ended == 1);
    assert_eq!(*runs.lock().unwrap(), 1);
    rig.end();
}
