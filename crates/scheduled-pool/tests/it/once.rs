//! Tasks with one run: due times, order, and outcomes.

use std::time::Duration;

use pool_core::{JoinError, Pool};
use scheduled_pool::ScheduledPool;

use crate::support::{BUT_A_TICK, Journal, Rig, SECOND, TICK, secs, until};

#[testkit::test]
fn a_task_runs_when_it_is_due_and_not_a_nanosecond_before() {
    let rig = Rig::new(1);
    let stamps = rig.stamps();
    let task = stamps.clone();
    let handle = rig
        .scheduled
        .spawn_after(SECOND, move || task.stamp())
        .unwrap();
    rig.sleeps_until(SECOND);
    rig.clock.advance(BUT_A_TICK);
    // Another schedule makes the timer read the clock once more.
    let other = rig.scheduled.spawn_after(Duration::ZERO, || ()).unwrap();
    other.join().unwrap();
    assert_eq!(handle.next_due(), Some(rig.start + SECOND));
    assert_eq!((rig.scheduled.pending(), stamps.len()), (1, 0));
    rig.clock.advance(TICK);
    handle.join().unwrap();
    assert_eq!(stamps.seconds(), [1]);
    rig.end();
}

#[testkit::test]
fn a_join_returns_the_value_and_the_statistics_include_the_task() {
    let rig = Rig::new(1);
    let handle = rig.scheduled.spawn_after(SECOND, || "value").unwrap();
    assert!(!handle.is_finished());
    rig.clock.advance(SECOND);
    assert_eq!(handle.join().unwrap(), "value");
    let stats = rig.scheduled.stats();
    assert_eq!((stats.pending, stats.unended), (0, 0));
    assert_eq!((stats.scheduled, stats.ended, stats.runs), (1, 1, 1));
    let pool = rig.pool.stats();
    assert_eq!((pool.submitted, pool.completed, pool.in_flight), (1, 1, 0));
    rig.pool.try_submit(|| ()).unwrap();
    rig.end();
}

#[testkit::test]
fn a_zero_delay_and_a_past_time_are_due_at_once() {
    let rig = Rig::new(1);
    assert_eq!(
        rig.scheduled
            .spawn_after(Duration::ZERO, || 1)
            .unwrap()
            .join()
            .unwrap(),
        1
    );
    let before = rig.start.checked_sub(secs(1)).unwrap_or(rig.start);
    assert_eq!(
        rig.scheduled
            .spawn_at(before, || 2)
            .unwrap()
            .join()
            .unwrap(),
        2
    );
    rig.clock.advance(secs(10));
    let passed = rig.start + secs(5);
    assert_eq!(
        rig.scheduled
            .spawn_at(passed, || 3)
            .unwrap()
            .join()
            .unwrap(),
        3
    );
    assert_eq!(rig.elapsed(), secs(10));
    rig.end();
}

#[testkit::test]
fn tasks_run_in_the_order_of_their_times_and_then_of_scheduling() {
    let rig = Rig::new(1);
    let journal = Journal::new();
    let mut handles = Vec::new();
    for number in 0..300_u64 {
        let when = rig.start + secs(1 + (number * 7) % 10);
        let task = journal.writer(((number * 7) % 10, number));
        handles.push(rig.scheduled.spawn_at(when, task).unwrap());
    }
    rig.clock.advance(secs(20));
    for handle in handles {
        handle.join().unwrap();
    }
    let entries = journal.entries();
    assert_eq!(entries.len(), 300);
    assert!(entries.is_sorted(), "{entries:?}");
    rig.end();
}

#[testkit::test]
fn an_earlier_schedule_wakes_the_sleeping_timer() {
    let rig = Rig::new(1);
    let late = rig.scheduled.spawn_after(secs(100), || ()).unwrap();
    rig.sleeps_until(secs(100));
    let early = rig.scheduled.spawn_after(secs(1), || ()).unwrap();
    rig.sleeps_until(secs(1));
    rig.clock.advance(secs(1));
    early.join().unwrap();
    assert!(!late.is_finished());
    rig.sleeps_until(secs(100));
    late.cancel();
    rig.end();
}

#[testkit::test]
fn a_later_schedule_and_a_cancel_of_the_first_leave_the_timer_asleep() {
    let rig = Rig::new(1);
    let first = rig.scheduled.spawn_after(secs(1), || ()).unwrap();
    rig.sleeps_until(secs(1));
    let second = rig.scheduled.spawn_after(secs(2), || 2).unwrap();
    assert!(first.cancel());
    assert_eq!(rig.clock.next_due(), Some(rig.start + secs(1)));
    rig.clock.advance(secs(1));
    rig.sleeps_until(secs(2));
    rig.clock.advance(secs(1));
    assert_eq!(second.join().unwrap(), 2);
    rig.end();
}

#[testkit::test]
fn a_panic_of_a_scheduled_task_is_returned_reported_and_counted() {
    let rig = Rig::new(1);
    let handle = rig
        .scheduled
        .spawn_after(SECOND, || panic!("oh no"))
        .unwrap();
    rig.clock.advance(SECOND);
    let joined: Result<(), _> = handle.join();
    let Err(JoinError::Panicked(panicked)) = joined else {
        panic!("it panicked");
    };
    assert_eq!(
        (panicked.message(), panicked.pool()),
        (Some("oh no"), "pool")
    );
    assert_eq!(rig.pool.stats().panicked, 1);
    let stats = rig.scheduled.stats();
    assert_eq!((stats.panicked, stats.ended), (1, 1));
    rig.end();
}

#[testkit::test]
fn lateness_is_measured_from_the_due_time() {
    let rig = Rig::new(1);
    let gate = crate::support::hold(&rig.pool, 1);
    let handle = rig.scheduled.spawn_after(secs(1), || ()).unwrap();
    rig.clock.advance(secs(1));
    until(|| rig.pool.waiting() == 1);
    rig.clock.advance(secs(5));
    gate.open();
    handle.join().unwrap();
    assert_eq!(rig.scheduled.stats().max_lateness, secs(5));
    rig.end();
}

#[testkit::test]
fn a_scheduled_pool_works_on_the_system_clock() {
    let pool = Pool::builder().capacity(2).build().unwrap();
    let scheduled = ScheduledPool::new(pool);
    let start = std::time::Instant::now();
    let handle = scheduled
        .spawn_after(Duration::from_millis(5), || ())
        .unwrap();
    handle.join().unwrap();
    assert!(start.elapsed() >= Duration::from_millis(5));
    scheduled.release();
    scheduled.wait_released().unwrap();
}
