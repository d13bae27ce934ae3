//! Models of handles: every waiter sees the end, and the value is taken or dropped once.

use std::sync::Arc;
use std::task::Poll;

use pool_core::JoinError;
use scheduled_pool::internals::Waiter;
use sync_shim::model::spawn;

use crate::rig::{Rig, cancel_beside, join};
use crate::{LATE, NOW};

/// The end of a task against the registration of a waker: a pending poll is woken.
#[testkit::model(preemptions = 2)]
fn an_awaited_schedule_racing_its_end_is_woken() {
    let rig = Rig::new(true);
    let worker = rig.twin.worker();
    let handle = rig.once(NOW).unwrap();
    let joined = loom::future::block_on(std::future::poll_fn(|context| {
        let waiter = Some(Waiter::Task(context.waker().clone()));
        handle
            .take_or_wait(waiter)
            .map_or(Poll::Pending, Poll::Ready)
    }));
    joined.unwrap();
    assert_eq!(rig.runs.get(), 1);
    rig.end_beside(worker);
}

/// The drop of a handle against the end of its task: the value is dropped once.
#[testkit::model(preemptions = 3)]
fn a_dropped_handle_racing_the_end_drops_the_value_once() {
    let rig = Rig::new(true);
    let value = Arc::clone(&rig.captured);
    let handle = rig
        .core
        .once(rig.core.after(NOW), move || value)
        .ok()
        .unwrap();
    let twin = rig.twin.clone();
    let worker = spawn(move || twin.run_one());
    handle.detach();
    worker.join().unwrap();
    rig.end();
    drop(handle); // The handle is still alive, so the value was dropped by another party.
}

/// Two threads take an outcome while the drop of its closure runs: one of them gets it.
#[testkit::model(preemptions = 3)]
fn an_outcome_taken_before_its_closure_is_dropped_is_taken_once() {
    let rig = Rig::new(true);
    let handle = rig.once(LATE).unwrap();
    let canceller = cancel_beside(&handle);
    assert!(matches!(join(&handle), Err(JoinError::Cancelled)));
    assert!(matches!(join(&handle), Err(JoinError::Taken)));
    assert!(canceller.join().unwrap());
    assert!(matches!(join(&handle), Err(JoinError::Taken)));
    rig.end();
}
