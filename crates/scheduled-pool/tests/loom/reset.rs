//! Models of resets: a reset task runs once, and never after its end.

use pool_core::JoinError;
use scheduled_pool::ResetError;

use crate::rig::{Rig, cancel_beside, join};
use crate::{LATE, NOW};

/// A reset to an earlier time against the timer that goes to sleep until the old time: it is woken.
#[testkit::model(preemptions = 3)]
fn a_reset_to_an_earlier_time_racing_the_timers_sleep_wakes_it() {
    let rig = Rig::new(true);
    let worker = rig.twin.worker();
    let handle = rig.once(LATE).unwrap();
    assert_eq!(handle.reset(rig.core.after(NOW)), Ok(()));
    assert!(join(&handle).is_ok());
    rig.end_beside(worker);
}

/// A reset to a later time against the fire: the reset fails and the task runs at the old time, or
/// the task runs at the new time.
#[testkit::model(preemptions = 3)]
fn a_reset_to_a_later_time_racing_the_fire_has_one_winner() {
    let rig = Rig::new(true);
    let worker = rig.twin.worker();
    let handle = rig.once(NOW).unwrap();
    match handle.reset(rig.core.after(LATE)) {
        Ok(()) => {
            assert_eq!(handle.next_due(), Some(rig.core.after(LATE)));
            assert_eq!(rig.core.stats().pending, 1);
            assert!(handle.cancel());
            assert_eq!(rig.runs.get(), 0);
        }
        Err(ResetError::Due | ResetError::Ended) => assert!(join(&handle).is_ok()),
        Err(other) => panic!("{other}"),
    }
    rig.end_beside(worker);
}

/// A reset against a cancel: if the cancel wins, the reset fails.
#[testkit::model(preemptions = 3)]
fn a_reset_racing_a_cancel_does_not_revive_the_task() {
    let rig = Rig::new(true);
    let handle = rig.once(LATE).unwrap();
    let canceller = cancel_beside(&handle);
    let is_gone = handle.next_due().is_none();
    let reset = handle.reset(rig.core.after(2 * LATE));
    assert!(!is_gone || reset.is_err());
    if reset.is_err() {
        assert_eq!(reset, Err(ResetError::Ended));
        assert_eq!(handle.next_due(), None);
    }
    assert!(canceller.join().unwrap());
    assert!(matches!(join(&handle), Err(JoinError::Cancelled)));
    rig.end();
}
