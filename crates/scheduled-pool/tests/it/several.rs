//! Scheduled pools over a multi-pool.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt};
use pool_core::{JoinError, ManualClock, WaitError};
use scheduled_pool::{ScheduledHandle, ScheduledPool, WeakScheduledPool};
use testkit::{Gate, block_on};

use crate::support::{SECOND, every_second, secs, until, untimed};

/// A scheduled pool over two pools of one worker each.
fn two() -> (ScheduledPool<MultiPool>, ManualClock) {
    let clock = ManualClock::new();
    let pools = MultiBuilder::new(untimed(1, &clock)).pools(2).build();
    (ScheduledPool::new(pools.unwrap()), clock)
}

/// Holds a worker until the gate is opened.
fn hold(pools: &MultiPool) -> Gate {
    let gate = Gate::new();
    let held = gate.clone();
    pools.submit(move || held.wait()).unwrap();
    gate.wait_for_arrivals(1);
    gate
}

#[testkit::test]
fn a_due_task_goes_to_the_pool_with_a_free_worker() {
    let (scheduled, _clock) = two();
    let held = hold(scheduled.pool());
    for number in 0..6 {
        // In the other pool, the task would wait for the gate.
        let task = scheduled
            .spawn_after(Duration::ZERO, move || number)
            .unwrap();
        assert_eq!(task.join().unwrap(), number);
    }
    held.open();
    scheduled.release();
    scheduled.wait_released().unwrap();
}

#[testkit::test]
fn a_due_task_that_finds_all_pools_full_waits_for_room() {
    let (scheduled, clock) = two();
    let (first, second) = (hold(scheduled.pool()), hold(scheduled.pool()));
    let tasks = [1, 2].map(|number| scheduled.spawn_after(SECOND, move || number).unwrap());
    let waiting = || {
        (0..2)
            .map(|index| scheduled.pool().waiting_of(index).unwrap())
            .sum()
    };
    clock.advance(SECOND);
    until(|| -> bool { 2_usize == waiting() });
    first.open();
    second.open();
    for (task, number) in tasks.into_iter().zip(1..) {
        assert_eq!(task.join().unwrap(), number);
    }
    scheduled.release();
    scheduled.wait_released().unwrap();
    assert!(scheduled.pool().is_released());
}

#[testkit::test]
fn a_series_runs_on_all_pools_and_ends_with_the_release() {
    let (scheduled, clock) = two();
    let series = scheduled
        .spawn_series(SECOND, &every_second(), || ())
        .unwrap();
    for run in 0..5 {
        clock.advance(SECOND);
        until(|| series.runs() > run);
    }
    assert!((0..2).all(|index| scheduled.pool().running_of(index) == Ok(1)));
    scheduled.release();
    assert!(matches!(series.join(), Err(JoinError::Released)));
    scheduled.wait_released().unwrap();
}

#[testkit::test]
fn pools_released_elsewhere_end_pending_and_waiting_schedules() {
    let (scheduled, clock) = two();
    let gates = [hold(scheduled.pool()), hold(scheduled.pool())];
    let due = [(); 2].map(|()| scheduled.spawn_after(SECOND, || ()).unwrap());
    let pending = scheduled.spawn_after(secs(9), || ()).unwrap();
    clock.advance(SECOND);
    until(|| scheduled.pending() == 1);
    scheduled.pool().release();
    assert!(matches!(pending.join(), Err(JoinError::Released)));
    for task in due {
        assert!(matches!(task.join(), Err(JoinError::Released)));
    }
    assert!(scheduled.is_released());
    gates.iter().for_each(Gate::open);
    scheduled.wait_released().unwrap();
}

#[testkit::test]
fn release_now_counts_schedules_and_the_pools_own_tasks() {
    let clock = ManualClock::new();
    let pools = MultiBuilder::new(untimed(1, &clock).queue_depth(4)).pools(2);
    let scheduled = ScheduledPool::new(pools.build().unwrap());
    let gates = [hold(scheduled.pool()), hold(scheduled.pool())];
    let captured = Arc::new(());
    for _ in 0..3 {
        let captured = Arc::clone(&captured);
        drop(
            scheduled
                .spawn_after(SECOND, move || drop(captured))
                .unwrap(),
        );
        scheduled.pool().submit(|| ()).unwrap();
    }
    assert_eq!(scheduled.release_now().len(), 6);
    assert_eq!(Arc::strong_count(&captured), 1);
    gates.iter().for_each(Gate::open);
    scheduled.wait_released().unwrap();
}

#[testkit::test]
fn workers_of_each_pool_are_refused_a_wait_for_the_end_and_a_join_of_unstarted_tasks() {
    let (scheduled, _clock) = two();
    for _ in 0..2 {
        let weak: WeakScheduledPool<MultiPool> = scheduled.downgrade();
        let pool = scheduled.pool().clone();
        let asked = pool.spawn(move || {
            let scheduled = weak.upgrade().unwrap();
            let task = scheduled.spawn_after(SECOND, || ()).unwrap();
            let joined = task.join();
            (
                [
                    scheduled.wait_released(),
                    block_on(scheduled.wait_released_async()),
                    block_on(scheduled.wait_idle_async()),
                ],
                matches!(joined, Err(JoinError::WouldDeadlock)),
            )
        });
        let answers = asked.unwrap().join().unwrap();
        assert_eq!(answers, ([Err(WaitError::WouldDeadlock); 3], true));
    }
    let weak = scheduled.downgrade();
    let asked = scheduled.pool().spawn(move || {
        let scheduled = weak.upgrade().unwrap();
        [
            block_on(scheduled.release_timeout_async(SECOND)),
            block_on(scheduled.release_async()),
        ]
    });
    let answers = asked.unwrap().join().unwrap();
    assert_eq!(answers, [Err(WaitError::WouldDeadlock); 2]);
    scheduled.release_now();
    scheduled.wait_released().unwrap();
}

#[testkit::test]
fn dropping_the_last_handle_leaves_the_pools_open() {
    let (scheduled, _clock) = two();
    let weak = scheduled.downgrade();
    let pools = scheduled.pool().clone();
    let pending = scheduled.spawn_after(Duration::MAX, || ()).unwrap();
    drop(scheduled);
    assert!(weak.upgrade().is_none());
    assert!(matches!(pending.join(), Err(JoinError::Released)));
    assert!(!pools.is_released());
    assert_eq!(pools.spawn(|| 7).unwrap().join().unwrap(), 7);
}

#[testkit::test]
fn wait_idle_waits_for_all_pools_and_release_now_returns_the_schedules() {
    let (scheduled, clock) = two();
    let gates = [hold(scheduled.pool()), hold(scheduled.pool())];
    let due = [(); 2].map(|()| scheduled.spawn_after(secs(0), || ()).unwrap());
    until(|| scheduled.pending() == 0);
    let late = scheduled.wait_idle_timeout(Duration::ZERO);
    assert_eq!(late, Err(WaitError::TimedOut));
    let waits = {
        let scheduled = scheduled.clone();
        thread::spawn(move || scheduled.wait_idle())
    };
    gates.iter().for_each(Gate::open);
    assert_eq!(waits.join().unwrap(), Ok(()));
    assert!(due.iter().all(ScheduledHandle::is_finished));
    assert_eq!(testkit::block_on(scheduled.wait_idle_async()), Ok(()));

    let later = scheduled.spawn_after(SECOND, || ()).unwrap();
    assert_eq!(scheduled.release_now().len(), 1);
    assert!(later.is_finished() && scheduled.pool().is_released());
    clock.advance(SECOND);
    scheduled.wait_released().unwrap();
}
