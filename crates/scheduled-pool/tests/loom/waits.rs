//! Models of waits for the timer's end: each wait returns, not too early, or times out.

use std::sync::Arc;

use scheduled_pool::internals::Core;
use sync_shim::Clock;
use sync_shim::model::spawn;

use crate::rig::Rig;
use crate::twin::Twin;
use crate::{LATE, NOW, SOON};

/// Two waits against the timer's end: both return.
#[testkit::model(preemptions = 3)]
fn two_waits_for_a_timers_end_both_return() {
    let rig = Rig::new(true);
    let handle = rig.once(LATE).unwrap();
    // The timer thread and the schedule have dropped their references.
    assert!(handle.cancel());
    let gone = |core: &Arc<Core<Twin>>| {
        assert!(core.wait_released(None));
        assert!(Arc::strong_count(core) <= 3, "two waiters and the schedule");
    };
    let other = {
        let core = Arc::clone(&rig.core);
        spawn(move || gone(&core))
    };
    rig.core.release(true);
    gone(&rig.core);
    other.join().unwrap();
    rig.end();
}

/// Two more waits that enrol before the end: all of them are woken.
#[testkit::model(preemptions = 2)]
fn three_waits_for_a_timers_end_all_return() {
    let rig = Rig::new(true);
    let others = [(); 2].map(|()| rig.wait_beside());
    rig.core.release(true);
    for other in others {
        other.join().unwrap();
    }
    rig.end();
}

/// A wait against the release of a pool without a timer thread: it returns.
#[testkit::model(preemptions = 3)]
fn a_wait_for_the_end_racing_the_release_of_an_unused_timer_returns() {
    let rig = Rig::new(true);
    let waiter = rig.wait_beside();
    rig.core.release(true);
    waiter.join().unwrap();
    rig.end();
}

/// A timed wait against the end: its result is right.
#[testkit::model(preemptions = 3)]
fn a_timed_wait_racing_the_end_returns_the_right_result() {
    let rig = Rig::new(true);
    let deadline = rig.clock.now() + SOON;
    let time = rig.advance_beside(SOON);
    let handle = rig.once(LATE).unwrap();
    rig.core.release(true);
    assert!(handle.cancel());
    // In both cases, no waiter is left enrolled, and the timer's end is not lost.
    if rig.core.wait_released(Some(deadline)) {
        assert_eq!(rig.core.stats().unended, 0, "the wait returned too early");
        assert!(
            rig.core.wait_released(Some(deadline)),
            "later waits return too"
        );
    } else {
        assert!(rig.clock.now() >= deadline, "the time was not up");
    }
    assert!(rig.core.wait_released(None));
    time.join().unwrap();
    rig.end();
}

/// A wait that times out while a schedule is pending: it returns false, and leaves no waiter
/// enrolled.
#[testkit::model(preemptions = 2)]
fn a_timed_wait_with_a_pending_schedule_returns_false() {
    let rig = Rig::new(true);
    let deadline = rig.clock.now() + SOON;
    let handle = rig.once(LATE).unwrap();
    rig.core.release(true);
    let time = rig.advance_beside(SOON);
    assert!(!rig.core.wait_released(Some(deadline)));
    time.join().unwrap();
    assert!(handle.cancel());
    rig.end();
}

/// A wait against the end of the last run: it returns after the handle has ended.
#[testkit::model(preemptions = 3)]
fn a_wait_for_the_end_racing_the_last_run_returns_after_its_handle_has_ended() {
    let rig = Rig::new(true);
    let worker = rig.twin.worker();
    let handle = rig.once(NOW).unwrap();
    rig.core.release(true);
    assert!(rig.core.wait_released(None));
    assert!(
        handle.is_ended(),
        "the end came before the handle showed it"
    );
    rig.end_beside(worker);
}

/// `wait_idle` against a due run and its end: it returns after the run.
#[testkit::model(preemptions = 2)]
fn wait_idle_racing_the_last_run_returns_after_it() {
    let rig = Rig::new(true);
    let worker = rig.twin.worker();
    let handle = rig.once(NOW).unwrap();
    assert!(rig.core.wait_quiet(None));
    assert!(handle.is_ended() && rig.runs.get() == 1);
    assert!(rig.core.is_quiet_while(|| true));
    rig.end_beside(worker);
}
