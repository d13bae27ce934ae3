//! Mappings: the owner that fetches, the drain tasks, and events between their turns. In a model,
//! each turn has one piece.

use std::sync::Arc;

use pool_core::SubmitError;
use pool_util::{MapError, PoolExt};
use sync_shim::Parker;
use sync_shim::atomic::AtomicUsize;
use sync_shim::atomic::Ordering::Relaxed;
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

/// The owner sleeps for the head, against the drain task that settles it and ends.
#[testkit::model(preemptions = 2)]
fn a_fetch_racing_the_last_drain_task_gets_each_result_in_order() {
    let pool = untimed(1).build().unwrap();
    let results = pool.map([1, 2], |n| n).window(1);
    let results: Vec<u32> = results.map(Result::unwrap).collect();
    assert_eq!(results, [1, 2]);
    pool.wait_idle().unwrap();
    end(&pool);
}

/// Two drain tasks: the second item may end before the head, whose result wakes the owner.
#[testkit::model(preemptions = 2)]
fn a_later_item_that_ends_first_does_not_leave_the_owner_asleep() {
    let pool = untimed(2).build().unwrap();
    let results = pool.map([1, 2], |n| n).window(2);
    let results: Vec<u32> = results.map(Result::unwrap).collect();
    assert_eq!(results, [1, 2]);
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A turn ends while another caller's task has taken the room: the drain task is refused, and the
/// owner, which may be asleep, submits the next one.
#[testkit::model(preemptions = 2)]
fn a_turn_that_ends_at_a_full_pool_strands_no_item() {
    let (pool, runs) = (untimed(1).queue_depth(0).build().unwrap(), Runs::new());
    let (other, task) = (pool.clone(), runs.task());
    let other = spawn(move || other.submit(task).unwrap());
    let results = pool.map([1, 2], |n| n).window(2);
    let results: Vec<u32> = results.map(Result::unwrap).collect();
    assert_eq!(results, [1, 2]);
    other.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// A drop between two results: the second item runs once or never, and its worker releases
/// everything.
#[testkit::model(preemptions = 2)]
fn a_mapping_that_is_dropped_racing_its_worker_leaks_nothing() {
    let (pool, calls) = (untimed(1).build().unwrap(), Arc::new(AtomicUsize::new(0)));
    let kept = Arc::new(());
    let (counter, held) = (Arc::clone(&calls), Arc::clone(&kept));
    let map = move |_| {
        counter.fetch_add(1, Relaxed);
        Arc::clone(&held)
    };
    let mut results = pool.map([1, 2], map).window(2);
    drop(results.next().unwrap().unwrap());
    drop(results);
    pool.wait_idle().unwrap();
    assert!(calls.load(Relaxed) <= 2);
    end(&pool);
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// The first error against a worker that takes the next item.
#[testkit::model(preemptions = 2)]
fn an_error_racing_the_next_item_is_returned_last() {
    let pool = untimed(2).build().unwrap();
    let results = pool.try_map([1, 2], |n| if n == 1 { Err(n) } else { Ok(n) });
    let results: Vec<_> = results.window(2).collect();
    assert!(matches!(results[..], [Err(MapError::Failed(1))]));
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A release removes the drain task from the queue, or stops it between two items, while the owner
/// waits.
#[testkit::model(preemptions = 2)]
fn a_release_now_racing_a_mapping_ends_it() {
    let pool = untimed(1).build().unwrap();
    let other = pool.clone();
    let release = spawn(move || other.release_now());
    for (fetched, result) in pool.map(0_usize..3, |n| n).window(1).enumerate() {
        match result {
            Ok(n) => assert_eq!(n, fetched),
            Err(refused) => {
                let released: MapError = MapError::Refused(SubmitError::Released(()));
                assert_eq!(refused.to_string(), released.to_string());
                break;
            }
        }
    }
    release.join().unwrap();
    pool.wait_released().unwrap();
}

/// A cancel while the owner of a mapping sleeps, or is about to sleep, for an item that does not
/// end.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_a_fetch_ends_it_while_an_item_still_runs() {
    let (pool, over) = (untimed(1).build().unwrap(), Parker::new());
    let held = over.clone();
    let mut results = pool.map([1], move |_| held.park()).window(1);
    let canceller = results.canceller();
    let cancel = spawn(move || canceller.cancel());
    assert!(results.next().is_none());
    over.unpark();
    cancel.join().unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// The owner of a scope runs unstarted tasks while a worker runs the others: each task runs once,
/// and nothing of it is left when the scope returns.
#[testkit::model(preemptions = 2)]
fn the_end_of_a_scope_racing_its_worker_waits_for_the_last_task() {
    let (pool, kept) = (untimed(1).build().unwrap(), Arc::new(()));
    let calls = AtomicUsize::new(0);
    pool.scope(|scope| {
        for _ in 0..2 {
            let (held, calls) = (Arc::clone(&kept), &calls);
            scope.submit(move || {
                drop(held);
                calls.fetch_add(1, Relaxed)
            });
        }
    });
    assert_eq!((calls.load(Relaxed), Arc::strong_count(&kept)), (2, 1));
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A join runs its task, or waits for the worker that runs it.
#[testkit::model(preemptions = 2)]
fn a_scoped_join_racing_the_worker_gets_the_value() {
    let pool = untimed(1).build().unwrap();
    let value = pool.scope(|scope| scope.spawn(|| 7).join().unwrap());
    assert_eq!(value, 7);
    pool.wait_idle().unwrap();
    end(&pool);
}

/// The pool shrinks while two drain tasks run: the one that leaves, or is about to start, leaves
/// its items to the other.
#[testkit::model(preemptions = 1)]
fn a_pool_that_shrinks_racing_a_mapping_strands_no_item() {
    let pool = untimed(2).build().unwrap();
    let other = pool.clone();
    let tune = spawn(move || other.tune(1).unwrap());
    let results = pool.map([1, 2, 3], |n| n).window(3);
    let results: Vec<u32> = results.map(Result::unwrap).collect();
    assert_eq!(results, [1, 2, 3]);
    tune.join().unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// The second of two tasks is joined: the owner runs it, or the worker has started it.
#[testkit::model(preemptions = 2)]
fn a_join_of_the_later_task_racing_the_worker_runs_each_once() {
    let (pool, calls) = (untimed(1).build().unwrap(), AtomicUsize::new(0));
    let value = pool.scope(|scope| {
        scope.submit(|| calls.fetch_add(1, Relaxed));
        scope.spawn(|| calls.fetch_add(1, Relaxed)).join().is_ok()
    });
    assert_eq!((value, calls.load(Relaxed)), (true, 2));
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A stream's check and its waker against the end of an item, and against the end of the drain
/// task: no result is left while the future sleeps.
#[cfg(feature = "stream")]
#[testkit::model(preemptions = 2)]
fn a_streams_poll_racing_the_end_of_an_item_is_woken() {
    use futures_core::Stream;
    use std::future::poll_fn;
    use std::pin::Pin;
    let pool = untimed(1).build().unwrap();
    let mut results = pool.map([1, 2], |n| n).window(1).into_stream();
    for expected in [Some(1), Some(2), None] {
        let next = poll_fn(|context| Pin::new(&mut results).poll_next(context));
        let next = loom::future::block_on(next);
        assert_eq!(next.map(Result::unwrap), expected);
    }
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A stream that is dropped while its item ends: its waker and the item's value are dropped.
#[cfg(feature = "stream")]
#[testkit::model(preemptions = 2)]
fn a_stream_that_is_dropped_racing_the_end_of_an_item_leaks_nothing() {
    use futures_core::Stream;
    use std::pin::Pin;
    use std::task::{Context, Waker};
    let (pool, kept) = (untimed(1).build().unwrap(), Arc::new(()));
    let held = Arc::clone(&kept);
    let mut results = pool.map([1], move |_| Arc::clone(&held)).into_stream();
    let mut context = Context::from_waker(Waker::noop());
    // Ignored: it waits, or has its item's value.
    let _ = Pin::new(&mut results).poll_next(&mut context);
    drop(results);
    pool.wait_idle().unwrap();
    end(&pool);
    assert_eq!(Arc::strong_count(&kept), 1);
}
