//! Lifetimes: clones, weak handles, and drops of scheduled pools.

use std::sync::{Arc, Mutex};

use pool_core::{DropPolicy, JoinError, ManualClock, Pool};
use scheduled_pool::{ScheduledHandle, ScheduledPool};
use testkit::DropCounter;

use crate::support::{Rig, SECOND, every_second, hold, secs, until, untimed};

/// A scheduled pool that owns the only handle of its pool.
fn sole(policy: DropPolicy) -> (ManualClock, ScheduledPool, pool_core::WeakPool) {
    let clock = ManualClock::new();
    let pool = untimed(1, &clock).drop_policy(policy).build().unwrap();
    let weak = pool.downgrade();
    (clock, ScheduledPool::new(pool), weak)
}

#[testkit::test]
fn clones_share_one_scheduled_pool() {
    let rig = Rig::new(1);
    let clone = rig.scheduled.clone();
    let handle = clone.spawn_after(SECOND, || ()).unwrap();
    assert_eq!(rig.scheduled.pending(), 1);
    drop(clone);
    rig.clock.advance(SECOND);
    handle.join().unwrap();
    rig.end();
}

#[testkit::test]
fn pending_tasks_still_run_after_the_last_handle_is_dropped() {
    for policy in [DropPolicy::Drain, DropPolicy::Join, DropPolicy::Discard] {
        let (clock, scheduled, pool) = sole(policy);
        let handles: Vec<_> = (1..=3)
            .map(|after| scheduled.spawn_after(secs(after), move || after).unwrap())
            .collect();
        drop(scheduled);
        for (handle, after) in handles.into_iter().zip(1..) {
            assert!(pool.upgrade().is_some());
            clock.advance(SECOND);
            assert_eq!(handle.join().unwrap(), after);
        }
        // The worker that ran the last task dropped the pool's last handle.
        until(|| pool.upgrade().is_none());
    }
}

#[testkit::test]
fn the_drop_of_the_last_handle_ends_series_and_keeps_a_shared_pool_open() {
    let rig = Rig::new(1);
    let drops = DropCounter::new();
    let token = drops.token();
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), move || _ = &token)
        .unwrap();
    let Rig {
        scheduled, pool, ..
    } = rig;
    drop(scheduled);
    assert_eq!(drops.alive(), 0);
    assert!(matches!(series.join(), Err(JoinError::Released)));
    assert!(!pool.is_released());
    assert_eq!(pool.spawn(|| 5).unwrap().join().unwrap(), 5);
    pool.release();
    pool.wait_released().unwrap();
}

#[testkit::test]
fn dropping_an_unused_scheduled_pool_drops_its_handle_of_the_pool() {
    let (_, scheduled, pool) = sole(DropPolicy::Drain);
    drop(scheduled);
    assert!(pool.upgrade().is_none());
}

#[testkit::test]
fn handles_outlive_the_scheduled_pool() {
    let (_, scheduled, _) = sole(DropPolicy::Drain);
    let never = scheduled
        .spawn_after(std::time::Duration::MAX, || ())
        .unwrap();
    let soon = scheduled.spawn_after(SECOND, || ()).unwrap();
    drop(scheduled);
    assert!(matches!(never.join(), Err(JoinError::Released)));
    assert!(soon.cancel());
    assert!(matches!(soon.join(), Err(JoinError::Cancelled)));
}

#[testkit::test]
fn a_cancel_of_the_last_schedule_after_the_last_drop_releases_the_pool() {
    let (_, scheduled, pool) = sole(DropPolicy::Drain);
    let handle = scheduled.spawn_after(SECOND, || ()).unwrap();
    drop(scheduled);
    assert!(pool.upgrade().is_some());
    handle.cancel();
    assert!(pool.upgrade().is_none());
}

#[testkit::test]
fn a_weak_handle_does_not_keep_the_pool_open() {
    let (clock, scheduled, pool) = sole(DropPolicy::Drain);
    let weak = scheduled.downgrade();
    let handle = weak
        .upgrade()
        .unwrap()
        .spawn_after(SECOND, {
            let weak = weak.clone();
            move || weak.upgrade().is_none()
        })
        .unwrap();
    drop(scheduled);
    assert!(weak.upgrade().is_none());
    clock.advance(SECOND);
    assert!(handle.join().unwrap());
    until(|| pool.upgrade().is_none());
}

#[testkit::test]
fn a_task_that_reschedules_itself_through_a_weak_handle_keeps_nothing_alive() {
    fn again(weak: &scheduled_pool::WeakScheduledPool, runs: &Arc<Mutex<u32>>) {
        let Some(scheduled) = weak.upgrade() else {
            return;
        };
        let (weak, runs) = (weak.clone(), Arc::clone(runs));
        let next = scheduled.spawn_after(SECOND, move || {
            *runs.lock().unwrap() += 1;
            again(&weak, &runs);
        });
        drop(next);
    }
    let (clock, scheduled, pool) = sole(DropPolicy::Drain);
    let runs = Arc::new(Mutex::new(0));
    again(&scheduled.downgrade(), &runs);
    for run in 1..=5 {
        until(|| scheduled.pending() == 1);
        clock.advance(SECOND);
        until(|| *runs.lock().unwrap() == run);
    }
    until(|| scheduled.pending() == 1);
    drop(scheduled);
    clock.advance(SECOND); // The last advance, at which no thread sleeps.
    until(|| pool.upgrade().is_none());
    assert_eq!(*runs.lock().unwrap(), 6);
}

#[testkit::test]
fn the_last_handle_may_be_dropped_by_a_task_of_its_own() {
    for policy in [DropPolicy::Drain, DropPolicy::Join, DropPolicy::Discard] {
        let (clock, scheduled, pool) = sole(policy);
        let slot = Arc::new(Mutex::new(None));
        let own = Arc::clone(&slot);
        let handle: ScheduledHandle<_> = scheduled
            .spawn_after(SECOND, move || drop(own.lock().unwrap().take()))
            .unwrap();
        *slot.lock().unwrap() = Some(scheduled);
        clock.advance(SECOND);
        handle.join().unwrap();
        until(|| pool.upgrade().is_none());
    }
}

#[testkit::test]
fn a_release_frees_a_task_that_owns_its_scheduled_pool() {
    let (_, scheduled, pool) = sole(DropPolicy::Drain);
    let inside = scheduled.clone();
    let series = scheduled.spawn_series(SECOND, &every_second(), move || _ = &inside);
    scheduled.release();
    drop((series, scheduled));
    until(|| pool.upgrade().is_none());
}

#[testkit::test]
fn the_end_frees_all_memory() {
    let drops = DropCounter::new();
    let clock = ManualClock::new();
    let token = drops.token();
    // Dropped together with the core of the pool.
    let hook = move |_: &pool_core::TaskPanic<'_>| _ = &token;
    let pool: Pool = untimed(1, &clock).panic_hook(hook).build().unwrap();
    let scheduled = ScheduledPool::new(pool);
    let gate = hold(scheduled.pool(), 1);
    let handles: Vec<_> = (1..5)
        .map(|after| scheduled.spawn_after(secs(after), || ()).unwrap())
        .collect();
    let series = scheduled.spawn_series(SECOND, &every_second(), || ());
    clock.advance(secs(2));
    until(|| scheduled.pool().waiting() == 3);
    scheduled.release_now();
    gate.open();
    scheduled.wait_released().unwrap();
    drop((handles, series));
    drop(scheduled);
    until(|| drops.alive() == 0);
}
