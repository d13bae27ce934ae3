//! Models of cancelling: exactly one party wins each race, and no entry is left in the wait queue.

use std::sync::Arc;

use pool_core::JoinError;

use crate::NOW;
use crate::rig::{Rig, cancel_beside, join};

/// Cancel against fire: exactly one wins, and the captures are dropped once.
#[testkit::model(preemptions = 3)]
fn a_cancel_racing_the_fire_has_one_winner() {
    let rig = Rig::new(true);
    let worker = rig.twin.worker();
    let handle = rig.once(NOW).unwrap();
    let cancelled = handle.cancel();
    if cancelled {
        assert_eq!(Arc::strong_count(&rig.captured), 1, "freed at once");
    }
    match join(&handle) {
        Ok(()) => assert!(!cancelled),
        Err(JoinError::Cancelled) => assert!(cancelled),
        Err(other) => panic!("{other:?}"),
    }
    assert_eq!(rig.runs.get(), usize::from(!cancelled));
    rig.end_beside(worker);
    assert_eq!(rig.runs.get(), usize::from(!cancelled));
}

/// Cancel against the timer that enters the task into the wait queue: no entry is left there.
#[testkit::model(preemptions = 3)]
fn a_cancel_racing_the_entry_into_the_wait_queue_leaves_no_entry_behind() {
    let rig = Rig::new(false);
    let handle = rig.once(NOW).unwrap();
    assert!(handle.cancel());
    assert!(matches!(join(&handle), Err(JoinError::Cancelled)));
    rig.end();
    assert_eq!(rig.twin.waiting(), 0);
}

/// Cancel against the hand-over of room: the task runs, or it is cancelled and its room is free.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_the_hand_over_of_room_has_one_winner() {
    let rig = Rig::new(false);
    let handle = rig.once(NOW).unwrap();
    let canceller = cancel_beside(&handle);
    rig.twin.make_room();
    rig.twin.stop();
    let joined = rig.twin.work_until_ended(&handle);
    assert_eq!(canceller.join().unwrap(), joined.is_err());
    assert_eq!(rig.runs.get(), usize::from(joined.is_ok()));
    rig.end();
    assert_eq!(rig.twin.waiting(), 0);
}
