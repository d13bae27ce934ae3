//! Models of the multi-pool's protocol: each names the racing parties and the harm they must not do.
//!
//! As in `pool-core`, every model waits for its work before it releases, so that no closing
//! broadcast rescues a lost wake-up, and no pool has a keep-alive, so that no timer does. The pools
//! have one worker each: two pools, one waiter and one thread beside it are all loom can hold.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a model that fails is to panic")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use multi_pool::{MultiPool, WeakMultiPool};
use pool_core::{Builder, Closures, ManualClock, Pool, SubmitError};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::{check, spawn};

const SECOND: Duration = Duration::from_secs(1);

fn untimed() -> Builder<Closures> {
    Pool::builder().capacity(1).keep_alive(None)
}

fn pair(each: Builder<Closures>) -> MultiPool {
    MultiPool::builder(each).pools(2).build().unwrap()
}

/// Counts how often something ran. Relaxed: read after the pools' own synchronization.
#[derive(Clone)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    fn task(&self) -> impl FnOnce() + Send + 'static {
        let runs = self.clone();
        move || _ = runs.0.fetch_add(1, Relaxed)
    }

    fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Nobody waits, and no places are left behind.
fn lines_are_empty(pool: &MultiPool) -> bool {
    pool.waiting() == 0 && (0..2).all(|index| pool.waiting_of(index) == Ok(0))
}

/// Both pools have all their room again, whatever has happened to them; then they end.
fn have_room_and_end(pool: &MultiPool) {
    pool.wait_idle().unwrap();
    assert!(lines_are_empty(pool));
    for index in 0..2 {
        assert_eq!(pool.stats_of(index).unwrap().in_flight, 0);
    }
    end(pool);
}

fn end(pool: &MultiPool) {
    pool.release();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.live, stats.in_flight, stats.queued), (0, 0, 0));
    assert_eq!(stats.submitted, stats.completed);
}

/// The choice of a pool against a release of both: the task runs or comes back, never both, never
/// neither.
#[test]
fn a_submit_racing_a_release_of_all_pools_runs_or_comes_back() {
    check(
        "a_submit_racing_a_release_of_all_pools_runs_or_comes_back",
        Some(3),
        || {
            let (pool, runs) = (pair(untimed()), Runs::new());
            let submitter = {
                let (pool, task) = (pool.clone(), runs.task());
                spawn(move || pool.submit(task).is_ok())
            };
            pool.release();
            let accepted = submitter.join().unwrap();
            end(&pool);
            assert_eq!(runs.count(), usize::from(accepted));
        },
    );
}

/// A waiter in two lines against two completions: it is served once, and no room is lost.
#[test]
fn a_waiter_in_two_lines_racing_two_completions_is_served_once() {
    check(
        "a_waiter_in_two_lines_racing_two_completions_is_served_once",
        Some(2),
        || {
            let (pool, runs) = (pair(untimed()), Runs::new());
            pool.submit(runs.task()).unwrap();
            pool.submit(runs.task()).unwrap();
            pool.submit(runs.task()).unwrap();
            assert!(lines_are_empty(&pool));
            pool.wait_idle().unwrap();
            assert_eq!(runs.count(), 3);
            have_room_and_end(&pool);
        },
    );
}

/// A ticket's time-out against the hand-over by either pool: the task runs or comes back.
#[test]
fn a_tickets_deadline_racing_the_hand_over_loses_no_task() {
    check(
        "a_tickets_deadline_racing_the_hand_over_loses_no_task",
        Some(1),
        || {
            let clock = ManualClock::new();
            let (pool, runs) = (pair(untimed().clock(clock.clone())), Runs::new());
            pool.submit(|| {}).unwrap();
            pool.submit(|| {}).unwrap();
            let time = spawn(move || clock.advance(SECOND));
            let accepted = match pool.submit_timeout(runs.task(), SECOND) {
                Ok(()) => 1,
                Err(SubmitError::TimedOut(_)) => 0,
                Err(other) => panic!("{other:?}"),
            };
            assert!(lines_are_empty(&pool));
            pool.wait_idle().unwrap();
            assert_eq!(runs.count(), accepted);
            time.join().unwrap();
            have_room_and_end(&pool);
        },
    );
}

