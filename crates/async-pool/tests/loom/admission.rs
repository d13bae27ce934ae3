//! Room: permits, the wait queue, and waits that are given up.

use async_pool::SubmitError;
use sync_shim::model::spawn;

use super::{Count, end, poll, pool};

/// Step A3 against A4: the room of a permit against a future's wait that is dropped. The task runs, or is dropped with its
/// wait; the room is free.
#[testkit::model(preemptions = 3)]
fn room_handed_over_racing_a_dropped_submit_loses_neither_task_nor_room() {
    let (pool, drops, runs) = (pool(1, 1), Count::new(), Count::new());
    let permit = pool.try_reserve().unwrap();
    let (guard, counted) = (drops.on_drop(), runs.clone());
    let mut wait = pool.submit_async(async move {
        let _guard = guard;
        counted.add();
    });
    assert!(poll(&mut wait).is_pending());
    let returns = spawn(move || drop(permit));
    drop(wait);
    returns.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(
        (drops.get(), runs.get() as u64),
        (1, pool.stats().submitted)
    );
    drop(pool.try_reserve().unwrap());
    end(&pool);
}

/// The same for a wait for a permit: the room that the wait was given is returned.
#[testkit::model(preemptions = 3)]
fn room_handed_over_racing_a_dropped_reserve_is_returned() {
    let pool = pool(1, 1);
    let permit = pool.try_reserve().unwrap();
    let mut wait = pool.reserve_async();
    assert!(poll(&mut wait).is_pending());
    let returns = spawn(move || drop(permit));
    drop(wait);
    returns.join().unwrap();
    drop(pool.try_reserve().unwrap());
    end(&pool);
}

/// Step A2 against A3: a permit that is returned while a thread finds the pool full and sleeps.
#[testkit::model(preemptions = 2)]
fn a_permit_returned_racing_a_waiting_reserve_wakes_it() {
    let pool = pool(1, 1);
    let permit = pool.try_reserve().unwrap();
    let returns = spawn(move || drop(permit));
    let next = pool.reserve().unwrap();
    assert_eq!(next.spawn(async { 3 }).join().unwrap(), 3);
    returns.join().unwrap();
    end(&pool);
}

/// The same for a future, which leaves its waker after it has entered the queue.
#[testkit::model(preemptions = 3)]
fn a_permit_returned_racing_a_polled_reserve_wakes_it() {
    let pool = pool(1, 1);
    let permit = pool.try_reserve().unwrap();
    let returns = spawn(move || drop(permit));
    drop(loom::future::block_on(pool.reserve_async()).unwrap());
    returns.join().unwrap();
    end(&pool);
}

/// The end of a task against a thread that waits for its room.
#[testkit::model(preemptions = 2)]
fn a_tasks_end_racing_a_waiting_submit_admits_it() {
    let (pool, runs) = (pool(1, 1), Count::new());
    for _ in 0..2 {
        let counted = runs.clone();
        pool.submit(async move { counted.add() }).unwrap();
    }
    pool.wait_idle().unwrap();
    assert_eq!(runs.get(), 2);
    assert_eq!(pool.stats().peak_live, 1);
    end(&pool);
}

/// Two callers and room for one task at a time: neither exceeds the capacity, both run.
#[testkit::model(preemptions = 2)]
fn two_submits_racing_for_the_last_room_exceed_no_capacity() {
    let (pool, runs) = (pool(1, 1), Count::new());
    let (other, counted) = (pool.clone(), runs.clone());
    let submits = spawn(move || other.submit(async move { counted.add() }).unwrap());
    let counted = runs.clone();
    pool.submit(async move { counted.add() }).unwrap();
    submits.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((runs.get(), pool.stats().peak_live), (2, 1));
    end(&pool);
}

/// A release against a thread that waits for room: it gets its future back, or runs it.
#[testkit::model(preemptions = 3)]
fn a_release_racing_a_waiting_submit_returns_the_future() {
    let (pool, drops) = (pool(1, 1), Count::new());
    let permit = pool.try_reserve().unwrap();
    let other = pool.clone();
    let releases = spawn(move || other.release());
    let guard = drops.on_drop();
    let Err(SubmitError::Released(future)) = pool.submit(async move { drop(guard) }) else {
        panic!("the permit has all room")
    };
    assert_eq!(drops.get(), 0, "it was not dropped");
    drop(future);
    releases.join().unwrap();
    drop(permit);
    end(&pool);
}
