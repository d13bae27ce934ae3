//! Admission of due tasks into the pool.

use std::thread;

use pool_core::{ManualClock, SubmitError};
use testkit::block_on;

use crate::support::{Journal, Rig, SECOND, hold, secs, until, untimed};

#[testkit::test]
fn a_due_task_waits_behind_earlier_submits_and_before_later_ones() {
    let rig = Rig::new(1);
    let (gate, journal) = (hold(&rig.pool, 1), Journal::new());
    let submit = |entry: &'static str| {
        let (pool, task) = (rig.pool.clone(), journal.writer(entry));
        let before = rig.pool.waiting();
        let thread = thread::spawn(move || pool.submit(task).unwrap());
        until(|| rig.pool.waiting() > before);
        thread
    };
    let first = submit("before");
    let handle = rig
        .scheduled
        .spawn_after(SECOND, journal.writer("due"))
        .unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 2);
    let last = submit("after");
    gate.open();
    first.join().unwrap();
    last.join().unwrap();
    handle.join().unwrap();
    rig.pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["before", "due", "after"]);
    rig.end();
}

#[testkit::test]
fn a_full_pool_delays_neither_the_timer_nor_other_schedules() {
    let rig = Rig::new(1);
    let gate = hold(&rig.pool, 1);
    let handles: Vec<_> = (1..=50)
        .map(|after| {
            rig.scheduled
                .spawn_after(secs(after), move || after)
                .unwrap()
        })
        .collect();
    for second in 1..=50 {
        rig.clock.advance(SECOND);
        until(|| rig.pool.waiting() == second);
    }
    gate.open();
    for (handle, after) in handles.into_iter().zip(1..) {
        assert_eq!(handle.join().unwrap(), after);
    }
    rig.end();
}

#[testkit::test]
fn a_due_task_waits_even_if_submits_may_not_wait() {
    let clock = ManualClock::new();
    let builder = untimed(1, &clock).nonblocking(true).max_waiting(0);
    let rig = Rig::over(builder.build().unwrap(), clock);
    let gate = hold(&rig.pool, 1);
    let handles: Vec<_> = (0..3)
        .map(|number| rig.scheduled.spawn_after(SECOND, move || number).unwrap())
        .collect();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 3);
    assert!(matches!(rig.pool.submit(|| ()), Err(SubmitError::Full(_))));
    gate.open();
    for (handle, number) in handles.into_iter().zip(0..) {
        assert_eq!(handle.join().unwrap(), number);
    }
    rig.end();
}

#[testkit::test]
fn due_tasks_do_not_count_against_max_waiting() {
    let clock = ManualClock::new();
    let pool = untimed(1, &clock).max_waiting(1).build().unwrap();
    let rig = Rig::over(pool, clock);
    let gate = hold(&rig.pool, 1);
    let handle = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 1);
    let pool = rig.pool.clone();
    let thread = thread::spawn(move || pool.submit(|| ()).unwrap());
    until(|| rig.pool.waiting() == 2);
    assert!(rig.pool.submit(|| ()).unwrap_err().is_full());
    gate.open();
    thread.join().unwrap();
    handle.join().unwrap();
    rig.end();
}

#[testkit::test]
fn pending_schedules_are_not_in_flight() {
    let rig = Rig::new(1);
    let handle = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    let series = rig
        .scheduled
        .spawn_at_fixed_rate(SECOND, SECOND, || ())
        .unwrap();
    rig.pool.submit(|| ()).unwrap();
    rig.pool.wait_idle().unwrap();
    assert_eq!((rig.pool.in_flight(), rig.scheduled.pending()), (0, 2));
    rig.clock.advance(SECOND);
    until(|| series.runs() == 1);
    handle.join().unwrap();
    rig.pool.wait_idle().unwrap();
    assert_eq!(
        (rig.scheduled.pending(), rig.scheduled.stats().unended),
        (1, 1)
    );
    rig.end();
}

#[testkit::test]
fn many_tasks_due_at_once_run_in_order() {
    let rig = Rig::new(1);
    let journal = Journal::new();
    let handles: Vec<_> = (0..1000)
        .map(|number| {
            rig.scheduled
                .spawn_after(SECOND, journal.writer(number))
                .unwrap()
        })
        .collect();
    rig.clock.advance(SECOND);
    for handle in handles {
        handle.join().unwrap();
    }
    assert!(journal.entries().into_iter().eq(0..1000));
    rig.end();
}

#[testkit::test]
fn a_due_task_waits_for_the_room_of_a_permit_and_so_do_the_waits_for_it() {
    let rig = Rig::new(1);
    let permit = rig.pool.reserve().unwrap();
    let handle = rig.scheduled.spawn_after(SECOND, || 3).unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 1);
    thread::scope(|threads| {
        let idle = threads.spawn(|| rig.scheduled.wait_idle());
        let joined = threads.spawn(|| handle.join());
        drop(permit);
        assert_eq!(joined.join().unwrap().unwrap(), 3);
        idle.join().unwrap().unwrap();
    });
    let permit = rig.pool.reserve().unwrap();
    rig.scheduled.release();
    thread::scope(|threads| {
        let released = threads.spawn(|| rig.scheduled.wait_released());
        permit.submit(|| ());
        released.join().unwrap().unwrap();
    });
}

#[testkit::test]
fn waits_for_a_schedule_go_on_after_the_last_handle_of_the_pool() {
    let Rig {
        clock,
        pool,
        scheduled,
        ..
    } = Rig::new(1);
    let handle = scheduled.spawn_after(SECOND, || 3).unwrap();
    let waits = scheduled.wait_idle_async();
    drop(pool);
    clock.advance(SECOND);
    assert_eq!(handle.join().unwrap(), 3);
    block_on(waits).unwrap();
    drop(scheduled);
}
