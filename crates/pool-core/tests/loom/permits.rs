//! Permits: reserved room, against waiters and expiring workers.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use pool_core::ManualClock;
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

const SECOND: Duration = Duration::from_secs(1);

/// The drop of the permit that fills the pool, against a submit: the submit finds the room, or is
/// handed it.
#[testkit::model(preemptions = 3)]
fn a_dropped_permit_racing_a_submit_hands_it_the_room() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let permit = pool.reserve().unwrap();
    let submitter = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.submit(task).unwrap())
    };
    drop(permit);
    submitter.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((runs.count(), pool.stats().reserved), (1, 0));
    end(&pool);
}

/// Two threads reserve the only room and submit a task each: both succeed, and the room is never
/// held twice.
#[testkit::model(preemptions = 2)]
fn two_racing_reservations_of_one_room_both_succeed() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let other = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || {
            let permit = pool.reserve().unwrap();
            let stats = pool.stats();
            assert_eq!((stats.reserved, stats.in_flight), (1, 0));
            permit.submit(task);
        })
    };
    drop(pool.reserve().unwrap());
    other.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((runs.count(), pool.stats().reserved), (1, 0));
    end(&pool);
}

/// The submit of a permit's task against a parking worker: the worker pops it or is notified.
#[testkit::model(preemptions = 3)]
fn a_used_permit_racing_a_parking_worker_is_run() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let permit = pool.reserve().unwrap(); // Starts the worker, which searches.
    permit.submit(runs.task());
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// The submit of a permit's task against a release: it runs, and the pool ends after it.
#[testkit::model(preemptions = 3)]
fn a_used_permit_racing_a_release_runs_its_task() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let permit = pool.reserve().unwrap();
    let releaser = {
        let pool = pool.clone();
        spawn(move || {
            pool.release();
            pool.wait_released().unwrap();
        })
    };
    permit.submit(runs.task());
    releaser.join().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// The drop of the last permit against a release: the worker that was kept for it ends, in either
/// order.
#[testkit::model(preemptions = 3)]
fn a_dropped_permit_racing_a_release_ends_the_pool() {
    let pool = untimed(1).build().unwrap();
    let permit = pool.reserve().unwrap();
    let releaser = {
        let pool = pool.clone();
        spawn(move || {
            pool.release();
            pool.wait_released().unwrap();
        })
    };
    drop(permit);
    releaser.join().unwrap();
    end(&pool);
}

/// A reservation against the expiry of the only worker: it stays for the permit, or another worker
/// is started. The permit's task runs in either case.
#[testkit::model(preemptions = 3)]
fn a_reservation_racing_an_expiring_worker_keeps_or_starts_one() {
    let clock = ManualClock::new();
    let pool = untimed(1).keep_alive(SECOND).clock(clock.clone());
    let (pool, runs) = (pool.build().unwrap(), Runs::new());
    pool.submit(|| {}).unwrap();
    pool.wait_idle().unwrap();
    clock.advance(SECOND); // The worker expires if it has parked.
    let permit = pool.reserve().unwrap();
    assert_eq!(pool.running(), 1);
    permit.submit(runs.task());
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// The drop of a future that waits for a permit, against the hand-over of room: the room is not
/// lost.
#[testkit::model(preemptions = 3)]
fn a_dropped_reservation_racing_the_hand_over_loses_no_room() {
    let pool = untimed(1).build().unwrap();
    let permit = pool.reserve().unwrap();
    let other = spawn(move || drop(permit));
    {
        let mut future = pin!(pool.reserve_async());
        let mut context = Context::from_waker(Waker::noop());
        // Ignored: it waits or has its permit.
        let _ = future.as_mut().poll(&mut context);
    }
    other.join().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.reserved, stats.waiting), (0, 0));
    drop(pool.try_reserve().unwrap());
    end(&pool);
}

/// A poll of a waiting future against the hand-over of room: it is woken, or finds its permit.
#[testkit::model(preemptions = 2)]
fn a_poll_for_a_permit_racing_the_hand_over_is_woken() {
    let pool = untimed(1).build().unwrap();
    let permit = pool.reserve().unwrap();
    let other = spawn(move || drop(permit));
    let permit = loom::future::block_on(pool.reserve_async()).unwrap();
    other.join().unwrap();
    assert_eq!(pool.stats().reserved, 1);
    drop(permit);
    end(&pool);
}

/// A reservation against a release: it is refused, or its permit stays valid.
#[testkit::model(preemptions = 3)]
fn a_reservation_racing_a_release_is_granted_or_refused() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let reserver = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || match pool.reserve() {
            Ok(permit) => {
                permit.submit(task);
                1
            }
            Err(refused) => {
                assert!(refused.is_released(), "{refused:?}");
                0
            }
        })
    };
    pool.release();
    let accepted = reserver.join().unwrap();
    end(&pool);
    assert_eq!(runs.count(), accepted);
}
