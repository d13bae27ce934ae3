//! Groups and `invoke_any` over several pools. The tests of pool-util cover the rest; these check
//! that all pools take part, and that a cancel removes a task from the pool that has it.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt};
use pool_core::{JoinError, Pool, QueueDepth, SubmitError};
use pool_util::{MapError, PoolExt};
use testkit::Gate;

use crate::support::{Journal, end, here, hold, hold_all, multi, until};

fn queueing(pools: usize, depth: impl Into<QueueDepth>) -> MultiPool {
    let each = Pool::builder().capacity(1).queue_depth(depth);
    MultiBuilder::new(each).pools(pools).build().unwrap()
}

#[testkit::test]
fn a_group_runs_on_the_workers_of_all_pools_and_returns_values_as_tasks_end() {
    let pool = multi(3, 1);
    let (group, all, last) = (pool.group(), Arc::new(Barrier::new(3)), Gate::new());
    for n in 0..3 {
        let (all, last) = (Arc::clone(&all), last.clone());
        let task = move || {
            all.wait(); // No task continues before three workers are running.
            if n == 0 {
                last.wait();
            }
            (n, here())
        };
        group.spawn(task).unwrap();
    }
    let next = || group.next().unwrap().unwrap();
    let early = [next(), next()];
    last.open();
    let late = next();
    assert_eq!(late.0, 0);
    let used: BTreeSet<_> = early.into_iter().chain([late]).map(|it| it.1).collect();
    assert_eq!(used.len(), 3);
    assert!(group.next().is_none() && group.is_empty());
    end(&pool);
}

#[testkit::test]
fn cancelling_a_group_removes_its_tasks_from_every_pool_and_frees_their_room() {
    let pool = queueing(2, 2);
    let (gates, group) = (hold_all(&pool, 2), pool.group());
    for _ in 0..4 {
        group.try_spawn(here).unwrap();
    }
    assert!(matches!(group.try_spawn(here), Err(SubmitError::Full(_))));
    assert_eq!(group.cancel(), 4);
    for index in 0..2 {
        let stats = pool.stats_of(index).unwrap();
        assert_eq!((stats.cancelled, stats.queued), (2, 0));
    }
    for _ in 0..4 {
        assert!(matches!(group.next(), Some(Err(JoinError::Cancelled))));
    }
    assert!(group.next().is_none());
    assert!(matches!(
        group.try_spawn(here),
        Err(SubmitError::Cancelled(_))
    ));
    let group = pool.group();
    for _ in 0..4 {
        group.try_spawn(here).unwrap(); // Uses the room of the cancelled tasks.
    }
    gates.iter().for_each(Gate::open);
    assert!(group.wait().is_ok());
    end(&pool);
}

#[testkit::test]
fn the_first_error_of_a_group_cancels_the_rest_in_all_pools() {
    let pool = queueing(2, 10);
    let (gates, journal) = (hold_all(&pool, 2), Journal::new());
    let group = pool.group().cancel_on_error();
    group.spawn(|| panic!("the first pool's")).unwrap();
    for n in 1..10 {
        group.spawn(journal.writer(n)).unwrap();
    }
    gates[0].open();
    assert!(matches!(group.next(), Some(Err(JoinError::Panicked(_)))));
    // The other pool's worker is still held.
    until(|| pool.stats_of(1).unwrap().cancelled == 5);
    gates[1].open();
    assert!(matches!(group.wait(), Err(JoinError::Cancelled)));
    end(&pool);
    let ran = journal.entries();
    assert!(ran.len() <= 1, "one had been taken: {ran:?}");
}

#[testkit::test]
fn a_worker_of_one_pool_runs_its_groups_tasks_of_another_pool_in_place() {
    let pool = queueing(2, 4);
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let (held, us) = (hold(&inner), here());
        let group = inner.group();
        for n in 0..4 {
            group.try_spawn(move || (n, here())).unwrap();
        }
        let mut queued = 0;
        for index in 0..2 {
            let stats = inner.stats_of(index).unwrap();
            assert!(stats.queued > 0, "both pools have some");
            queued += stats.queued;
        }
        let values: Vec<_> = std::iter::from_fn(|| group.next())
            .map(Result::unwrap)
            .collect();
        assert_eq!((queued, values), (4, (0..4).map(|n| (n, us)).collect()));
        held.open();
    });
    outer.unwrap().join().unwrap();
    end(&pool);
}

