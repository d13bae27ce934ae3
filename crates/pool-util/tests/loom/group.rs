//! Groups: the end of a task against the owner, a cancel, and a drop.

use std::sync::Arc;

use pool_core::{JoinError, SubmitError};
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
        if let Err(refused) = owner.spawn(task) {
            assert!(matches!(refused, SubmitError::Cancelled(_)));
            return None;
        }
        let first = owner.next().unwrap();
        assert!(owner.next().is_none());
        Some(first.is_ok())
    });
    let cancelled = group.cancel();
    let ran = outer.unwrap().join().unwrap();
    assert_eq!(runs.count(), usize::from(ran == Some(true)));
    // A task that was added after the flag was stored is cancelled by its submitter.
    assert!(cancelled <= usize::from(ran == Some(false)));
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A cancel against a spawn that runs its task in place: the task is returned, or has one end that the pool
/// counts.
#[testkit::model(preemptions = 2)]
fn a_groups_cancel_racing_a_task_in_place_reports_one_end() {
    let pool = untimed(1).queue_depth(0).build().unwrap();
    let runs = Runs::new();
    let group = Arc::new(pool.group());
    let (owner, task) = (Arc::clone(&group), runs.task());
    let outer = pool.spawn(move || match owner.spawn(task) {
        Ok(()) => true,
        Err(SubmitError::Cancelled(_)) => false,
        Err(other) => panic!("{other}"),
    });
    let cancelled = group.cancel();
    let is_member = outer.unwrap().join().unwrap();
    let expected = match group.next() {
        None => (false, 0, 0),
        Some(Ok(())) => (true, 0, 1),
        Some(Err(JoinError::Cancelled)) => (true, 1, 0),
        Some(Err(other)) => panic!("{other}"),
    };
    assert_eq!((is_member, runs.count()), (expected.0, expected.2));
    // A task that was added after the flag was stored is cancelled by its submitter.
    assert!(cancelled <= expected.1);
    assert!(group.next().is_none());
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!(stats.cancelled, u64::try_from(expected.1).unwrap());
    assert_eq!(stats.submitted, stats.completed + stats.cancelled);
    end(&pool);
}

/// The failure of a task against a spawn: the later task is returned, cancelled, or ends.
#[testkit::model(preemptions = 2)]
fn a_groups_failure_racing_a_spawn_leaves_no_task_unended() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let group = pool.group().cancel_on_failure();
    group.spawn(|| Err(())).unwrap();
    let task = runs.task();
    let second = group.spawn(move || {
        task();
        Ok(())
    });
    assert!(matches!(group.next(), Some(Ok(Err(())))));
    let expected = match group.next() {
        None => (false, 0),
        Some(Ok(ended)) => (ended.is_ok(), 1),
        Some(Err(JoinError::Cancelled)) => (true, 0),
        Some(Err(other)) => panic!("{other}"),
    };
    assert_eq!((second.is_ok(), runs.count()), expected);
    assert!(group.next().is_none());
    pool.wait_idle().unwrap();
    end(&pool);
}
