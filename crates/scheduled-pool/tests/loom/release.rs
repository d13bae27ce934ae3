//! Models of releases, by the timer and by other handles of the pool: no task is stranded, and
//! every handle ends.

use pool_core::JoinError;

use crate::rig::{Rig, join};
use crate::{LATE, NOW};

/// Release against schedule: the task runs or is refused.
#[testkit::model(preemptions = 3)]
fn a_release_racing_a_schedule_strands_no_task() {
    let rig = Rig::new(true);
    // The timer thread is running and about to end.
    assert!(rig.once(LATE).unwrap().cancel());
    let task = rig.once_beside(NOW);
    rig.core.release(true);
    let handle = task.join().unwrap();
    if let Some(handle) = &handle {
        rig.twin.run_one();
        join(handle).unwrap();
    }
    assert_eq!(rig.runs.get(), usize::from(handle.is_some()));
    rig.end();
}

/// `release_now` against a task that could not be offered because the pool has no thread: its
/// handle ends, and the timer ends.
#[testkit::model(preemptions = 3)]
fn a_release_now_racing_a_held_task_ends_it() {
    let rig = Rig::new(true);
    rig.twin.refuse_all();
    let handle = rig.once(NOW).unwrap();
    assert_eq!(rig.core.release_now().len(), 1);
    assert!(matches!(join(&handle), Err(JoinError::Released)));
    assert!(rig.core.wait_released(None));
    rig.end();
}

/// A release of the pool elsewhere against a task that is being entered into the wait queue: its
/// handle ends.
#[testkit::model(preemptions = 3)]
fn a_pool_released_elsewhere_racing_a_ticket_ends_its_handle() {
    let rig = Rig::new(false);
    let handle = rig.once(NOW).unwrap();
    let releaser = rig.release_elsewhere();
    assert!(matches!(join(&handle), Err(JoinError::Released)));
    releaser.join().unwrap();
    rig.end();
    assert_eq!((rig.runs.get(), rig.twin.waiting()), (0, 0));
}

/// The same at a pool with room: the task runs, or its handle ends with `Released`.
#[testkit::model(preemptions = 3)]
fn a_pool_released_elsewhere_racing_a_fire_strands_no_task() {
    let rig = Rig::new(true);
    let worker = rig.twin.worker();
    let handle = rig.once(NOW).unwrap();
    rig.twin.release(&rig.core);
    let ran = match join(&handle) {
        Ok(()) => 1,
        Err(JoinError::Released) => 0,
        Err(other) => panic!("{other:?}"),
    };
    rig.end_beside(worker);
    assert_eq!(rig.runs.get(), ran);
}
