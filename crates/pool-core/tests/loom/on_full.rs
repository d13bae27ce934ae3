//! A full pool that discards, or whose caller runs the task: against the worker that comes to the
//! discarded task, and against its handle.

use pool_core::{JoinError, OnFull, Submit};
use sync_shim::model::spawn;

use super::{Runs, check, end, untimed};

/// The oldest is taken out as the worker, done with the one before, comes for it.
#[test]
fn a_discard_of_the_oldest_racing_its_worker_ends_each_task_once() {
    check(
        "a_discard_of_the_oldest_racing_its_worker_ends_each_task_once",
        Some(3),
        || {
            let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
            pool.submit(runs.task()).unwrap();
            let second = pool.spawn(runs.task()).unwrap();
            pool.submit_with(runs.task(), OnFull::DiscardOldest)
                .unwrap();
            let discarded = match second.join() {
                Ok(()) => 0,
                Err(JoinError::Discarded) => 1,
                Err(other) => panic!("{other}"),
            };
            pool.wait_idle().unwrap();
            assert_eq!(runs.count(), 3 - discarded);
            assert_eq!(pool.stats().discarded, discarded as u64);
            end_with(&pool, discarded);
        },
    );
}

/// The handle's cancel against the discard: one of them has the task, and its room is given once.
#[test]
fn a_discard_of_the_oldest_racing_its_cancel_has_one_winner() {
    check(
        "a_discard_of_the_oldest_racing_its_cancel_has_one_winner",
        Some(2),
        || {
            let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
            pool.submit(runs.task()).unwrap();
            let second = pool.spawn(runs.task()).unwrap();
            let cancels = spawn(move || (second.cancel(), second.join()));
            pool.submit_with(runs.task(), OnFull::DiscardOldest)
                .unwrap();
            let (cancelled, joined) = cancels.join().unwrap();
            let ran = match joined {
                Ok(()) => 1,
                Err(JoinError::Cancelled) => {
                    assert!(cancelled);
                    0
                }
                Err(JoinError::Discarded) => {
                    assert!(!cancelled);
                    0
                }
                Err(other) => panic!("{other}"),
            };
            pool.wait_idle().unwrap();
            assert_eq!(runs.count(), 2 + ran);
            let discarded = usize::try_from(pool.stats().discarded).unwrap();
            end_with(&pool, discarded);
        },
    );
}

/// The caller's task is in flight: a wait for rest waits for it, also where the workers have ended
/// theirs.
#[test]
fn a_wait_for_rest_racing_a_task_in_its_caller_waits_for_it() {
    check(
        "a_wait_for_rest_racing_a_task_in_its_caller_waits_for_it",
        Some(2),
        || {
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
        },
    );
}

/// Ends a pool that has discarded so many.
fn end_with(pool: &pool_core::Pool, discarded: usize) {
    pool.release();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.live, stats.in_flight, stats.queued), (0, 0, 0));
    let outcomes = stats.completed + stats.cancelled + discarded as u64;
    assert_eq!(stats.submitted, outcomes);
}
