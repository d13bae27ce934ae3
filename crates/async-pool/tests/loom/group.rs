//! The end of a member against waits and spawns of its group.

use std::future::pending;
use std::sync::Arc;

use async_pool::SubmitError;
use sync_shim::model::spawn;

use super::{end, poll, pool};

/// The end of the only member against a wait by a thread, which must not miss it.
#[testkit::model(preemptions = 3)]
fn the_end_of_a_member_racing_a_thread_that_waits_is_not_missed() {
    let pool = pool(1, 1);
    let group = pool.group();
    group.spawn(async { 7 }).unwrap();
    assert_eq!(group.next().unwrap().unwrap(), 7);
    assert!(group.next().is_none());
    end(&pool);
}

/// A wait that takes the ended member and is dropped before its value is shown, against a thread that waits: the thread
/// gets the value.
#[testkit::model(preemptions = 2)]
fn a_dropped_wait_of_a_group_racing_the_end_leaves_the_value_to_the_other() {
    let pool = pool(1, 1);
    let group = Arc::new(pool.group());
    group.spawn(async { 7 }).unwrap();
    let other = Arc::clone(&group);
    let polls = spawn(move || poll(&mut other.next_async()).is_ready());
    let value = group.next();
    // With a value, the wait was not dropped but done.
    let (by_wait, by_thread) = (polls.join().unwrap(), value.is_some());
    assert!(by_wait || by_thread);
    if let Some(value) = value.or_else(|| group.next()) {
        assert_eq!(value.unwrap(), 7);
    }
    assert!(group.is_empty());
    end(&pool);
}

/// The failure of one member against the spawn of the next: that one is returned or cancelled, or the wait would not end.
#[testkit::model(preemptions = 2)]
fn a_failure_racing_a_spawn_of_its_group_cancels_the_new_member() {
    let pool = pool(1, 2);
    let group = pool.group().cancel_on_failure();
    group.spawn(async { Err("no") }).unwrap();
    match group.spawn(pending::<Result<(), _>>()) {
        Ok(()) | Err(SubmitError::Cancelled(_)) => {}
        Err(other) => panic!("{other:?}"),
    }
    assert!(matches!(group.wait_ok(), Ok(Err("no"))));
    end(&pool);
}

/// The cancellation of a group against a spawn that waits for room: the task is returned, or it became a member before.
#[testkit::model(preemptions = 2)]
fn a_groups_cancel_racing_a_spawn_that_waits_for_room_ends_the_wait() {
    let pool = pool(1, 1);
    let other = pool.spawn(pending::<()>()).unwrap();
    let group = Arc::new(pool.group());
    let canceller = Arc::clone(&group);
    let cancel = spawn(move || canceller.cancel());
    assert!(matches!(
        group.spawn(pending::<()>()),
        Err(SubmitError::Cancelled(_))
    ));
    cancel.join().unwrap();
    other.cancel();
    pool.wait_idle().unwrap();
    end(&pool);
}
