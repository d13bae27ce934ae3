//! Loans of room: a task waits for a queued one of its own full pool, against cancels, releases, failures and room.

use std::sync::Arc;

use async_pool::{AsyncPool, DropPolicy, JoinError, JoinHandle, yield_now};
use sync_shim::Mutex;
use sync_shim::model::spawn;

use super::{Count, Signal, end, pool};

/// A pool with one worker and room for one live task and `depth` queued ones.
fn pool_of_one(depth: usize) -> AsyncPool {
    AsyncPool::builder()
        .workers(1)
        .capacity(1)
        .queue_depth(depth)
        .drop_policy(DropPolicy::Drain)
        .build()
        .unwrap()
}

/// The end of another task hands room to a child that its parent has just lent room, or is about to: it starts once.
#[testkit::model(preemptions = 2)]
fn a_loan_racing_room_for_the_child_starts_it_once() {
    let (pool, runs) = (pool(2, 2), Count::new());
    pool.submit(async {}).unwrap();
    let (inner, counted) = (pool.clone(), runs.clone());
    let parent = pool.spawn(async move {
        let child = async move {
            yield_now().await;
            counted.add();
            5
        };
        inner.spawn_async(child).await.unwrap().await.unwrap()
    });
    assert_eq!(parent.unwrap().join().unwrap(), 5);
    assert_eq!(runs.get(), 1);
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().submitted, 3);
    end(&pool);
}

/// A waiting spawn is served, and its handle is awaited by the task that has all room, before the section that serves it has
/// ended: the task waits until it knows where the other one is, and lends it its room.
#[testkit::model(preemptions = 2)]
fn an_await_racing_the_acceptance_of_its_task_lends_room() {
    let pool = pool_of_one(1);
    let (signal, slot) = (Signal::new(), Arc::new(Mutex::new(None)));
    let permit = pool.try_reserve().unwrap();
    let (waits, takes) = (Arc::clone(&signal).wait(), Arc::clone(&slot));
    pool.submit(async move {
        waits.await;
        let handle: JoinHandle<u32> = takes.lock().take().unwrap();
        assert_eq!(handle.await.unwrap(), 6);
    })
    .unwrap();
    let returns = spawn(move || drop(permit));
    *slot.lock() = Some(pool.spawn(async { 6 }).unwrap());
    signal.set();
    pool.wait_idle().unwrap();
    returns.join().unwrap();
    end(&pool);
}

/// A cancel of the group against the loan: the child ends, cancelled or with its value, and its parent learns of that.
#[testkit::model(preemptions = 3)]
fn a_cancel_racing_a_loan_ends_the_child_and_its_parent() {
    let (pool, drops) = (pool_of_one(1), Count::new());
    let group = Arc::new(pool.group());
    let (guard, waits) = (drops.on_drop(), Arc::clone(&group));
    let parent = pool.spawn(async move {
        let child = async move {
            let _guard = guard;
            yield_now().await;
            7
        };
        match waits.spawn(child) {
            Ok(()) => waits.next_async().await.unwrap(),
            Err(_) => Err(JoinError::Cancelled),
        }
    });
    group.cancel();
    let child = parent.unwrap().join().unwrap();
    assert!(matches!(child, Ok(7) | Err(JoinError::Cancelled)));
    assert_eq!(drops.get(), 1);
    end(&pool);
}

/// A `release_now` against the loan: the child and its parent are dropped once, or have ended.
#[testkit::model(preemptions = 3)]
fn a_release_now_racing_a_loan_drops_parent_and_child() {
    let (pool, drops) = (pool_of_one(1), Count::new());
    let (inner, guards) = (pool.clone(), [drops.on_drop(), drops.on_drop()]);
    let parent = pool.spawn(async move {
        let [guard, child] = guards;
        let _guard = guard;
        match inner.spawn(async move { drop(child) }) {
            Ok(child) => child.await.is_ok(),
            Err(_) => false,
        }
    });
    pool.release_now();
    pool.wait_released().unwrap();
    let parent = parent.unwrap().join();
    assert!(matches!(parent, Ok(_) | Err(JoinError::Released)));
    assert_eq!(drops.get(), 2);
    let stats = pool.stats();
    assert_eq!((stats.in_flight, stats.lending), (0, 0));
}

/// A sibling that fails against the loan to the other member: both end, and the parent gets both answers.
#[testkit::model(preemptions = 2)]
fn a_failed_sibling_racing_a_loan_ends_the_group() {
    let pool = AsyncPool::builder()
        .workers(2)
        .capacity(2)
        .queue_depth(1)
        .drop_policy(DropPolicy::Drain)
        .build()
        .unwrap();
    let inner = pool.clone();
    let parent = pool.spawn(async move {
        let group = inner.group::<Result<(), ()>>().cancel_on_failure();
        group.spawn(async { Err(()) }).unwrap();
        _ = group.spawn(async {
            yield_now().await;
            Ok(())
        });
        group.wait_ok_async().await
    });
    assert!(matches!(parent.unwrap().join().unwrap(), Ok(Err(()))));
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A child in its parent's room ends as the parent waits for the next one, whose wait nobody polls: it starts.
#[testkit::model(preemptions = 3)]
fn the_end_of_a_child_racing_the_next_wait_lends_room_again() {
    let (pool, runs) = (pool_of_one(0), Count::new());
    let (inner, counted) = (pool.clone(), runs.clone());
    let parent = pool.spawn(async move {
        for _ in 0..2 {
            let counted = counted.clone();
            inner
                .submit_async(async move { counted.add() })
                .await
                .unwrap();
        }
    });
    parent.unwrap().join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.get(), 2);
    end(&pool);
}

/// A permit in its parent's room is returned by another thread as the parent ends: the room is free once.
#[testkit::model(preemptions = 2)]
fn a_lent_permit_returned_racing_its_parents_end_frees_the_room_once() {
    let (pool, slot) = (pool_of_one(0), Arc::new(Mutex::new(None)));
    let (inner, puts) = (pool.clone(), Arc::clone(&slot));
    let (signal, given) = (Signal::new(), Signal::new());
    let (waits, gives) = (Arc::clone(&signal).wait(), Arc::clone(&given));
    let parent = pool.spawn(async move {
        *puts.lock() = Some(inner.reserve_async().await.unwrap());
        gives.set();
        waits.await;
    });
    loom::future::block_on(given.wait());
    let returns = spawn(move || drop(slot.lock().take()));
    signal.set();
    parent.unwrap().join().unwrap();
    returns.join().unwrap();
    let room = pool.try_reserve().unwrap();
    assert!(pool.try_reserve().is_err());
    drop(room);
    end(&pool);
}
