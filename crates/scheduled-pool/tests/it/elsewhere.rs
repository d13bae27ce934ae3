//! Release, reboot and drop of the underlying pool by other handles.

use pool_core::{JoinError, ManualClock, WaitError};
use scheduled_pool::{ScheduledPool, Series};
use testkit::DropCounter;

use crate::support::{Gates, Rig, SECOND, every_second, hold, secs, until, untimed};

#[testkit::test]
fn a_pool_released_elsewhere_ends_pending_schedules_at_once() {
    let rig = Rig::new(1);
    let drops = DropCounter::new();
    let (one, other) = (drops.token(), drops.token());
    let task = rig
        .scheduled
        .spawn_after(SECOND, move || drop(one))
        .unwrap();
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), move || _ = &other)
        .unwrap();
    assert!(rig.pool.release());
    assert_eq!(drops.alive(), 0, "dropped by the releasing thread");
    assert!(matches!(task.try_join(), Ok(Err(JoinError::Released))));
    assert!(matches!(series.try_join(), Ok(Err(JoinError::Released))));
    assert!(rig.scheduled.is_released());
    let refused = rig.scheduled.spawn_after(SECOND, || ());
    assert!(refused.unwrap_err().is_released());
    rig.scheduled.wait_released().unwrap();
    assert!(!rig.scheduled.release());
    rig.end();
}

#[testkit::test]
fn a_pool_released_elsewhere_ends_waiting_schedules_and_runs_accepted_ones() {
    let clock = ManualClock::new();
    let pool = untimed(1, &clock).queue_depth(1).build().unwrap();
    let rig = Rig::over(pool, clock);
    let gate = hold(&rig.pool, 1);
    let accepted = rig.scheduled.spawn_after(secs(1), || 1).unwrap();
    let in_line = rig.scheduled.spawn_after(secs(2), || 2).unwrap();
    rig.clock.advance(secs(1));
    until(|| rig.pool.queued() == 1);
    rig.clock.advance(secs(1));
    until(|| rig.pool.waiting() == 1);
    // Once the marker has run, the timer has recorded the place of the earlier task.
    let marker = rig.scheduled.spawn_after(secs(0), || 3).unwrap();
    until(|| rig.pool.waiting() == 2);
    rig.pool.release();
    assert!(matches!(in_line.try_join(), Ok(Err(JoinError::Released))));
    gate.open();
    assert_eq!(accepted.join().unwrap(), 1);
    assert!(matches!(marker.join(), Err(JoinError::Released)));
    rig.scheduled.wait_released().unwrap();
    rig.end();
}

#[testkit::test]
fn a_task_that_found_room_before_the_release_elsewhere_runs() {
    let clock = ManualClock::new();
    let pool = untimed(1, &clock).build().unwrap();
    let rig = Rig::over(pool, clock);
    let (first, second) = (hold(&rig.pool, 1), Gates::new(1));
    let wait = second.task(|| ());
    let in_line = rig.scheduled.spawn_after(SECOND, wait).unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 1);
    first.open();
    second.reached(0);
    rig.pool.release();
    assert!(!in_line.is_finished());
    second.open(0);
    in_line.join().unwrap();
    rig.scheduled.wait_released().unwrap();
    rig.end();
}

#[testkit::test]
fn a_pool_released_elsewhere_ends_a_running_series_after_its_run() {
    for series in [every_second(), Series::with_fixed_delay(SECOND)] {
        let clock = ManualClock::new();
        let pool = untimed(1, &clock).build().unwrap();
        let builder = ScheduledPool::builder(pool).continue_series(true);
        let rig = Rig::of(builder.build().unwrap(), clock);
        let gates = Gates::new(1);
        let handle = rig
            .scheduled
            .spawn_series(SECOND, &series, gates.task(|| ()))
            .unwrap();
        rig.clock.advance(SECOND);
        gates.reached(0);
        rig.pool.release();
        gates.open(0);
        assert!(matches!(handle.join(), Err(JoinError::Released)));
        rig.scheduled.wait_released().unwrap();
        assert_eq!(rig.scheduled.stats().runs, 1);
    }
}

#[testkit::test]
fn release_now_elsewhere_ends_queued_runs_too() {
    let clock = ManualClock::new();
    let pool = untimed(1, &clock).queue_depth(2).build().unwrap();
    let rig = Rig::over(pool, clock);
    let gate = hold(&rig.pool, 1);
    let drops = DropCounter::new();
    let token = drops.token();
    let task = rig
        .scheduled
        .spawn_after(SECOND, move || drop(token))
        .unwrap();
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), || ())
        .unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.queued() == 2);
    assert_eq!(rig.pool.release_now(), 2);
    assert_eq!(drops.alive(), 0);
    assert!(matches!(task.join(), Err(JoinError::Released)));
    assert!(matches!(series.join(), Err(JoinError::Released)));
    gate.open();
    rig.scheduled.wait_released().unwrap();
    assert_eq!(rig.scheduled.stats().released, 2);
    rig.end();
}

