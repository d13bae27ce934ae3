//! Releases, reboots, and the end of a pool.

use async_pool::{AsyncPool, DropPolicy, JoinError, SubmitError, yield_now};
use sync_shim::model::spawn;

use super::{Count, end, pool};

/// A spawn against a `release_now`: the future runs, is dropped once by the pool, or is returned.
#[testkit::model(preemptions = 3)]
fn a_release_now_racing_a_spawn_drops_the_future_once() {
    let (pool, drops) = (pool(1, 1), Count::new());
    let other = pool.clone();
    let releases = spawn(move || other.release_now());
    let guard = drops.on_drop();
    let spawned = pool.spawn(async move {
        let _guard = guard;
        yield_now().await;
    });
    match spawned {
        Ok(task) => assert!(matches!(task.join(), Ok(()) | Err(JoinError::Released))),
        Err(SubmitError::Released(future)) => drop(future),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(drops.get(), 1);
    releases.join().unwrap();
    pool.wait_released().unwrap();
    end(&pool);
}

/// Step E2: the futures that a `release_now` drops itself, against the end of the last task: the end comes after both.
#[testkit::model(preemptions = 3)]
fn the_end_racing_a_release_now_comes_after_the_last_drop() {
    let pool = AsyncPool::builder()
        .workers(1)
        .capacity(1)
        .queue_depth(1)
        .drop_policy(DropPolicy::Drain)
        .build()
        .unwrap();
    let drops = Count::new();
    for _ in 0..2 {
        let guard = drops.on_drop();
        pool.submit(async move { drop(guard) }).unwrap();
    }
    let other = pool.clone();
    let releases = spawn(move || other.release_now());
    // The release may not have begun.
    pool.wait_idle().unwrap();
    assert_eq!(drops.get(), 2);
    releases.join().unwrap();
    end(&pool);
}

/// The drop of the last handle against a wait for the end.
#[testkit::model(preemptions = 3)]
fn the_last_drop_racing_a_wait_for_the_end_ends_it() {
    let (pool, drops) = (pool(1, 1), Count::new());
    let guard = drops.on_drop();
    pool.submit(async move { drop(guard) }).unwrap();
    let ended = pool.wait_released_async();
    let drops_pool = spawn(move || drop(pool));
    loom::future::block_on(ended).unwrap();
    assert_eq!(drops.get(), 1);
    drops_pool.join().unwrap();
}

/// The drop of the last handle, which waits, against a task that runs.
#[testkit::model(preemptions = 3)]
fn the_last_drop_racing_a_task_waits_for_it() {
    let drops = Count::new();
    let guard = drops.on_drop();
    let pool = AsyncPool::builder()
        .workers(2)
        .capacity(1)
        .drop_policy(DropPolicy::Join)
        .build()
        .unwrap();
    pool.submit(async move { drop(guard) }).unwrap();
    drop(pool);
    assert_eq!(drops.get(), 1);
}

/// Step E3 against E4: the last task of a released pool ends while the pool is opened again. Its worker stays or is
/// replaced.
#[testkit::model(preemptions = 3)]
fn a_reboot_racing_the_workers_end_leaves_a_worker() {
    let (pool, runs) = (pool(1, 1), Count::new());
    let counted = runs.clone();
    pool.submit(async move { counted.add() }).unwrap();
    pool.release();
    assert!(pool.reboot().unwrap());
    assert_eq!(pool.spawn(async { 5 }).unwrap().join().unwrap(), 5);
    assert_eq!(runs.get(), 1);
    end(&pool);
}

/// A release against a reboot: the pool is open and has a worker, or it ends.
#[testkit::model(preemptions = 2)]
fn a_release_racing_a_reboot_leaves_an_open_pool_or_an_ended_one() {
    let pool = pool(1, 1);
    pool.release();
    let other = pool.clone();
    let releases = spawn(move || other.release());
    assert!(pool.reboot().unwrap());
    releases.join().unwrap();
    match pool.spawn(async { 5 }) {
        Ok(task) => assert_eq!(task.join().unwrap(), 5),
        Err(SubmitError::Released(_)) => {}
        Err(other) => panic!("{other}"),
    }
    end(&pool);
}

/// The same with a `release_now`: an open pool drops no task.
#[testkit::model(preemptions = 2)]
fn a_release_now_racing_a_reboot_leaves_no_open_pool_that_drops_tasks() {
    let pool = pool(1, 1);
    pool.release();
    let other = pool.clone();
    let releases = spawn(move || other.release_now());
    assert!(pool.reboot().unwrap());
    releases.join().unwrap();
    match pool.spawn(async { 5 }) {
        Ok(task) => assert_eq!(task.join().unwrap(), 5),
        Err(SubmitError::Released(_)) => {}
        Err(other) => panic!("{other}"),
    }
    end(&pool);
}

/// Two reboots: one opens the pool, and there is one worker.
#[testkit::model(preemptions = 1)]
fn two_reboots_racing_start_each_worker_once() {
    let pool = pool(1, 1);
    pool.release();
    pool.wait_released().unwrap();
    let other = pool.clone();
    let reboots = spawn(move || other.reboot().unwrap());
    let ours = pool.reboot().unwrap();
    assert!(reboots.join().unwrap() ^ ours);
    assert_eq!(pool.spawn(async { 5 }).unwrap().join().unwrap(), 5);
    end(&pool);
}

/// A permit of a released pool is used while the worker looks for the end.
#[testkit::model(preemptions = 3)]
fn a_permit_used_racing_the_end_of_a_released_pool_runs_its_task() {
    let pool = pool(1, 1);
    let permit = pool.try_reserve().unwrap();
    let other = pool.clone();
    let releases = spawn(move || other.release());
    assert_eq!(permit.spawn(async { 6 }).join().unwrap(), 6);
    releases.join().unwrap();
    end(&pool);
}

/// The end of the last task against a wait for an idle pool.
#[testkit::model(preemptions = 3)]
fn a_wait_for_idleness_racing_the_last_task_returns_after_it() {
    let (pool, runs) = (pool(1, 1), Count::new());
    let counted = runs.clone();
    pool.submit(async move { counted.add() }).unwrap();
    loom::future::block_on(pool.wait_idle_async()).unwrap();
    assert_eq!(runs.get(), 1);
    end(&pool);
}
