//! Releasing a scheduled pool: which schedules still run, which end, and when the pool is released.

use pool_core::{JoinError, ManualClock, WaitError};
use scheduled_pool::{Builder, ScheduleError, ScheduledPool};
use testkit::DropCounter;

use crate::support::{Gates, Rig, SECOND, every_second, hold, secs, until, untimed};

fn built(set: impl FnOnce(Builder) -> Builder) -> Rig {
    let clock = ManualClock::new();
    let pool = untimed(1, &clock).build().unwrap();
    let scheduled = set(ScheduledPool::builder(pool)).build().unwrap();
    Rig::of(scheduled, clock)
}

#[testkit::test]
fn a_released_scheduled_pool_refuses_every_call_and_returns_the_task() {
    let rig = Rig::new(1);
    assert!(!rig.scheduled.is_released());
    assert!(rig.scheduled.release());
    assert!(rig.scheduled.is_released());
    assert!(!rig.scheduled.release(), "it was done before");
    let refused = rig.scheduled.spawn_after(SECOND, || 5).unwrap_err();
    assert!(refused.is_released());
    assert_eq!(refused.to_string(), "the scheduled pool is released");
    assert_eq!(refused.into_task()(), 5);
    assert!(
        rig.scheduled
            .spawn_at(rig.start, || ())
            .unwrap_err()
            .is_released()
    );
    let rate = rig.scheduled.spawn_at_fixed_rate(SECOND, SECOND, || ());
    assert!(matches!(rate, Err(ScheduleError::Released(_))));
    let rest = rig.scheduled.spawn_with_fixed_delay(SECOND, SECOND, || ());
    assert!(rest.unwrap_err().is_released());
    rig.end();
    assert!(
        rig.scheduled
            .spawn_after(SECOND, || 5)
            .unwrap_err()
            .is_released()
    );
}

#[testkit::test]
fn pending_tasks_keep_the_pool_open_until_they_have_run() {
    let rig = Rig::new(1);
    let first = rig.scheduled.spawn_after(secs(1), || 1).unwrap();
    let second = rig.scheduled.spawn_after(secs(5), || 2).unwrap();
    rig.scheduled.release();
    assert!(!rig.pool.is_released());
    rig.clock.advance(secs(1));
    assert_eq!(first.join().unwrap(), 1);
    rig.pool.submit(|| ()).unwrap();
    assert!(!rig.pool.is_released());
    rig.sleeps_until(secs(5));
    let too_early = rig.scheduled.wait_released_timeout(rig.start);
    assert_eq!(too_early, Err(WaitError::TimedOut));
    rig.clock.advance(secs(4));
    assert_eq!(second.join().unwrap(), 2);
    rig.scheduled.wait_released().unwrap();
    assert!(rig.pool.is_released());
    assert_eq!((rig.pool.running(), rig.clock.sleepers()), (0, 0));
    rig.end();
}

#[testkit::test]
fn a_release_ends_series_and_frees_their_closures() {
    let rig = Rig::new(1);
    let drops = DropCounter::new();
    let token = drops.token();
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), move || _ = &token)
        .unwrap();
    rig.walk(2, || series.runs());
    rig.scheduled.release();
    assert_eq!((drops.alive(), rig.scheduled.stats().released), (0, 1));
    assert!(matches!(series.join(), Err(JoinError::Released)));
    assert!(rig.pool.is_released(), "nothing was left to wait for");
    rig.end();
}

#[testkit::test]
fn a_run_during_the_release_is_the_last_of_its_series() {
    let rig = Rig::new(1);
    let gates = Gates::new(1);
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), gates.task(|| ()))
        .unwrap();
    rig.clock.advance(SECOND);
    gates.reached(0);
    rig.scheduled.release();
    assert!(!rig.pool.is_released());
    gates.open(0);
    assert!(matches!(series.join(), Err(JoinError::Released)));
    rig.scheduled.wait_released().unwrap();
    assert_eq!(rig.scheduled.stats().runs, 1);
    rig.end();
}

#[testkit::test]
fn without_run_pending_a_release_ends_pending_tasks_and_due_tasks_still_run() {
    let rig = built(|builder| builder.run_pending(false));
    let gate = hold(&rig.pool, 1);
    let drops = DropCounter::new();
    let token = drops.token();
    let due = rig.scheduled.spawn_after(SECOND, || 1).unwrap();
    let pending = rig
        .scheduled
        .spawn_after(secs(2), move || drop(token))
        .unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 1);
    rig.scheduled.release();
    assert_eq!((drops.alive(), rig.scheduled.stats().released), (0, 1));
    assert!(matches!(pending.join(), Err(JoinError::Released)));
    assert!(!rig.pool.is_released());
    gate.open();
    assert_eq!(due.join().unwrap(), 1);
    rig.end();
}

#[testkit::test]
fn with_continue_series_series_run_until_they_are_cancelled() {
    let rig = built(|builder| builder.continue_series(true));
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), || ())
        .unwrap();
    rig.scheduled.release();
    rig.walk(5, || series.runs());
    assert!(!rig.pool.is_released());
    assert!(series.cancel());
    assert!(rig.pool.is_released(), "the cancel was the end");
    rig.end();
}

