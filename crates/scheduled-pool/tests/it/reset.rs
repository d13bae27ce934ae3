//! Resetting pending runs.

use std::time::Duration;

use pool_core::JoinError;
use scheduled_pool::{ResetError, ScheduledPool};

use crate::support::{BUT_A_TICK, Gates, Rig, SECOND, TICK, every_second, hold, secs, until};

#[testkit::test]
fn a_reset_task_runs_at_its_new_time_only() {
    let rig = Rig::new(1);
    let stamps = rig.stamps();
    let task = |stamps: &crate::support::Stamps| {
        let stamps = stamps.clone();
        move || stamps.stamp()
    };
    let later = rig.scheduled.spawn_after(secs(2), task(&stamps)).unwrap();
    let earlier = rig.scheduled.spawn_after(secs(9), task(&stamps)).unwrap();
    rig.clock.advance(SECOND);
    assert_eq!(later.reset_after(secs(4)), Ok(()));
    assert_eq!(earlier.reset_at(rig.start + secs(3)), Ok(()));
    assert_eq!(later.next_due(), Some(rig.start + secs(5)));
    assert_eq!(earlier.next_due(), Some(rig.start + secs(3)));
    rig.clock.advance(secs(2));
    earlier.join().unwrap();
    rig.clock.advance(SECOND + BUT_A_TICK);
    rig.sleeps_until(secs(5));
    assert!(!later.is_finished());
    rig.clock.advance(TICK);
    later.join().unwrap();
    assert_eq!(stamps.seconds(), [3, 5]);
    assert_eq!(rig.scheduled.stats().max_lateness, Duration::ZERO);
    rig.end();
}

#[testkit::test]
fn a_due_or_running_task_cannot_be_reset() {
    let rig = Rig::new(1);
    let held = hold(&rig.pool, 1);
    let gates = Gates::new(1);
    let run = gates.task(|| ());
    let task = rig.scheduled.spawn_after(Duration::ZERO, run).unwrap();
    until(|| rig.pool.waiting() == 1);
    assert_eq!(task.reset_after(SECOND), Err(ResetError::Due));
    held.open();
    gates.reached(0);
    assert_eq!(task.reset_after(SECOND), Err(ResetError::Due));
    gates.open(0);
    task.join().unwrap();
    rig.end();
}

#[testkit::test]
fn an_ended_schedule_cannot_be_reset() {
    let rig = Rig::new(1);
    let done = rig.scheduled.spawn_after(Duration::ZERO, || ()).unwrap();
    until(|| done.is_finished());
    assert_eq!(done.reset_after(SECOND), Err(ResetError::Ended));
    let cancelled = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(cancelled.reset_after(SECOND), Err(ResetError::Ended));
    rig.end();
}

/// A reset would keep the pool open longer, perhaps forever.
#[testkit::test]
fn schedules_that_outlive_a_release_cannot_be_reset() {
    let rig = Rig::new(1);
    let pending = rig.scheduled.spawn_after(SECOND, || 7).unwrap();
    rig.scheduled.release();
    assert_eq!(
        pending.reset_after(Duration::MAX),
        Err(ResetError::Released)
    );
    assert_eq!(
        pending.reset_after(Duration::ZERO),
        Err(ResetError::Released)
    );
    rig.clock.advance(SECOND);
    assert_eq!(pending.join().unwrap(), 7);
    rig.end();
}

#[testkit::test]
fn a_task_can_be_reset_to_never_and_back() {
    let rig = Rig::new(1);
    let task = rig.scheduled.spawn_after(Duration::MAX, || 7).unwrap();
    assert_eq!(task.next_due(), None);
    assert_eq!(task.reset_after(SECOND), Ok(()));
    rig.sleeps_until(SECOND);
    assert_eq!(task.reset_after(Duration::MAX), Ok(()));
    rig.clock.advance(secs(100));
    assert_eq!((task.next_due(), task.is_finished()), (None, false));
    assert_eq!(
        task.reset_at(rig.start),
        Ok(()),
        "a time that has passed is now"
    );
    assert_eq!(task.join().unwrap(), 7);
    rig.end();
}

#[testkit::test]
fn a_reset_series_counts_its_ticks_from_the_new_time() {
    let rig = Rig::new(1);
    let stamps = rig.stamps();
    let task = stamps.clone();
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), move || task.stamp())
        .unwrap();
    rig.walk(2, || series.runs());
    assert_eq!(series.reset_after(secs(5)), Ok(()));
    assert_eq!(series.next_due(), Some(rig.start + secs(7)));
    rig.clock.advance(secs(4));
    assert_eq!(series.runs(), 2);
    rig.walk(3, || series.runs());
    assert_eq!(stamps.seconds(), [1, 2, 7, 8, 9]);
    assert_eq!(series.missed(), 0);
    assert!(series.cancel());
    assert_eq!(series.reset_after(SECOND), Err(ResetError::Ended));
    rig.end();
}

#[testkit::test]
fn a_running_series_cannot_be_reset() {
    let rig = Rig::new(1);
    let gates = Gates::new(1);
    let series = rig
        .scheduled
        .spawn_series(Duration::ZERO, &every_second(), gates.task(|| ()))
        .unwrap();
    gates.reached(0);
    assert_eq!(series.reset_after(secs(9)), Err(ResetError::Due));
    gates.open(0);
    until(|| series.runs() == 1);
    assert_eq!(series.next_due(), Some(rig.start + SECOND));
    series.cancel();
    rig.end();
}

#[testkit::test]
fn schedules_of_a_pool_released_elsewhere_cannot_be_reset() {
    let rig = Rig::new(1);
    let task = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    rig.pool.release();
    assert_eq!(task.reset_after(SECOND), Err(ResetError::Ended));
    assert!(matches!(task.join(), Err(JoinError::Released)));
    rig.end();
}

/// The main use of resets: an idle timeout of a connection, which every message postpones.
#[testkit::test]
fn a_timeout_postponed_repeatedly_costs_one_schedule() {
    let rig = Rig::new(1);
    let scheduled: &ScheduledPool = &rig.scheduled;
    let idle = scheduled.spawn_after(secs(3), || "hang up").unwrap();
    for _ in 0..50 {
        rig.clock.advance(secs(2));
        idle.reset_after(secs(3)).unwrap();
    }
    assert_eq!((scheduled.stats().scheduled, scheduled.pending()), (1, 1));
    rig.clock.advance(secs(3));
    assert_eq!(idle.join().unwrap(), "hang up");
    rig.end();
}