#[testkit::test]
fn a_reboot_does_not_reopen_the_scheduled_pool_and_another_can_be_created() {
    let rig = Rig::new(1);
    let task = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    rig.pool.release();
    assert!(rig.pool.reboot());
    assert!(matches!(task.join(), Err(JoinError::Released)));
    assert!(
        rig.scheduled
            .spawn_after(SECOND, || ())
            .unwrap_err()
            .is_released()
    );
    let other = Rig::over(rig.pool.clone(), rig.clock.clone());
    let task = other.scheduled.spawn_after(SECOND, || 5).unwrap();
    other.clock.advance(SECOND);
    assert_eq!(task.join().unwrap(), 5);
    other.end();
}

#[testkit::test]
fn a_wait_for_the_end_does_not_wait_for_a_rebooted_pool() {
    let rig = Rig::new(1);
    rig.pool.release();
    rig.pool.wait_released().unwrap();
    assert!(rig.pool.reboot());
    let waits = [
        rig.scheduled.wait_released(),
        rig.scheduled.wait_released_timeout(SECOND),
        rig.scheduled.wait_released_timeout(rig.start),
    ];
    assert_eq!(waits, [Err(WaitError::Rebooted); 3]);
    assert!(!rig.pool.is_released());
}

#[testkit::test]
fn a_released_scheduled_pool_does_not_touch_a_rebooted_pool() {
    for now in [false, true] {
        let rig = Rig::new(1);
        let gates = Gates::new(1);
        let task = gates.task(|| ());
        let handle = rig.scheduled.spawn_after(SECOND, task).unwrap();
        rig.clock.advance(SECOND);
        gates.reached(0);
        rig.pool.release();
        assert!(rig.pool.reboot());
        // The run of the old pool has not ended.
        if now {
            assert_eq!(rig.scheduled.release_now().len(), 0);
        } else {
            rig.scheduled.release();
        }
        gates.open(0);
        handle.join().unwrap();
        assert_eq!(rig.scheduled.wait_released(), Err(WaitError::Rebooted));
        assert!(!rig.pool.is_released());
        assert_eq!(rig.pool.spawn(|| 5).unwrap().join().unwrap(), 5);
    }
}

#[testkit::test]
fn a_scheduled_pool_over_a_released_pool_is_released() {
    let clock = ManualClock::new();
    let pool = untimed(1, &clock).build().unwrap();
    pool.release();
    let rig = Rig::over(pool, clock);
    assert!(rig.scheduled.is_released());
    assert!(
        rig.scheduled
            .spawn_after(SECOND, || ())
            .unwrap_err()
            .is_released()
    );
    rig.scheduled.wait_released().unwrap();
}

#[testkit::test]
fn the_release_of_a_pool_ends_both_scheduled_pools_over_it() {
    let rig = Rig::new(1);
    let other = ScheduledPool::new(rig.pool.clone());
    let one = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    let two = other.spawn_after(SECOND, || ()).unwrap();
    let kept = rig.scheduled.spawn_after(secs(2), || ()).unwrap();
    kept.cancel();
    rig.scheduled.release();
    assert!(!other.is_released());
    rig.clock.advance(SECOND);
    one.join().unwrap();
    // The first timer has released the pool, and therefore the second one.
    let _ = two.join();
    other.wait_released().unwrap();
    assert!(other.is_released());
    rig.end();
}

#[testkit::test]
fn a_release_elsewhere_racing_due_tasks_ends_every_handle() {
    for round in 0..300 {
        let rig = Rig::new(1);
        let drops = DropCounter::new();
        let handles: Vec<_> = (0..4)
            .map(|_| {
                let token = drops.token();
                rig.scheduled
                    .spawn_after(SECOND, move || drop(token))
                    .unwrap()
            })
            .collect();
        rig.clock.advance(SECOND);
        for _ in 0..round % 50 {
            std::thread::yield_now();
        }
        rig.pool.release();
        for handle in handles {
            match handle.join() {
                Ok(()) | Err(JoinError::Released) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        rig.scheduled.wait_released().unwrap();
        assert_eq!(drops.alive(), 0);
        rig.end();
    }
}