#[testkit::test]
fn release_now_ends_unstarted_schedules_and_the_pools_own_tasks() {
    let clock = ManualClock::new();
    let pool = untimed(1, &clock).queue_depth(2).build().unwrap();
    let rig = Rig::over(pool, clock);
    let gates = Gates::new(1);
    let wait = gates.task(|| ());
    let running = rig.scheduled.spawn_after(SECOND, wait).unwrap();
    rig.clock.advance(SECOND);
    gates.reached(0);
    let queued = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.queued() == 1);
    let own = rig.pool.spawn(|| ()).unwrap();
    let in_line = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 1);
    let pending = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), || ())
        .unwrap();
    assert_eq!(rig.scheduled.release_now().len(), 5);
    for handle in [queued, in_line, pending] {
        assert!(matches!(handle.try_join(), Ok(Err(JoinError::Released))));
    }
    assert!(matches!(series.try_join(), Ok(Err(JoinError::Released))));
    assert!(matches!(own.join(), Err(JoinError::Released)));
    assert!(rig.pool.is_released());
    assert!(!running.is_finished());
    assert_eq!(rig.scheduled.release_now().len(), 0);
    gates.open(0);
    running.join().unwrap();
    rig.end();
    assert_eq!(rig.scheduled.stats().released, 4);
}

#[testkit::test]
fn release_now_may_follow_a_release() {
    let rig = Rig::new(1);
    let pending = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    rig.scheduled.release();
    assert_eq!(rig.scheduled.release_now().len(), 1);
    assert!(matches!(pending.join(), Err(JoinError::Released)));
    rig.end();
}

#[testkit::test]
fn each_release_policy_keeps_its_kinds_of_schedules() {
    for (keep, go_on) in [(true, true), (true, false), (false, true), (false, false)] {
        let rig = built(|builder| builder.run_pending(keep).continue_series(go_on));
        let now = rig.scheduled.spawn_after(secs(0), || 1).unwrap();
        until(|| now.is_finished());
        let later = rig.scheduled.spawn_after(secs(5), || 2).unwrap();
        let twice = every_second().max_runs(std::num::NonZeroU64::new(2).unwrap());
        let series = rig.scheduled.spawn_series(SECOND, &twice, || ()).unwrap();
        rig.scheduled.release();
        assert_eq!(rig.pool.is_released(), !keep && !go_on);
        for second in 1..=5 {
            rig.clock.advance(SECOND);
            until(|| !go_on || series.runs() == second.min(2));
        }
        rig.scheduled.wait_released().unwrap();
        assert_eq!(now.join().unwrap(), 1);
        match later.join() {
            Ok(2) => assert!(keep),
            Err(JoinError::Released) => assert!(!keep),
            other => panic!("{other:?}"),
        }
        match series.join() {
            Ok(()) => assert!(go_on),
            Err(JoinError::Released) => assert!(!go_on),
            other => panic!("{other:?}"),
        }
        let runs = 1 + u64::from(keep) + if go_on { 2 } else { 0 };
        assert_eq!(rig.scheduled.stats().runs, runs);
        assert_eq!(rig.pool.stats().submitted, runs);
    }
}

#[testkit::test]
fn several_threads_can_wait_for_the_end_before_and_after_it() {
    let rig = Rig::new(1);
    let last = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            let scheduled = rig.scheduled.clone();
            std::thread::spawn(move || scheduled.wait_released())
        })
        .collect();
    rig.sleeps_until(SECOND);
    let scheduled = rig.scheduled.clone();
    let hasty = std::thread::spawn(move || scheduled.wait_released_timeout(SECOND / 2));
    rig.sleeps_until(SECOND / 2);
    rig.clock.advance(SECOND / 2);
    assert_eq!(hasty.join().unwrap(), Err(WaitError::TimedOut));
    rig.scheduled.release();
    rig.clock.advance(SECOND / 2);
    last.join().unwrap();
    for waiter in waiters {
        waiter.join().unwrap().unwrap();
    }
    rig.scheduled.wait_released().unwrap();
    rig.scheduled.wait_released_timeout(secs(0)).unwrap();
    rig.end();
}

#[testkit::test]
fn a_wait_begun_before_the_release_of_an_unused_pool_ends_with_it() {
    let rig = Rig::new(1);
    let scheduled = rig.scheduled.clone();
    let waiter = std::thread::spawn(move || scheduled.wait_released_timeout(SECOND));
    rig.sleeps_until(SECOND);
    rig.scheduled.release();
    waiter.join().unwrap().unwrap();
    rig.end();
}

#[testkit::test]
fn due_tasks_in_the_wait_queue_run_before_the_pool_is_released() {
    let rig = Rig::new(1);
    let gate = hold(&rig.pool, 1);
    let due = rig.scheduled.spawn_after(SECOND, || 1).unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 1);
    rig.scheduled.release();
    assert!(!rig.pool.is_released());
    gate.open();
    assert_eq!(due.join().unwrap(), 1);
    rig.scheduled.wait_released().unwrap();
    rig.end();
}
