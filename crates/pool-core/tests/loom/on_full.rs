//! Full pools that discard a task or run it in the caller, against the worker that pops the
//! discarded task, and against its handle.

use pool_core::{JoinError, OnFull, Pool, Submit};
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

/// The oldest task is discarded while a worker pops it.
#[testkit::model(preemptions = 3)]
fn a_discard_of_the_oldest_racing_its_worker_ends_each_task_once() {
    let (pool, runs) = (discards(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let second = pool.spawn(runs.task()).unwrap();
    pool.submit_with(runs.task(), OnFull::DiscardOldest)
        .unwrap();
    let joined = second.join();
    pool.wait_idle().unwrap();
    // The oldest task is the first one, unless its worker has popped it already.
    let discarded = usize::try_from(pool.stats().discarded).unwrap();
    match joined {
        Ok(()) => {}
        Err(JoinError::Discarded) => assert_eq!(discarded, 1),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(runs.count(), 3 - discarded);
    end_with(&pool, discarded);
}

/// `JoinHandle::cancel` against the discard: one of them takes the task, and its room is freed
/// once.
#[testkit::model(preemptions = 2)]
fn a_discard_of_the_oldest_racing_its_cancel_has_one_winner() {
    let (pool, runs) = (discards(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let second = pool.spawn(runs.task()).unwrap();
    let cancels = spawn(move || (second.cancel(), second.join()));
    pool.submit_with(runs.task(), OnFull::DiscardOldest)
        .unwrap();
    let (cancelled, joined) = cancels.join().unwrap();
    pool.wait_idle().unwrap();
    let discarded = usize::try_from(pool.stats().discarded).unwrap();
    match joined {
        Ok(()) => assert!(!cancelled),
        Err(JoinError::Cancelled) => assert!(cancelled),
        Err(JoinError::Discarded) => assert!(!cancelled && discarded == 1),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(runs.count(), 3 - discarded - usize::from(cancelled));
    end_with(&pool, discarded);
}

/// A task in its caller is in flight: `wait_idle` waits for it, even if the workers have no task.
#[testkit::model(preemptions = 2)]
fn wait_idle_racing_a_task_in_its_caller_waits_for_it() {
    let pool = untimed(1).on_full(OnFull::RunInCaller).build().unwrap();
    let runs = Runs::new();
    pool.submit(runs.task()).unwrap();
    let (ours, second) = (pool.clone(), runs.task());
    let caller = spawn(move || ours.submit(second).unwrap());
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!(stats.completed + stats.in_flight as u64, stats.submitted);
    caller.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// One worker, a queue of depth one, and a discard hook.
fn discards() -> Pool {
    let builder = untimed(1).queue_depth(1).discard_hook(|_| ());
    builder.build().unwrap()
}

/// Ends a pool and compares the number of discarded tasks.
fn end_with(pool: &Pool, discarded: usize) {
    pool.release();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.live, stats.in_flight, stats.queued), (0, 0, 0));
    let outcomes = stats.completed + stats.cancelled + discarded as u64;
    assert_eq!(stats.submitted, outcomes);
}
