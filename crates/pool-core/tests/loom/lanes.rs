//! Submits that go on to the next lane because an inbox is locked. They share the room of the other ways in, and need
//! the same wake-ups.

use pool_core::Pool;
use sync_shim::model::{self, spawn};

use super::{Runs, end, untimed};

fn submitter(pool: &Pool, runs: &Runs) -> model::JoinHandle<bool> {
    let (pool, task) = (pool.clone(), runs.task());
    spawn(move || pool.try_submit(task).is_ok())
}

/// Two submits, of which one may go on to the next lane, against a worker that parks: no wake-up is lost, without help
/// of a timer.
#[testkit::model(preemptions = 1)]
fn a_submit_in_another_lane_racing_a_parking_worker_is_run() {
    model::set_lanes(true);
    let (pool, runs) = (untimed(1).queue_depth(3).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let other = submitter(&pool, &runs);
    pool.submit(runs.task()).unwrap();
    assert!(other.join().unwrap());
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    end(&pool);
}

/// The lanes are emptied while two submits go on to the next one each.
#[testkit::model(preemptions = 1)]
fn submits_in_other_lanes_racing_a_look_at_the_pool_are_run() {
    model::set_lanes(true);
    let (pool, runs) = (untimed(1).queue_depth(5).build().unwrap(), Runs::new());
    pool.pause();
    pool.submit(runs.task()).unwrap();
    let others = [submitter(&pool, &runs), submitter(&pool, &runs)];
    let queued = pool.queued();
    assert!((1..=3).contains(&queued));
    for other in others {
        assert!(other.join().unwrap());
    }
    assert_eq!(pool.queued(), 3);
    pool.resume();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    end(&pool);
}

/// The same against a release: what was accepted is run.
#[testkit::model(preemptions = 1)]
fn a_submit_in_another_lane_racing_a_release_is_run_or_refused() {
    model::set_lanes(true);
    let (pool, runs) = (untimed(1).queue_depth(3).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let others = [submitter(&pool, &runs), submitter(&pool, &runs)];
    pool.release();
    let accepted = others.map(|other| usize::from(other.join().unwrap()));
    end(&pool);
    assert_eq!(runs.count(), 1 + accepted.iter().sum::<usize>());
}

/// Three tries for two places: the pool holds no more than its limit, and refuses none that had room.
#[testkit::model(preemptions = 2)]
fn submits_in_other_lanes_exceed_no_capacity() {
    model::set_lanes(true);
    let (pool, runs) = (untimed(1).queue_depth(2).build().unwrap(), Runs::new());
    pool.pause(); // Nothing that was accepted makes room.
    pool.submit(runs.task()).unwrap();
    let others = [submitter(&pool, &runs), submitter(&pool, &runs)];
    let own = pool.try_submit(runs.task()).is_ok();
    let accepted = others.map(|other| usize::from(other.join().unwrap()));
    assert_eq!(usize::from(own) + accepted.iter().sum::<usize>(), 2);
    assert_eq!(pool.in_flight(), 3);
    pool.resume();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    end(&pool);
}

/// A thread's tasks start in the order of its submits, also if the second one goes on to the next lane.
#[testkit::model(preemptions = 2)]
fn submits_of_a_thread_in_several_lanes_keep_their_order() {
    model::set_lanes(true);
    let (pool, runs) = (untimed(1).queue_depth(5).build().unwrap(), Runs::new());
    pool.pause(); // A worker that ran would add steps.
    pool.submit(runs.task()).unwrap();
    let other = submitter(&pool, &runs);
    let (first, second) = (Runs::new(), Runs::new());
    pool.submit(first.task()).unwrap();
    let (before, task) = (first, second.task());
    pool.submit(move || {
        assert_eq!(before.count(), 1);
        task();
    })
    .unwrap();
    assert!(other.join().unwrap());
    pool.resume();
    pool.wait_idle().unwrap();
    assert_eq!((runs.count(), second.count()), (2, 1));
    end(&pool);
}

/// A permit in another lane, used while another thread submits.
#[testkit::model(preemptions = 1)]
fn a_permit_of_another_lane_racing_a_submit_is_counted_once() {
    model::set_lanes(true);
    let (pool, runs) = (untimed(1).queue_depth(3).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let other = submitter(&pool, &runs);
    let permit = pool.try_reserve().unwrap();
    assert_eq!(pool.stats().reserved, 1);
    permit.submit(runs.task());
    assert!(other.join().unwrap());
    pool.wait_idle().unwrap();
    assert_eq!((runs.count(), pool.stats().reserved), (3, 0));
    end(&pool);
}