#[testkit::test]
fn invoke_any_over_several_pools_returns_the_first_success_and_cancels_the_rest() {
    let pool = queueing(2, QueueDepth::Unlimited);
    let (held, ran) = (hold(&pool), Journal::new()); // The first pool's worker.
    let tasks = (0..20_u32).map(|n| {
        let ran = ran.clone();
        move || {
            ran.write(here());
            if n < 3 { Err(n) } else { Ok(here()) }
        }
    });
    assert_eq!(pool.invoke_any(tasks).unwrap(), Some(1));
    held.open();
    pool.wait_idle().unwrap();
    // The tasks of the first pool were cancelled before its worker popped them.
    assert!(ran.entries().iter().all(|pool| *pool == 1));
    let none = pool.invoke_any([|| Err::<(), _>("only")]);
    assert!(matches!(none, Err(MapError::Failed("only"))));
    end(&pool);
}

#[testkit::test]
fn tasks_submitted_into_a_group_run_on_all_pools_and_are_awaited_or_cancelled() {
    let pool = multi(3, 1);
    let (group, all, used) = (
        pool.group::<()>(),
        Arc::new(Barrier::new(3)),
        Journal::new(),
    );
    for _ in 0..3 {
        let (all, used) = (Arc::clone(&all), used.clone());
        let task = move || {
            all.wait(); // No task continues before three workers are running.
            used.write(here());
        };
        group.submit(task).unwrap();
    }
    group.wait().unwrap();
    let used: BTreeSet<_> = used.entries().into_iter().collect();
    assert_eq!((used.len(), group.len()), (3, 0));

    let gates = hold_all(&pool, 3);
    assert!(matches!(group.try_submit(here), Err(SubmitError::Full(_))));
    gates.iter().for_each(Gate::open);
    testkit::block_on(group.submit_async(here)).unwrap();
    group.task().name("named").submit(here).unwrap();
    group.wait().unwrap();
    end(&pool);

    let pool = queueing(2, 2);
    let (gates, group) = (hold_all(&pool, 2), pool.group::<()>());
    (0..4).for_each(|_| group.submit(here).unwrap());
    assert_eq!((group.cancel(), pool.queued()), (4, 0));
    assert!(matches!(group.wait(), Err(JoinError::Cancelled)));
    gates.iter().for_each(Gate::open);
    end(&pool);
}

#[testkit::test]
fn cancelling_a_group_stops_a_task_that_its_spawn_runs_in_place() {
    let pool = queueing(2, 0);
    let held = hold(&pool);
    let group = Arc::new(pool.group());
    let (gate, ours) = (Gate::new(), Arc::clone(&group));
    let arrives = gate.clone();
    pool.submit(move || {
        let task = move || {
            arrives.wait();
            until(|| pool_core::current().is_cancelled());
        };
        ours.spawn(task).unwrap();
    })
    .unwrap();
    gate.wait_for_arrivals(1);
    assert_eq!((group.len(), group.cancel()), (1, 0));
    gate.open();
    assert!(group.wait().is_ok());
    held.open();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().cancelled, 0);
    end(&pool);
}

#[testkit::test]
fn a_cancel_returns_the_task_that_waits_for_room_in_all_pools() {
    let pool = queueing(2, 0);
    let (gates, group) = (hold_all(&pool, 2), pool.group());
    std::thread::scope(|threads| {
        let waits = threads.spawn(|| group.spawn(here).map_err(SubmitError::without_task));
        until(|| pool.waiting() == 1);
        group.cancel();
        let refused = waits.join().unwrap();
        assert!(matches!(refused, Err(SubmitError::Cancelled(()))));
    });
    gates.iter().for_each(Gate::open);
    end(&pool);
}

#[testkit::test]
fn a_multi_pool_that_runs_tasks_in_their_callers_needs_no_thread() {
    let gate = || Err(std::io::ErrorKind::Unsupported.into());
    let each = || Pool::builder().capacity(1).thread_gate(gate);
    let pool = MultiBuilder::new(each().on_full(pool_core::OnFull::RunInCaller));
    let pool = pool.pools(2).build().unwrap();
    let us = std::thread::current().id();
    let here = || std::thread::current().id();
    assert_eq!(pool.spawn(here).unwrap().join().unwrap(), us);
    let group = pool.group();
    group.spawn(here).unwrap();
    assert_eq!(group.next().unwrap().unwrap(), us);
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.refused, stats.in_flight), (2, 0, 0));

    let pool = MultiBuilder::new(each()).pools(2).build().unwrap();
    let sum: Result<u32, _> = pool.map(0..100, |n| n).sum();
    assert_eq!(sum.unwrap(), 4950);
    let refused = pool.spawn(here).map(drop);
    assert!(matches!(refused, Err(SubmitError::NoThread(..))));
}
