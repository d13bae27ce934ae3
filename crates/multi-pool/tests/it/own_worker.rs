//! Calls by workers: a worker of one pool counts as an own worker of all.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread::ThreadId;

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt, MultiWaitError};
use pool_core::{JoinHandle, Pool, SubmitError, WaitError, WithinWorker};
use testkit::{Gate, block_on};

use crate::support::{end, here, hold, hold_all, multi, until};

fn with(policy: WithinWorker, limit: u32) -> MultiPool {
    let each = Pool::builder().capacity(1).within_worker(policy);
    let builder = MultiBuilder::new(each.nesting_limit(limit)).pools(2);
    builder.build().unwrap()
}

#[testkit::test]
fn a_worker_of_any_pool_runs_the_task_in_place_if_every_pool_is_full() {
    for held in 0..2 {
        let pool = multi(2, 1);
        let gates = hold_all(&pool, held);
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            let blocker = hold_all(&inner, 1 - held); // Now every pool is full.
            let place = std::thread::current().id();
            let same = move || std::thread::current().id() == place;
            let ran_here = inner.spawn(same).unwrap().join().unwrap();
            blocker.iter().for_each(Gate::open);
            (here(), ran_here)
        });
        assert_eq!(outer.unwrap().join().unwrap(), (held, true));
        gates.iter().for_each(Gate::open);
        end(&pool);
        assert_eq!((pool.stats().submitted, pool.stats().completed), (3, 3));
    }
}

#[testkit::test]
fn a_workers_task_goes_to_another_pool_with_room() {
    let pool = multi(2, 1);
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let gate = hold(&inner); // Does not run in place, where it would not return.
        let busy = [0, 1].map(|index| inner.stats_of(index).unwrap().busy);
        gate.open();
        busy
    });
    assert_eq!(outer.unwrap().join().unwrap(), [1, 1]);
    end(&pool);
}

#[testkit::test]
fn tasks_run_in_place_over_all_pools_down_to_the_nesting_limit() {
    fn nest(pool: &MultiPool) -> usize {
        let inner = pool.clone();
        match pool.spawn(move || nest(&inner)) {
            Ok(handle) => 1 + handle.join().unwrap(),
            Err(SubmitError::Full(_)) => 0,
            Err(other) => panic!("{other:?}"),
        }
    }
    let pool = with(WithinWorker::RunInPlace, 5);
    let gate = hold(&pool);
    let inner = pool.clone();
    let depth = pool.spawn(move || nest(&inner)).unwrap();
    assert_eq!(depth.join().unwrap(), 5);
    gate.open();
    end(&pool);
}

#[testkit::test]
fn a_workers_submit_is_refused_or_waits_as_configured() {
    let pool = with(WithinWorker::Refuse, 5);
    let gate = hold(&pool);
    let inner = pool.clone();
    let refused = pool.spawn(move || inner.submit(|| ()).unwrap_err().is_full());
    assert!(refused.unwrap().join().unwrap());
    gate.open();
    end(&pool);

    let pool = with(WithinWorker::Block, 5);
    let gate = hold(&pool);
    let inner = pool.clone();
    let waits = pool.spawn(move || inner.submit(|| ()).is_ok()).unwrap();
    until(|| pool.waiting() == 1);
    gate.open();
    assert!(waits.join().unwrap());
    end(&pool);
}

#[testkit::test]
fn a_join_runs_a_task_of_another_pool_in_place_if_it_has_not_started() {
    let each = Pool::builder().capacity(1).queue_depth(1);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let gate = hold(&pool);
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let queued = [(); 2].map(|()| inner.spawn(here).unwrap());
        assert_eq!(inner.queued(), 2);
        queued.map(|handle| handle.join().unwrap())
    });
    assert_eq!(
        outer.unwrap().join().unwrap(),
        [1, 1],
        "both on this worker"
    );
    gate.open();
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed), (4, 4));
}