/// A future in two lines, dropped, against the hand-over: its task runs or is dropped, and no room
/// is lost with it.
#[test]
fn a_future_dropped_in_two_lines_racing_the_hand_over_loses_no_room() {
    check(
        "a_future_dropped_in_two_lines_racing_the_hand_over_loses_no_room",
        Some(2),
        || {
            let (pool, runs, kept) = (pair(untimed()), Runs::new(), Arc::new(()));
            pool.submit(|| {}).unwrap();
            pool.submit(|| {}).unwrap();
            {
                let (task, held) = (runs.task(), Arc::clone(&kept));
                let mut future = pin!(pool.submit_async(move || {
                    task();
                    drop(held);
                }));
                let mut context = Context::from_waker(Waker::noop());
                // Discarded: the task may be accepted or wait, and what runs is counted.
                let _ = future.as_mut().poll(&mut context);
            }
            assert!(lines_are_empty(&pool));
            pool.wait_idle().unwrap();
            assert_eq!(pool.stats().completed, 2 + runs.count() as u64);
            have_room_and_end(&pool);
            assert_eq!(Arc::strong_count(&kept), 1);
        },
    );
}

/// A waiter that takes its places against a release of both pools: it gets its task back or it
/// runs.
#[test]
fn a_waiter_in_two_lines_racing_a_release_gets_its_task_back_or_it_runs() {
    check(
        "a_waiter_in_two_lines_racing_a_release_gets_its_task_back_or_it_runs",
        Some(1),
        || {
            let (pool, runs) = (pair(untimed()), Runs::new());
            pool.submit(|| {}).unwrap();
            pool.submit(|| {}).unwrap();
            let releaser = {
                let pool = pool.clone();
                spawn(move || _ = pool.release())
            };
            let accepted = pool.submit(runs.task()).is_ok();
            assert!(lines_are_empty(&pool));
            releaser.join().unwrap();
            end(&pool);
            assert_eq!(runs.count(), usize::from(accepted));
        },
    );
}

/// A wait for rest against a task that submits the next to the other pool, and so on: no look at
/// the pools one after the other is deceived by it.
#[test]
fn a_wait_for_rest_racing_tasks_that_go_round_is_not_deceived() {
    fn hop(pool: &WeakMultiPool, runs: &Runs, hops: usize) {
        runs.task()();
        if hops > 0 {
            let (weak, runs) = (pool.clone(), runs.clone());
            let pool = pool.upgrade().unwrap();
            pool.submit(move || hop(&weak, &runs, hops - 1)).unwrap();
        }
    }
    check(
        "a_wait_for_rest_racing_tasks_that_go_round_is_not_deceived",
        Some(1),
        || {
            let (pool, runs) = (pair(untimed()), Runs::new());
            pool.submit(|| {}).unwrap(); // So that the first turn is the second pool's.
            pool.wait_idle().unwrap();
            let (weak, counted) = (pool.downgrade(), runs.clone());
            pool.submit(move || hop(&weak, &counted, 3)).unwrap();
            pool.wait_idle().unwrap();
            assert_eq!(runs.count(), 4);
            end(&pool);
        },
    );
}

/// A waiter against the end of an idle worker: it finds room where it wanted to wait, and nobody
/// to run its task, and has a worker started.
#[test]
fn a_waiter_racing_the_last_workers_expiry_has_one_started() {
    check(
        "a_waiter_racing_the_last_workers_expiry_has_one_started",
        Some(2),
        || {
            let clock = ManualClock::new();
            let each = Pool::builder().capacity(1).keep_alive(SECOND);
            let builder = MultiPool::builder(each.clock(clock.clone())).pools(1);
            let (pool, runs) = (builder.build().unwrap(), Runs::new());
            pool.submit(runs.task()).unwrap();
            let time = spawn(move || clock.advance(SECOND));
            pool.submit(runs.task()).unwrap();
            pool.wait_idle().unwrap();
            assert_eq!((runs.count(), pool.waiting()), (2, 0));
            time.join().unwrap();
            end(&pool);
        },
    );
}

/// A release against a reboot: both pools are open afterwards, or both are released.
#[test]
fn a_release_racing_a_reboot_leaves_both_pools_alike() {
    check(
        "a_release_racing_a_reboot_leaves_both_pools_alike",
        Some(3),
        || {
            let pool = pair(untimed());
            pool.release();
            let rebooter = {
                let pool = pool.clone();
                spawn(move || _ = pool.reboot())
            };
            pool.release();
            rebooter.join().unwrap();
            let answers = [(); 2].map(|()| pool.try_submit(|| {}).is_ok());
            assert_eq!(answers, [!pool.is_released(); 2]);
            end(&pool);
        },
    );
}
