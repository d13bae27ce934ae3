//! Waits of tasks for their own pool, by the rows of docs/decisions/deadlocks.md.
#![expect(clippy::unwrap_used, reason = "a test that fails is to panic")]

use std::future::{Future, ready};
use std::time::Duration;

use async_pool::{
    AsyncPool, DropPolicy, JoinError, ManualClock, QueueDepth, SubmitError, WaitError,
};
use futures_lite::future::{block_on, poll_once};

use crate::{STEP, join_as_time_passes, pool};

const SECOND: Duration = Duration::from_secs(1);

/// Runs a future in the only task of a full pool, whose clock stands still.
fn in_a_full_pool<F>(task: impl FnOnce(AsyncPool) -> F) -> F::Output
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let pool = AsyncPool::builder().workers(1).capacity(1);
    let pool = pool.clock(ManualClock::new()).build().unwrap();
    let task = task(pool.clone());
    pool.spawn(task).unwrap().join().unwrap()
}

#[testkit::test]
fn blocking_calls_that_need_room_are_refused_in_a_task_of_a_full_pool() {
    in_a_full_pool(|pool| async move {
        let group = pool.group::<()>();
        let refused = [
            pool.submit(ready(())).map_err(SubmitError::without_task),
            pool.submit_timeout(ready(()), SECOND)
                .map_err(SubmitError::without_task),
            pool.spawn(ready(()))
                .map(drop)
                .map_err(SubmitError::without_task),
            pool.spawn_timeout(ready(()), SECOND)
                .map(drop)
                .map_err(SubmitError::without_task),
            pool.reserve().map(drop),
            pool.reserve_timeout(SECOND).map(drop),
            group.spawn(ready(())).map_err(SubmitError::without_task),
            group
                .spawn_timeout(ready(()), SECOND)
                .map_err(SubmitError::without_task),
        ];
        for refused in refused {
            assert!(refused.unwrap_err().is_full());
        }
    });
}

#[testkit::test]
fn futures_that_need_room_end_in_the_only_task_of_a_full_pool() {
    in_a_full_pool(|pool| async move {
        pool.submit_async(ready(())).await.unwrap();
        assert_eq!(pool.spawn_async(ready(1)).await.unwrap().await.unwrap(), 1);
        let permit = pool.reserve_async().await.unwrap();
        assert_eq!(permit.spawn(ready(2)).await.unwrap(), 2);
        let group = pool.group();
        for n in 0..6 {
            group.spawn_async(ready(Ok::<_, ()>(n))).await.unwrap();
        }
        assert_eq!(group.next_async().await.unwrap().unwrap(), Ok(0));
        group.wait_ok_async().await.unwrap().unwrap();
        group.spawn_async(ready(Ok(7))).await.unwrap();
        group.wait_async().await.unwrap();
        let mut map = pool.map(0..3, 2, ready);
        while let Some(next) = map.next_async().await {
            next.unwrap();
        }
        let parse = |n| ready(Ok::<_, ()>(n));
        let map = pool.map(0..3, 2, parse).unordered();
        map.finish().await.unwrap().unwrap();
        let each = |_| ready(Ok::<_, ()>(()));
        let each = pool.for_each_concurrent(0..3, 2, each);
        each.await.unwrap().unwrap();
    });
}

#[testkit::test]
fn waits_for_the_rest_of_the_own_pool_would_deadlock() {
    in_a_full_pool(|pool| async move {
        let idle = [
            pool.wait_idle(),
            pool.wait_idle_timeout(SECOND),
            pool.wait_idle_async().await,
        ];
        pool.release();
        let end = [
            pool.wait_released(),
            pool.wait_released_timeout(SECOND),
            pool.wait_released_async().await,
        ];
        for answer in idle.into_iter().chain(end) {
            assert_eq!(answer, Err(WaitError::WouldDeadlock));
        }
    });
}

#[testkit::test]
fn a_blocking_join_in_a_task_returns_only_a_value_that_is_there() {
    let pool = pool(1, 3);
    let inner = pool.clone();
    let task = pool.spawn(async move {
        let child = inner.spawn(ready(1)).unwrap();
        assert!(matches!(child.join(), Err(JoinError::WouldDeadlock)));
        let child = inner.spawn_async(ready(2)).await.unwrap();
        let child = child.join_timeout(Duration::ZERO).unwrap_err();
        while !child.is_finished() {
            async_pool::yield_now().await;
        }
        child.join().unwrap()
    });
    assert_eq!(task.unwrap().join().unwrap(), 2);
}

