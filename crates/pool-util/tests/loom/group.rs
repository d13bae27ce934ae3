//! Groups: the end of a task against the owner, a cancel, and a drop.

use std::sync::Arc;

use pool_core::JoinError;
use pool_util::PoolExt;
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

/// The ends of tasks against an owner that checks and then sleeps.
#[testkit::model(preemptions = 2)]
fn a_groups_next_racing_the_ends_takes_every_value() {
    let pool = untimed(1).build().unwrap();
    let group = pool.group();
    group.spawn(|| 1).unwrap();
    group.spawn(|| 2).unwrap();
    let sum: u32 = std::iter::from_fn(|| group.next())
        .map(Result::unwrap)
        .sum();
    assert_eq!(sum, 3);
    pool.wait_idle().unwrap();
    end(&pool);
}

/// Two owners and one value: one gets it, the other learns that the group is empty.
#[testkit::model(preemptions = 1)]
fn two_owners_of_a_group_with_one_value_both_return() {
    let pool = untimed(1).build().unwrap();
    let group = Arc::new(pool.group());
    group.spawn(|| ()).unwrap();
    let other = Arc::clone(&group);
    let other = spawn(move || other.next().is_some());
    let ours = group.next().is_some();
    assert!(ours ^ other.join().unwrap());
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A cancel against the start of a task. Either reports the end to the group.
#[testkit::model(preemptions = 2)]
fn a_groups_cancel_racing_the_start_loses_no_end() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let group = pool.group();
    group.spawn(runs.task()).unwrap();
    let cancelled = group.cancel();
    match group.next().unwrap() {
        Ok(()) => assert_eq!((cancelled, runs.count()), (0, 1)),
        Err(JoinError::Cancelled) => assert_eq!((cancelled, runs.count()), (1, 0)),
        Err(other) => panic!("{other}"),
    }
    assert!(group.next().is_none());
    pool.wait_idle().unwrap();
    end(&pool);
}

/// The drop of the group while a task ends: nothing of the task is left.
#[testkit::model(preemptions = 2)]
fn a_group_that_is_dropped_racing_an_end_leaks_nothing() {
    let (pool, kept) = (untimed(1).build().unwrap(), Arc::new(()));
    let group = pool.group();
    let held = Arc::clone(&kept);
    group.spawn(move || held).unwrap();
    drop(group);
    pool.wait_idle().unwrap();
    end(&pool);
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// On an own worker that may not run the task in place: it cancels the task, or another worker has
/// ended it. In both cases there is one end.
#[testkit::model(preemptions = 2)]
fn a_group_that_cancels_a_task_racing_its_end_reports_one_end() {
    let pool = untimed(2).nesting_limit(0).build().unwrap();
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let group = inner.group();
        group.spawn(|| 1).unwrap();
        let first = group.next().unwrap();
        assert!(matches!(first, Ok(1) | Err(JoinError::WouldDeadlock)));
        assert!(group.next().is_none());
    });
    outer.unwrap().join().unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A future's check and its waker against the ends of two tasks: it is woken for each value.
#[testkit::model(preemptions = 2)]
fn a_groups_poll_racing_the_ends_is_woken_for_every_value() {
    let pool = untimed(1).build().unwrap();
    let group = pool.group();
    group.spawn(|| 1).unwrap();
    group.spawn(|| 2).unwrap();
    let mut sum = 0;
    while let Some(value) = loom::future::block_on(group.next_async()) {
        sum += value.unwrap();
    }
    assert_eq!(sum, 3);
    pool.wait_idle().unwrap();
    end(&pool);
}

/// The end of a submitted task, which leaves no value, against an owner that checks and then
/// sleeps: the owner must learn that the group is empty.
#[testkit::model(preemptions = 2)]
fn a_groups_wait_racing_the_end_of_a_submitted_task_returns() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let group = pool.group::<()>();
    group.submit(runs.task()).unwrap();
    group.wait().unwrap();
    assert_eq!((runs.count(), group.len()), (1, 0));
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A value and an end without a value, in either order, against the owner: it gets the value, and
/// learns that the group is empty once both tasks have ended.
#[testkit::model(preemptions = 1)]
fn a_groups_next_racing_the_ends_of_both_kinds_takes_the_only_value() {
    let (pool, runs) = (untimed(2).build().unwrap(), Runs::new());
    let group = pool.group();
    group.submit(runs.task()).unwrap();
    group.spawn(|| 7).unwrap();
    assert_eq!(group.next().unwrap().unwrap(), 7);
    assert!(group.next().is_none());
    assert_eq!(runs.count(), 1);
    pool.wait_idle().unwrap();
    end(&pool);
}

/// Values whose drops run no code, against the owner that drops them: it sleeps through the first
/// end, and is woken by the last.
#[testkit::model(preemptions = 2)]
fn a_groups_wait_racing_two_ends_is_woken_by_the_last() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let group = pool.group();
    group.spawn(runs.task()).unwrap();
    group.spawn(runs.task()).unwrap();
    group.wait().unwrap();
    assert_eq!((runs.count(), group.len()), (2, 0));
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A cancel against the owner that runs the task in place: the task has one end, and a started task
/// is asked to stop.
#[testkit::model(preemptions = 2)]
fn a_groups_cancel_racing_its_owner_in_place_reports_one_end() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let group = Arc::new(pool.group());
    let (owner, task) = (Arc::clone(&group), runs.task());
    let outer = pool.spawn(move || {
        owner.spawn(task).unwrap();
        let first = owner.next().unwrap();
        assert!(owner.next().is_none());
        first.is_ok()
    });
    let cancelled = group.cancel();
    let ran = outer.unwrap().join().unwrap();
    assert_eq!((cancelled, runs.count()), if ran { (0, 1) } else { (1, 0) });
    pool.wait_idle().unwrap();
    end(&pool);
}