#[testkit::test]
fn a_wait_for_any_pool_by_a_worker_returns_would_deadlock() {
    let pool = multi(2, 1);
    let inner = pool.clone();
    let waits = pool.spawn(move || {
        assert!(inner.is_own_worker());
        [
            inner.wait_idle().unwrap_err(),
            inner.wait_released().unwrap_err(),
            inner.release_timeout(std::time::Duration::MAX).unwrap_err(),
        ]
    });
    for error in waits.unwrap().join().unwrap() {
        let deadlock = WaitError::WouldDeadlock;
        assert_eq!(error.pools(), [(0, deadlock), (1, deadlock)]);
        assert!(!error.any_timed_out() && !error.all_timed_out());
        assert_eq!(WaitError::from(MultiWaitError::clone(&error)), deadlock);
    }
    assert!(!pool.is_own_worker());
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_wait_polled_by_a_worker_of_any_pool_returns_would_deadlock() {
    let pool = multi(2, 1);
    let gates = hold_all(&pool, 1); // So that the other pool is neither idle nor ended.
    let inner = pool.clone();
    let waits = pool.spawn(move || {
        [
            block_on(inner.wait_idle_async()).unwrap_err(),
            block_on(inner.wait_released_async()).unwrap_err(),
            block_on(inner.release_timeout_async(std::time::Duration::MAX)).unwrap_err(),
            block_on(inner.release_async()).unwrap_err(),
        ]
    });
    for error in waits.unwrap().join().unwrap() {
        let deadlock = WaitError::WouldDeadlock;
        assert_eq!(error.pools(), [(0, deadlock), (1, deadlock)]);
    }
    gates.iter().for_each(Gate::open);
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_future_that_submits_on_a_worker_follows_the_setting_of_the_pools() {
    for (policy, limit) in [
        (WithinWorker::RunInPlace, 1),
        (WithinWorker::RunInPlace, 0),
        (WithinWorker::Refuse, 1),
    ] {
        let pool = with(policy, limit);
        let gate = hold(&pool);
        let runs = policy == WithinWorker::RunInPlace && limit > 0;
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            let place = std::thread::current().id();
            let task = move || std::thread::current().id() == place;
            match block_on(inner.spawn_async(task)) {
                Ok(handle) => assert!(runs && handle.join().unwrap()),
                Err(refused) => assert!(!runs && refused.is_full()),
            }
            assert!(block_on(inner.reserve_async()).unwrap_err().is_full());
        });
        outer.unwrap().join().unwrap();
        gate.open();
        end(&pool);
        let stats = pool.stats();
        assert_eq!((stats.waiting, stats.reserved), (0, 0));
        assert_eq!(
            (stats.submitted, stats.completed),
            if runs { (3, 3) } else { (2, 2) }
        );
    }
}

#[testkit::test]
fn a_future_in_the_wait_queues_does_not_wait_for_the_worker_that_polls_it() {
    let pool = multi(2, 1);
    let (gate, polls) = (hold(&pool), Gate::new());
    let (entered, (give, take)) = (polls.clone(), mpsc::channel());
    let outer = pool.spawn(move || {
        entered.wait();
        let (submits, reserves) = take.recv().unwrap();
        let place = std::thread::current().id();
        let submitted: Result<JoinHandle<ThreadId>, _> = block_on(submits);
        assert_eq!(submitted.unwrap().join().unwrap(), place);
        let reserves: Pin<Box<dyn Future<Output = Option<SubmitError>> + Send>> = reserves;
        assert!(block_on(reserves).unwrap().is_full());
    });
    polls.wait_for_arrivals(1);
    let mut submits = Box::pin(pool.spawn_async(|| std::thread::current().id()));
    let reserve = pool.reserve_async();
    let mut reserves = Box::pin(async move { reserve.await.err() });
    let mut context = Context::from_waker(Waker::noop());
    assert!(submits.as_mut().poll(&mut context).is_pending());
    assert!(reserves.as_mut().poll(&mut context).is_pending());
    assert_eq!(pool.waiting(), 2);
    give.send((submits, reserves as _)).unwrap();
    polls.open();
    outer.unwrap().join().unwrap();
    gate.open();
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed, stats.waiting), (3, 3, 0));
}
