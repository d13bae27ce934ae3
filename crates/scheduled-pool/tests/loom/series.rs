//! Models of series: a party that races the end of a run ends the series once, and leaves no ticket
//! behind.

use std::time::Duration;

use pool_core::JoinError;

use crate::rig::{Rig, join};
use crate::{LATE, NOW};

/// Cancel against the end of a run: the series ends once, and its closure is dropped.
#[testkit::model(preemptions = 3)]
fn a_cancel_racing_a_runs_end_ends_the_series_once() {
    let rig = Rig::new(true);
    let worker = rig.twin.worker();
    let series = rig.series(LATE, None).unwrap();
    assert!(series.cancel());
    assert!(!series.cancel());
    assert!(matches!(join(&series), Err(JoinError::Cancelled)));
    assert!(rig.runs.get() <= 1);
    rig.end_beside(worker);
}

/// A release against the end of a run: the series ends, and the timer drops the pool.
#[testkit::model(preemptions = 2)]
fn a_release_racing_a_runs_end_ends_the_series() {
    let rig = Rig::new(true);
    let worker = rig.twin.worker();
    let series = rig.series(LATE, None).unwrap();
    rig.core.release(true);
    assert!(matches!(join(&series), Err(JoinError::Released)));
    assert!(rig.core.wait_released(None));
    rig.end_beside(worker);
}

/// A release of the pool elsewhere against the end of a run: the series ends instead of scheduling
/// a run that cannot start.
#[testkit::model(preemptions = 2)]
fn a_pool_released_elsewhere_racing_a_runs_end_ends_the_series() {
    let rig = Rig::new(true);
    let series = rig.series(LATE, None).unwrap();
    let releaser = rig.release_elsewhere();
    rig.twin.stop();
    rig.twin.work();
    let joined = rig.twin.work_until_ended(&series);
    assert!(matches!(joined, Err(JoinError::Released)));
    releaser.join().unwrap();
    rig.end();
}

/// A release against the end of a run whose next run is never due: the series ends.
#[testkit::model(preemptions = 3)]
fn a_release_racing_the_end_of_a_last_run_releases_the_pool() {
    let rig = Rig::with(true, true);
    let worker = rig.twin.worker();
    let never = Duration::from_nanos(u64::MAX);
    let series = rig.series(never, None).unwrap();
    rig.core.release(true);
    assert!(matches!(join(&series), Err(JoinError::Released)));
    rig.end_beside(worker);
}

/// The end of a run against the timer's record of its ticket in the wait queue: the ticket is
/// dropped.
#[testkit::model(preemptions = 3)]
fn the_end_of_a_run_racing_the_record_of_its_ticket_leaves_no_ticket_behind() {
    let rig = Rig::new(false);
    let series = rig.series(NOW, Some(2)).unwrap();
    rig.twin.make_room();
    rig.twin.run_one();
    rig.twin.run_one();
    join(&series).unwrap();
    rig.end();
}
