//! Cancelling: the winner of races, and when memory is freed.

use pool_core::JoinError;
use scheduled_pool::{Missed, ScheduledHandle, Series};
use testkit::DropCounter;

use crate::support::{Gates, Rig, SECOND, every_second, hold, secs, until};

#[testkit::test]
fn a_cancelled_task_never_runs_and_is_freed_at_once() {
    let rig = Rig::new(1);
    let drops = DropCounter::new();
    let token = drops.token();
    let handle = rig
        .scheduled
        .spawn_after(SECOND, move || drop(token))
        .unwrap();
    assert!(handle.cancel());
    assert_eq!((drops.alive(), rig.scheduled.pending()), (0, 0));
    assert!(!handle.cancel(), "only once");
    assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    rig.clock.advance(secs(10));
    assert_eq!(rig.scheduled.stats().cancelled, 1);
    rig.end();
    assert_eq!(rig.pool.stats().submitted, 0);
}

#[testkit::test]
fn a_cancelled_waiting_task_leaves_the_wait_queue() {
    let rig = Rig::new(1);
    let gate = hold(&rig.pool, 1);
    let drops = DropCounter::new();
    let token = drops.token();
    let first = rig
        .scheduled
        .spawn_after(SECOND, move || drop(token))
        .unwrap();
    let second = rig.scheduled.spawn_after(SECOND, || 2).unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 2);
    assert!(first.cancel());
    assert_eq!((drops.alive(), rig.pool.waiting()), (0, 1));
    gate.open();
    assert_eq!(second.join().unwrap(), 2);
    assert!(matches!(first.join(), Err(JoinError::Cancelled)));
    rig.end();
    assert_eq!(
        rig.pool.stats().submitted,
        2,
        "the first was never accepted"
    );
}

#[testkit::test]
fn a_cancelled_queued_task_is_freed_at_once_and_not_run() {
    let clock = pool_core::ManualClock::new();
    let pool = crate::support::untimed(1, &clock)
        .queue_depth(1)
        .build()
        .unwrap();
    let rig = Rig::over(pool, clock);
    let gate = hold(&rig.pool, 1);
    let drops = DropCounter::new();
    let token = drops.token();
    let handle = rig
        .scheduled
        .spawn_after(SECOND, move || drop(token))
        .unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.queued() == 1);
    assert!(handle.cancel());
    assert_eq!((drops.alive(), rig.scheduled.stats().unended), (0, 0));
    gate.open();
    rig.end();
    assert_eq!(rig.pool.stats().cancelled, 1);
}

#[testkit::test]
fn a_started_scheduled_task_cannot_be_cancelled() {
    let rig = Rig::new(1);
    let gates = Gates::new(1);
    let task = gates.task(|| ());
    let handle = rig.scheduled.spawn_after(SECOND, task).unwrap();
    rig.clock.advance(SECOND);
    gates.reached(0);
    assert!(!handle.cancel());
    gates.open(0);
    until(|| handle.is_finished());
    assert!(!handle.cancel());
    handle.join().unwrap();
    rig.end();
}

#[testkit::test]
fn three_hundred_thousand_cancelled_schedules_use_no_memory_afterwards() {
    let rig = Rig::new(1);
    let drops = DropCounter::new();
    let third = 100_000;
    for round in 0..3 {
        let handles: Vec<_> = (0..third)
            .map(|number| {
                let token = drops.token();
                let delay = secs(600 + (number * 31) % 977);
                rig.scheduled
                    .spawn_after(delay, move || drop(token))
                    .unwrap()
            })
            .collect();
        assert_eq!(rig.scheduled.pending() as u64, third);
        assert!(handles.iter().all(ScheduledHandle::cancel));
        assert_eq!(drops.alive(), 0, "round {round}");
        assert_eq!(rig.scheduled.stats().unended, 0);
    }
    rig.end();
}

#[testkit::test]
fn a_pending_series_is_cancelled_at_once() {
    let rig = Rig::new(1);
    let drops = DropCounter::new();
    let token = drops.token();
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), move || _ = &token)
        .unwrap();
    rig.walk(3, || series.runs());
    assert!(series.cancel());
    assert_eq!((drops.alive(), rig.scheduled.stats().unended), (0, 0));
    assert!(!series.cancel());
    assert!(series.next_due().is_none());
    assert_eq!(series.runs(), 3);
    assert!(matches!(series.join(), Err(JoinError::Cancelled)));
    rig.clock.advance(secs(100));
    rig.end();
    assert_eq!(rig.pool.stats().submitted, 3);
}

#[testkit::test]
fn a_series_cancelled_while_it_runs_ends_with_that_run() {
    let rig = Rig::new(1);
    let (gates, drops) = (Gates::new(1), DropCounter::new());
    let token = drops.token();
    let task = gates.task(move || _ = &token);
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), task)
        .unwrap();
    rig.clock.advance(SECOND);
    gates.reached(0);
    assert!(series.cancel());
    assert!(!series.cancel(), "it was cancelled already");
    assert!(!series.is_finished());
    assert_eq!((drops.alive(), rig.scheduled.stats().unended), (1, 1));
    gates.open(0);
    assert!(matches!(series.join(), Err(JoinError::Cancelled)));
    assert_eq!(drops.alive(), 0);
    rig.clock.advance(secs(100));
    rig.end();
    assert_eq!(rig.scheduled.stats().runs, 1);
}

#[testkit::test]
fn a_series_cancelled_by_itself_ends_with_that_run() {
    let rig = Rig::new(1);
    let slot = std::sync::Arc::new(std::sync::Mutex::new(None::<scheduled_pool::SeriesHandle>));
    let own = std::sync::Arc::clone(&slot);
    let burst = every_second().missed(Missed::Burst);
    let series = rig
        .scheduled
        .spawn_series(SECOND, &burst, move || {
            if let Some(own) = &*own.lock().unwrap() {
                assert!(own.cancel());
            }
        })
        .unwrap();
    *slot.lock().unwrap() = Some(series);
    rig.clock.advance(secs(50));
    until(|| slot.lock().unwrap().as_ref().unwrap().is_finished());
    assert_eq!(rig.scheduled.stats().runs, 1);
    drop(slot.lock().unwrap().take());
    rig.end();
}

#[testkit::test]
fn cancelling_a_series_that_waits_for_room_removes_it_from_the_wait_queue() {
    let rig = Rig::new(1);
    let gate = hold(&rig.pool, 1);
    let rest = Series::with_fixed_delay(SECOND);
    let series = rig.scheduled.spawn_series(SECOND, &rest, || ()).unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 1);
    assert!(series.cancel());
    until(|| rig.pool.waiting() == 0); // The timer thread removes it if it has not recorded the entry yet.
    assert!(matches!(series.join(), Err(JoinError::Cancelled)));
    gate.open();
    rig.end();
}

#[testkit::test]
fn a_cancel_that_races_the_due_time_has_one_winner() {
    let rig = Rig::new(2);
    let drops = DropCounter::new();
    let mut ran = 0;
    for _ in 0..2000 {
        let token = drops.token();
        let handle = rig
            .scheduled
            .spawn_after(SECOND, move || drop(token))
            .unwrap();
        rig.clock.advance(SECOND);
        let cancelled = handle.cancel();
        match handle.join() {
            Ok(()) => {
                assert!(!cancelled);
                ran += 1;
            }
            Err(JoinError::Cancelled) => assert!(cancelled),
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(drops.alive(), 0);
    }
    rig.end();
    assert_eq!(rig.pool.stats().completed, ran);
}
