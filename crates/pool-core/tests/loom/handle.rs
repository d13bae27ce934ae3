//! The handle of a spawned task: finish, join, cancel, wakers.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use pool_core::JoinError;
use sync_shim::Parker;
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

/// A waker that calls a closure.
struct Once<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> Once<F> {
    fn waker(call: F) -> Waker {
        Waker::from(Arc::new(Self(Mutex::new(Some(call)))))
    }
}

impl<F: FnOnce() + Send + 'static> Wake for Once<F> {
    fn wake(self: Arc<Self>) {
        let call = self.0.lock().unwrap().take();
        if let Some(call) = call {
            call();
        }
    }
}

/// Finish against join: the joiner gets the value.
#[testkit::model(preemptions = 3)]
fn a_join_racing_the_finish_gets_the_value() {
    let pool = untimed(1).build().unwrap();
    let handle = pool.spawn(|| 7).unwrap();
    assert_eq!(handle.join().unwrap(), 7);
    // By the time the join returns, the statistics show the end, and there is room.
    assert_eq!(pool.stats().completed, 1);
    pool.try_submit(|| {}).unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// Finish against the registration of a waker.
#[testkit::model(preemptions = 3)]
fn an_awaited_handle_racing_the_finish_gets_the_value() {
    let pool = untimed(1).build().unwrap();
    let handle = pool.spawn(|| 7).unwrap();
    assert_eq!(loom::future::block_on(handle).unwrap(), 7);
    assert_eq!(pool.stats().completed, 1);
    end(&pool);
}

/// Cancel against start: exactly one of them wins, and the handle tells which.
#[testkit::model(preemptions = 3)]
fn a_cancel_racing_the_start_has_one_winner() {
    let (pool, runs, kept) = (untimed(1).build().unwrap(), Runs::new(), Arc::new(()));
    let (task, held) = (runs.task(), Arc::clone(&kept));
    let handle = pool
        .spawn(move || {
            task();
            drop(held);
        })
        .unwrap();
    let cancelled = handle.cancel();
    match handle.join() {
        Ok(()) => assert!(!cancelled),
        Err(JoinError::Cancelled) => {
            assert!(cancelled);
            assert_eq!(Arc::strong_count(&kept), 1, "captures are dropped at once");
        }
        Err(other) => panic!("{other:?}"),
    }
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), usize::from(!cancelled));
    assert_eq!(pool.stats().cancelled, u64::from(cancelled));
    end(&pool);
}

/// `release_now` against start: the task runs, or its handle ends with `Released`.
#[testkit::model(preemptions = 3)]
fn a_release_now_racing_the_start_has_one_winner() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let handle = pool.spawn(runs.task()).unwrap();
    let released = pool.release_now();
    match handle.join() {
        Ok(()) => assert_eq!(released, 0),
        Err(JoinError::Released) => assert_eq!(released, 1),
        Err(other) => panic!("{other:?}"),
    }
    end(&pool);
    assert_eq!(runs.count(), 1 - released);
}

/// The drop of the handle against the finish: the later of the two drops the value, once.
#[testkit::model(preemptions = 3)]
fn a_dropped_handle_racing_the_finish_drops_the_value_once() {
    let (pool, value) = (untimed(1).build().unwrap(), Arc::new(()));
    let made = Arc::clone(&value);
    drop(pool.spawn(move || made).unwrap());
    end(&pool);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// A task joins one that it spawned, while another worker may start it: it runs once, and the join
/// ends even if every worker joins.
#[testkit::model(preemptions = 2)]
fn a_join_in_a_task_racing_a_worker_runs_the_task_once() {
    let pool = untimed(1).queue_depth(1).build().unwrap();
    let runs = Runs::new();
    let (inner, task) = (pool.downgrade(), runs.task());
    let outer = pool
        .spawn(move || {
            let pool = inner.upgrade().unwrap();
            pool.spawn(task).unwrap().join().unwrap();
        })
        .unwrap();
    let tuner = {
        let pool = pool.clone();
        spawn(move || pool.tune(2).unwrap())
    };
    outer.join().unwrap();
    assert_eq!(runs.count(), 1);
    tuner.join().unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// `is_finished` against the finish: a thread that sees the end sees the task's writes.
#[testkit::model(preemptions = 3)]
fn a_finished_handle_publishes_what_the_task_wrote() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let handle = pool.spawn(runs.task()).unwrap();
    if handle.is_finished() {
        assert_eq!(runs.count(), 1);
    }
    handle.join().unwrap();
    end(&pool);
}

/// Polls a handle with a waker that waits for another task, which is submitted before or after the
/// poll.
fn waker_waits_for_a_task(submitted_before: bool) {
    let pool = untimed(2).queue_depth(2).min_workers(1).build().unwrap();
    let [next_ran, woken] = [(); 2].map(|()| Parker::new());
    let mut handle = pool.spawn(|| 7).unwrap();
    let ran = next_ran.clone();
    let next = move || ran.unpark();
    let waker = Once::waker({
        let woken = woken.clone();
        move || {
            next_ran.park();
            woken.unpark();
        }
    });
    let mut is_pending = || {
        let mut context = Context::from_waker(&waker);
        Pin::new(&mut handle).poll(&mut context).is_pending()
    };
    let pending = if submitted_before {
        pool.submit(next).unwrap();
        is_pending()
    } else {
        let pending = is_pending();
        pool.submit(next).unwrap();
        pending
    };
    if pending {
        woken.park();
    }
    drop(waker);
    pool.wait_idle().unwrap();
    end(&pool);
}

/// The waker of a joiner is registered as the task ends. In both cases, before the value is
/// published or after the worker has popped the next task, the worker calls the waker while it
/// holds no task.
#[testkit::model(preemptions = 2)]
fn a_waker_racing_the_finish_does_not_hold_the_next_task() {
    waker_waits_for_a_task(true);
}

/// The same with a worker that has found no next task: it does not count as searching meanwhile.
#[testkit::model(preemptions = 2)]
fn a_waker_racing_the_finish_does_not_run_on_a_searching_worker() {
    waker_waits_for_a_task(false);
}

/// The drop of a handle against the finish: a `wait_idle` after the drop finds the value dropped,
/// because the drop is a part of the task or of the handle's drop.
#[testkit::model(preemptions = 3)]
fn a_dropped_handle_racing_the_finish_drops_the_value_before_wait_idle_returns() {
    let (pool, value) = (untimed(1).build().unwrap(), Arc::new(()));
    let made = Arc::clone(&value);
    drop(pool.spawn(move || made).unwrap());
    pool.wait_idle().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
    end(&pool);
}

/// Cancel against a waiter while every worker is held: the waiter gets the room, so its submit
/// returns before a worker is free.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_a_waiter_hands_it_the_room() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    let gate = Parker::new();
    let held = gate.clone();
    pool.submit(move || held.park()).unwrap();
    let queued = pool.spawn(runs.task()).unwrap();
    let waiter = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.submit(task).unwrap())
    };
    assert!(queued.cancel(), "the only worker is held");
    assert_eq!(pool.stats().cancelled, 1);
    waiter.join().unwrap();
    gate.unpark();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// Cancel against the worker that pops the entry: one of them frees the room, once.