#[testkit::test]
fn a_blocking_join_with_a_limit_waits_for_another_worker() {
    let pool = pool(2, 2);
    let inner = pool.clone();
    let task = pool.spawn(async move {
        let child = inner.spawn(ready(3)).unwrap();
        child.join_timeout(Duration::MAX).unwrap().unwrap()
    });
    assert_eq!(task.unwrap().join().unwrap(), 3);
}

#[testkit::test]
fn blocking_waits_for_a_group_detach_its_tasks_in_a_task() {
    let pool = pool(1, 8);
    let inner = pool.clone();
    let task = pool.spawn(async move {
        let group = inner.group::<Result<(), ()>>();
        let add = || group.spawn(ready(Ok(()))).unwrap();
        add();
        assert!(matches!(group.next(), Some(Err(JoinError::WouldDeadlock))));
        add();
        assert!(matches!(
            group.next_timeout(Duration::MAX),
            Ok(Some(Err(JoinError::WouldDeadlock)))
        ));
        add();
        add();
        assert!(matches!(group.wait(), Err(JoinError::WouldDeadlock)));
        assert!(group.is_empty());
        add();
        assert!(matches!(group.wait_ok(), Err(JoinError::WouldDeadlock)));
        assert!(group.is_empty());
    });
    task.unwrap().join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 6, "detached tasks run");
}

#[testkit::test]
fn the_last_handle_may_be_dropped_while_futures_wait() {
    let handle = || {
        let pool = AsyncPool::builder().workers(1).capacity(1);
        let pool = pool.queue_depth(QueueDepth::Unlimited);
        pool.drop_policy(DropPolicy::Drain).build().unwrap()
    };
    let pool = handle();
    let (ends, idle) = (pool.wait_released_async(), pool.wait_idle_async());
    let (submit, spawn) = (pool.submit_async(ready(())), pool.spawn_async(ready(())));
    let accepted = pool.spawn(ready(1)).unwrap();
    drop(pool);
    assert!(matches!(block_on(submit), Err(SubmitError::Released(_))));
    assert!(matches!(block_on(spawn), Err(SubmitError::Released(_))));
    assert_eq!(accepted.join().unwrap(), 1);
    block_on(idle).unwrap();
    block_on(ends).unwrap();
    // These keep the pool open.
    let reserve = handle().reserve_async();
    assert_eq!(
        block_on(reserve).unwrap().spawn(ready(2)).join().unwrap(),
        2
    );
    let group = handle().group();
    group.spawn(ready(3)).unwrap();
    assert_eq!(group.next().unwrap().unwrap(), 3);
    let mut map = handle().map([4], 1, ready);
    assert_eq!(block_on(map.next_async()).unwrap().unwrap(), 4);
}

#[testkit::test]
fn a_held_permit_delays_the_end_of_a_pool_and_not_its_idleness() {
    let pool = pool(1, 1);
    let permit = pool.reserve().unwrap();
    pool.wait_idle().unwrap();
    pool.release();
    let mut ends = pool.wait_released_async();
    assert!(block_on(poll_once(&mut ends)).is_none());
    assert!(matches!(
        pool.wait_released_timeout(Duration::ZERO),
        Err(WaitError::TimedOut)
    ));
    drop(permit);
    block_on(ends).unwrap();
}

#[testkit::test]
fn a_task_that_waits_while_it_holds_the_permit_of_its_room_gets_more_after_a_second() {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder().workers(1).capacity(1).queue_depth(1);
    let pool = pool.clock(clock.clone()).build().unwrap();
    let inner = pool.clone();
    let task = pool.spawn(async move {
        let queued = inner.spawn(ready(5)).unwrap();
        let permit = inner.reserve_async().await.unwrap();
        let value = queued.await.unwrap();
        drop(permit);
        value
    });
    assert_eq!(join_as_time_passes(task.unwrap(), &clock, STEP), 5);
}

#[testkit::test]
fn a_drop_of_the_last_handle_in_a_task_does_not_join_the_workers() {
    let pool = AsyncPool::builder().workers(1).capacity(1);
    let pool = pool.drop_policy(DropPolicy::Join).build().unwrap();
    let (inner, ends) = (pool.clone(), pool.wait_released_async());
    let (go, may_go) = std::sync::mpsc::channel();
    let task = pool.spawn(async move {
        may_go.recv().unwrap();
        drop(inner);
    });
    drop(pool);
    go.send(()).unwrap();
    task.unwrap().join().unwrap();
    block_on(ends).unwrap();
}
