//! Groups, and the first success of several, on all pools. How it is done is pool-core's; here is that
//! all the pools take part, and that what is taken back is taken out of the pool that has it.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};

use multi_pool::{MultiPool, MultiPoolExt};
use pool_core::{JoinError, Pool, QueueDepth, SubmitError};
use pool_util::{MapError, PoolExt};
use testkit::Gate;

use crate::support::{Journal, end, here, hold, hold_all, multi, until};

fn queueing(pools: usize, depth: impl Into<QueueDepth>) -> MultiPool {
    let each = Pool::builder().capacity(1).queue_depth(depth);
    MultiPool::builder(each).pools(pools).build().unwrap()
}

#[testkit::test]
fn a_groups_tasks_run_on_the_workers_of_all_pools_and_are_taken_as_they_end() {
    let pool = multi(3, 1);
    let (group, all, last) = (pool.group(), Arc::new(Barrier::new(3)), Gate::new());
    for n in 0..3 {
        let (all, last) = (Arc::clone(&all), last.clone());
        let task = move || {
            all.wait(); // None goes on before three workers are there.
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
fn a_groups_cancel_takes_its_tasks_out_of_every_pools_queue_and_frees_their_room() {
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
    for _ in 0..4 {
        group.try_spawn(here).unwrap(); // In the room of those.
    }
    gates.iter().for_each(Gate::open);
    assert!(group.wait().is_ok());
    end(&pool);
}

#[testkit::test]
fn the_first_error_of_a_group_cancels_the_rest_in_the_other_pools_too() {
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
fn a_worker_of_one_pool_runs_what_its_group_has_in_another_in_place() {
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
fn of_tasks_in_several_pools_the_first_that_succeeds_is_taken_and_the_rest_cancelled() {
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
    // What the first pool had was taken back before its worker came to it.
    assert!(ran.entries().iter().all(|pool| *pool == 1));
    let none = pool.invoke_any([|| Err::<(), _>("only")]);
    assert!(matches!(none, Err(MapError::Failed("only"))));
    end(&pool);
}

#[testkit::test]
fn what_is_submitted_into_a_group_runs_on_all_pools_and_is_waited_for_and_taken_back() {
    let pool = multi(3, 1);
    let (group, all, used) = (
        pool.group::<()>(),
        Arc::new(Barrier::new(3)),
        Journal::new(),
    );
    for _ in 0..3 {
        let (all, used) = (Arc::clone(&all), used.clone());
        let task = move || {
            all.wait(); // None goes on before three workers are there.
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
