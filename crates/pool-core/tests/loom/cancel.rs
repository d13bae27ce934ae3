//! Cancel tokens: a cancel against waits, new children, the start of a task, and the hand-over of
//! room.

use std::sync::Arc;

use pool_core::{CancelToken, JoinError, SubmitError, current};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

/// A wait against a cancel: the waiter is woken, and sees the writes before the cancel.
#[testkit::model(preemptions = 3)]
fn a_wait_for_a_token_racing_its_cancel_ends() {
    let (token, written) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
    let child = token.child();
    let canceller = {
        let written = Arc::clone(&written);
        spawn(move || {
            written.store(7, Relaxed);
            assert!(token.cancel());
        })
    };
    child.wait();
    assert_eq!(written.load(Relaxed), 7);
    canceller.join().unwrap();
}

/// A check against a cancel: a thread that finds the token cancelled sees the writes before the
/// cancel.
#[testkit::model(preemptions = 3)]
fn a_thread_that_finds_a_token_cancelled_sees_earlier_writes() {
    let (token, written) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
    let looker = {
        let (token, written) = (token.clone(), Arc::clone(&written));
        spawn(move || {
            // A single check, because after a yield a thread of a model reads no stale values.
            if token.is_cancelled() {
                assert_eq!(written.load(Relaxed), 7);
            }
        })
    };
    written.store(7, Relaxed);
    token.cancel();
    looker.join().unwrap();
}

/// A future that registers, against a cancel: it is woken.
#[testkit::model(preemptions = 3)]
fn an_awaited_token_racing_its_cancel_resolves() {
    let token = CancelToken::new();
    let canceller = {
        let token = token.clone();
        spawn(move || token.cancel())
    };
    loom::future::block_on(token.cancelled());
    canceller.join().unwrap();
}

/// A new child against a cancel: every child is cancelled. Another child is dropped at the same
/// time.
#[testkit::model(preemptions = 3)]
fn a_child_made_while_its_parent_is_cancelled_is_cancelled() {
    let token = CancelToken::new();
    let going = token.child();
    let canceller = {
        let token = token.clone();
        spawn(move || token.cancel())
    };
    let child = token.child();
    drop(going);
    canceller.join().unwrap();
    assert!(child.is_cancelled());
}

/// A cancel against the start of the task: it runs, or is counted as cancelled. The handle tells
/// which.
#[testkit::model(preemptions = 2)]
fn a_token_cancelled_as_its_task_starts_has_one_outcome() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let token = CancelToken::new();
    let task = pool.task().cancelled_by(&token);
    let handle = task.spawn(runs.task()).unwrap();
    token.cancel();
    match handle.join() {
        Ok(()) => assert_eq!(runs.count(), 1),
        Err(JoinError::Cancelled) => {
            assert_eq!((runs.count(), pool.stats().cancelled), (0, 1));
        }
        Err(other) => panic!("{other}"),
    }
    end(&pool);
}

/// `JoinHandle::cancel` against a running task that takes its token: the token is cancelled.
#[testkit::model(preemptions = 2)]
fn a_task_that_takes_its_token_while_its_handle_cancels_is_cancelled() {
    let pool = untimed(1).build().unwrap();
    let handle = pool.spawn(|| current().token().wait()).unwrap();
    let taken_back = handle.cancel();
    match handle.join() {
        Ok(is_cancelled) => assert!(is_cancelled && !taken_back),
        Err(JoinError::Cancelled) => assert!(taken_back),
        Err(other) => panic!("{other}"),
    }
    end(&pool);
}

/// `release_now` against a running task that takes its token: the token is cancelled.
#[testkit::model(preemptions = 2)]
fn a_task_that_takes_its_token_during_a_release_now_is_cancelled() {
    let pool = untimed(1).build().unwrap();
    pool.submit(|| current().token().wait()).unwrap();
    pool.release_now();
    end(&pool);
}

/// The cancel of a waiting submit against the hand-over of room: the task is accepted or returned,
/// and the thread is woken.
#[testkit::model(preemptions = 2)]
fn a_cancelled_submit_racing_the_hand_over_has_one_outcome() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let token = CancelToken::new();
    let submitter = {
        let (pool, token, task) = (pool.clone(), token.clone(), runs.task());
        spawn(
            move || match pool.task().cancelled_by(&token).submit(task) {
                Ok(()) => true,
                Err(SubmitError::Cancelled(_)) => false,
                Err(other) => panic!("{other}"),
            },
        )
    };
    token.cancel();
    let accepted = submitter.join().unwrap();
    pool.wait_idle().unwrap();
    let ran = runs.count() + usize::try_from(pool.stats().cancelled).unwrap();
    assert_eq!(ran, 1 + usize::from(accepted));
    end(&pool);
}

/// The cancel of a submit that sleeps at a full pool wakes it.
#[testkit::model(preemptions = 2)]
fn cancelling_its_token_wakes_a_sleeping_submit() {
    let pool = untimed(1).build().unwrap();
    let (block, token) = (CancelToken::new(), CancelToken::new());
    let held = block.clone();
    pool.submit(move || held.wait()).unwrap();
    let submitter = {
        let (pool, token) = (pool.clone(), token.clone());
        spawn(move || pool.task().cancelled_by(&token).submit(|| ()).is_err())
    };
    token.cancel();
    assert!(submitter.join().unwrap());
    block.cancel();
    end(&pool);
}