#[testkit::model(preemptions = 3)]
fn a_cancel_racing_the_worker_that_pops_the_entry_frees_the_room_once() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let handle = pool.spawn(runs.task()).unwrap();
    if handle.cancel() {
        let stats = pool.stats();
        assert_eq!((stats.in_flight, stats.queued, stats.cancelled), (0, 0, 1));
        pool.try_submit(runs.task()).unwrap();
    } else {
        handle.join().unwrap();
    }
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// Cancel against `release_now`: one of them ends the task, and it is counted once.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_a_release_now_has_one_winner() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    let gate = Parker::new();
    let held = gate.clone();
    pool.submit(move || held.park()).unwrap();
    let queued = pool.spawn(runs.task()).unwrap();
    let other = {
        let pool = pool.clone();
        spawn(move || pool.release_now())
    };
    let cancelled = queued.cancel();
    let released = other.join().unwrap();
    // If the first task was released too, no worker is held.
    match queued.join() {
        Err(JoinError::Cancelled) => assert!(cancelled),
        Err(JoinError::Released) => assert!(!cancelled && released > 0),
        other => panic!("{other:?}"),
    }
    gate.unpark();
    end(&pool);
    let stats = pool.stats();
    assert_eq!(stats.cancelled, u64::from(cancelled));
    assert_eq!(stats.released, released as u64);
    assert_eq!(runs.count(), 0);
}

/// The sweep of tombstones against a worker that pops: a task among them is neither lost nor run
/// twice.
#[testkit::model(preemptions = 2)]
fn a_sweep_racing_a_worker_removes_no_live_task() {
    let (pool, runs) = (untimed(1).queue_depth(5).build().unwrap(), Runs::new());
    let first = [(); 3].map(|()| pool.spawn(|| ()).unwrap());
    pool.submit(runs.task()).unwrap();
    let last = pool.spawn(|| ()).unwrap();
    let cancelled = first.iter().chain([&last]).filter(|task| task.cancel());
    let cancelled = cancelled.count() as u64;
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    let stats = pool.stats();
    assert_eq!(
        (stats.cancelled, stats.completed),
        (cancelled, 5 - cancelled)
    );
    end(&pool);
}

/// A join in place against a waiter: the waiter gets the room of the joined task while the joining
/// task still runs.
#[testkit::model(preemptions = 2)]
fn a_join_in_place_racing_a_waiter_hands_it_the_room() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    let gate = Parker::new();
    let (inner, child, held) = (pool.downgrade(), runs.task(), gate.clone());
    let outer = pool.spawn(move || {
        let pool = inner.upgrade().unwrap();
        pool.spawn(child).unwrap().join().unwrap();
        held.park();
    });
    let waiter = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.submit(task).unwrap())
    };
    waiter.join().unwrap();
    gate.unpark();
    outer.unwrap().join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// A task that runs in place is counted without the lock: whoever finds it completed finds it submitted.
#[testkit::model(preemptions = 3)]
fn figures_racing_a_task_in_place_show_no_more_ended_than_submitted() {
    let pool = untimed(1).build().unwrap();
    let inner = pool.downgrade();
    let outer = pool.spawn(move || inner.upgrade().unwrap().submit(|| ()).unwrap());
    let stats = pool.stats();
    let ended = stats.completed;
    assert!(ended + stats.in_flight as u64 <= stats.submitted);
    outer.unwrap().join().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed), (2, 2));
    end(&pool);
}
