//! Models of the timer's sleep: it misses no due schedule and no end.

use crate::rig::{Rig, join};
use crate::{LATE, NOW, SOON};

/// An earlier schedule against the timer that goes to sleep for a later one.
#[testkit::model(preemptions = 3)]
fn an_earlier_schedule_racing_the_timers_sleep_wakes_it() {
    let rig = Rig::new(true);
    let late = rig.once(LATE).unwrap();
    let early = rig.once(NOW).unwrap();
    rig.twin.run_one();
    join(&early).unwrap();
    assert!(late.cancel());
    assert_eq!(rig.runs.get(), 1);
    rig.end();
}

/// Two schedules against the timer's sleep: the wake-up for the later one does not suppress the
/// wake-up for the earlier one.
#[testkit::model(preemptions = 2)]
fn two_schedules_racing_the_timers_sleep_are_both_run() {
    let rig = Rig::new(true);
    let late = rig.once(LATE).unwrap();
    let other = rig.once_beside(NOW);
    let mine = rig.once(NOW).unwrap();
    rig.twin.run_one();
    rig.twin.run_one();
    join(&mine).unwrap();
    join(&other.join().unwrap().unwrap()).unwrap();
    assert!(late.cancel());
    rig.end();
    assert_eq!(rig.runs.get(), 2);
}

/// The advance of the clock against the timer's sleep: the task runs, and not early.
#[testkit::model(preemptions = 3)]
fn an_advance_of_the_clock_racing_the_timers_sleep_starts_the_task() {
    let rig = Rig::new(true);
    let due = rig.core.after(SOON);
    let time = rig.advance_beside(SOON);
    let handle = rig.core.once(due, rig.task()).ok().unwrap();
    rig.twin.run_one();
    join(&handle).unwrap();
    time.join().unwrap();
    rig.end();
}

/// The end of a run against the timer's sleep: the next run starts.
#[testkit::model(preemptions = 3)]
fn the_end_of_a_run_racing_the_timers_sleep_starts_the_next_run() {
    let rig = Rig::new(true);
    let series = rig.series(NOW, Some(2)).unwrap();
    rig.twin.run_one();
    rig.twin.run_one();
    join(&series).unwrap();
    assert_eq!(rig.runs.get(), 2);
    rig.end();
}

/// A cancel of the last schedule of a released pool against the timer's sleep: the timer ends.
#[testkit::model(preemptions = 3)]
fn a_cancel_of_the_last_schedule_racing_the_timers_sleep_ends_the_timer() {
    let rig = Rig::new(true);
    let handle = rig.once(LATE).unwrap();
    rig.core.release(true);
    assert!(handle.cancel());
    assert!(rig.core.wait_released(None));
    rig.end();
}

/// A release against the timer's sleep: pending schedules still run when due.
#[testkit::model(preemptions = 3)]
fn a_release_racing_the_timers_sleep_still_runs_pending_schedules() {
    let rig = Rig::new(true);
    let handle = rig.once(SOON).unwrap();
    rig.core.release(true);
    rig.clock.advance(SOON);
    rig.twin.run_one();
    join(&handle).unwrap();
    rig.end();
}
