//! Models of the multi-pool's protocol. Each names the racing parties and the harm that must not
//! happen.
//!
//! As in `pool-core`, every model waits for its work before it releases, so that the broadcast of
//! the release cannot hide a lost wake-up. No pool has a keep-alive, so that no timer can hide one
//! either. The pools have one worker each: two pools, one waiter and one other thread are as much
//! as loom can explore.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a failing model must panic")]

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use multi_pool::{Loads, MultiBuilder, MultiPool, MultiPoolExt, Strategy, WeakMultiPool};
use pool_core::{Builder, CancelToken, Closures, ManualClock, Pool, SubmitError};
use sync_shim::Parker;
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::{check, spawn};

const SECOND: Duration = Duration::from_secs(1);

fn untimed() -> Builder<Closures> {
    Pool::builder().capacity(1).keep_alive(None)
}

fn pair(each: Builder<Closures>) -> MultiPool {
    MultiBuilder::new(each).pools(2).build().unwrap()
}

/// Counts runs. `Relaxed`: read after the pools have synchronized the threads.
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

/// Whether no submitter waits and no entry is left in a wait queue.
fn lines_are_empty(pool: &MultiPool) -> bool {
    pool.waiting() == 0 && (0..2).all(|index| pool.waiting_of(index) == Ok(0))
}

/// Checks that both pools have all their room again, and ends them.
fn have_room_and_end(pool: &MultiPool) {
    have_room_and_end_of(pool, 2);
}

fn have_room_and_end_of(pool: &MultiPool, pools: usize) {
    pool.wait_idle().unwrap();
    assert_eq!(pool.waiting(), 0);
    for index in 0..pools {
        assert_eq!(pool.waiting_of(index), Ok(0));
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

/// The choice of a pool against a release of both: the task either runs or is returned.
#[testkit::model(preemptions = 3)]
fn a_submit_racing_a_release_of_all_pools_runs_or_returns_its_task() {
    let (pool, runs) = (pair(untimed()), Runs::new());
    let submitter = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.submit(task).is_ok())
    };
    pool.release();
    let accepted = submitter.join().unwrap();
    end(&pool);
    assert_eq!(runs.count(), usize::from(accepted));
}

/// A waiter in two wait queues against the ends of two tasks: it gets room once, and no room is
/// lost.
#[testkit::model(preemptions = 2)]
fn a_waiter_in_two_wait_queues_racing_two_completions_gets_room_once() {
    let (pool, runs) = (pair(untimed()), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.submit(runs.task()).unwrap();
    pool.submit(runs.task()).unwrap();
    assert!(lines_are_empty(&pool));
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    have_room_and_end(&pool);
}

/// A waiter's timeout against the hand-over of room by either pool: the task either runs or is
/// returned.
#[testkit::model(preemptions = 1)]
fn a_deadline_racing_the_hand_over_by_two_pools_loses_no_task() {
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
}

/// A cancel of a waiter's token against the hand-over of room by either pool: the task is accepted
/// or returned, and no entry is left in a wait queue.
#[testkit::model(preemptions = 1)]
fn a_cancelled_token_racing_the_hand_over_by_two_pools_has_one_outcome() {
    let (pool, runs, token) = (pair(untimed()), Runs::new(), CancelToken::new());
    pool.submit(|| {}).unwrap();
    pool.submit(|| {}).unwrap();
    let canceller = {
        let token = token.clone();
        spawn(move || token.cancel())
    };
    let accepted = match pool.task().cancelled_by(&token).submit(runs.task()) {
        Ok(()) => 1,
        Err(SubmitError::Cancelled(_)) => 0,
        Err(other) => panic!("{other:?}"),
    };
    assert!(lines_are_empty(&pool));
    pool.wait_idle().unwrap();
    canceller.join().unwrap();
    // An accepted task may be cancelled before it starts.
    let unrun = usize::try_from(pool.stats().cancelled).unwrap();
    assert_eq!(runs.count() + unrun, accepted);
    for index in 0..2 {
        assert_eq!(pool.stats_of(index).unwrap().in_flight, 0);
    }
    pool.release();
    pool.wait_released().unwrap();
}

/// A cancel of a token against a waiter that enrols at full pools and sleeps: it is woken, and
/// returns its task.
#[testkit::model(preemptions = 2)]
fn cancelling_its_token_wakes_a_waiter_in_two_wait_queues() {
    let (pool, token) = (pair(untimed()), CancelToken::new());
    let permits = [pool.reserve().unwrap(), pool.reserve().unwrap()];
    let canceller = {
        let token = token.clone();
        spawn(move || token.cancel())
    };
    let refused = pool.task().cancelled_by(&token).submit(|| ());
    assert!(matches!(refused, Err(SubmitError::Cancelled(_))));
    assert!(lines_are_empty(&pool));
    canceller.join().unwrap();
    drop(permits);
    have_room_and_end(&pool);
}

/// The drop of a future in two wait queues against the hand-over of room: its task runs or is
/// dropped, and no room is lost.
#[testkit::model(preemptions = 2)]
fn a_future_dropped_in_two_wait_queues_racing_the_hand_over_loses_no_room() {
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
        // Ignored: the task is accepted or waits, and runs are counted.
        let _ = future.as_mut().poll(&mut context);
    }
    assert!(lines_are_empty(&pool));
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 2 + runs.count() as u64);
    have_room_and_end(&pool);
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// A waiter that enrols against a release of both pools: its task either runs or is returned.
#[testkit::model(preemptions = 1)]
fn a_waiter_in_two_wait_queues_racing_a_release_runs_or_returns_its_task() {
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
}

/// `wait_idle` against a task that submits the next one to the other pool, and so on: it must not
/// return because it found the pools idle one after the other.
#[testkit::model(preemptions = 1)]
fn wait_idle_racing_tasks_that_move_between_pools_waits_for_all() {
    fn hop(pool: &WeakMultiPool, runs: &Runs, hops: usize) {
        runs.task()();
        if hops > 0 {
            let (weak, runs) = (pool.clone(), runs.clone());
            let pool = pool.upgrade().unwrap();
            pool.submit(move || hop(&weak, &runs, hops - 1)).unwrap();
        }
    }
    let (pool, runs) = (pair(untimed()), Runs::new());
    pool.submit(|| {}).unwrap(); // Advances the turn to the second pool.
    pool.wait_idle().unwrap();
    let (weak, counted) = (pool.downgrade(), runs.clone());
    pool.submit(move || hop(&weak, &counted, 3)).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 4);
    end(&pool);
}

/// A waiter against the expiry of an idle worker: it finds room where it was about to wait, and no
/// worker for its task, and has a worker started.
#[testkit::model(preemptions = 2)]
fn a_waiter_racing_the_last_workers_expiry_starts_a_worker() {
    let clock = ManualClock::new();
    let each = Pool::builder().capacity(1).keep_alive(SECOND);
    let builder = MultiBuilder::new(each.clock(clock.clone())).pools(1);
    let (pool, runs) = (builder.build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let time = spawn(move || clock.advance(SECOND));
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((runs.count(), pool.waiting()), (2, 0));
    time.join().unwrap();
    end(&pool);
}

/// A release against a reboot: in the end both pools are open, or both are released.
#[testkit::model(preemptions = 3)]
fn a_release_racing_a_reboot_leaves_both_pools_in_one_state() {
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
}

/// Two submitters at a full multi-pool in which one may wait: one waits, the other is refused.
#[testkit::model(preemptions = 2)]
fn one_of_two_waiters_gets_the_only_place_in_the_wait_queue() {
    let each = untimed().max_waiting(1);
    let pool = MultiBuilder::new(each).pools(1).build().unwrap();
    let gate = Parker::new();
    let shut = gate.clone();
    pool.submit(move || shut.park()).unwrap();
    let both = Arc::new(AtomicUsize::new(0));
    let wait = |pool: MultiPool, both: Arc<AtomicUsize>| {
        let mut future = pin!(pool.submit_async(|| {}));
        let mut context = Context::from_waker(Waker::noop());
        let waits = future.as_mut().poll(&mut context).is_pending();
        both.fetch_add(usize::from(waits), Relaxed);
        assert!(pool.waiting() <= 1);
    };
    let other = {
        let (pool, both) = (pool.clone(), Arc::clone(&both));
        spawn(move || wait(pool, both))
    };
    wait(pool.clone(), Arc::clone(&both));
    other.join().unwrap();
    assert!(both.load(Relaxed) > 0);
    gate.unpark();
    have_room_and_end_of(&pool, 1);
}

/// Two concurrent tunes: in the end all pools have the same capacity.
#[testkit::model(preemptions = 3)]
fn two_racing_tunes_leave_both_pools_with_one_capacity() {
    let pool = pair(untimed());
    let tuner = {
        let pool = pool.clone();
        spawn(move || pool.tune(2).unwrap())
    };
    pool.tune(3).unwrap();
    tuner.join().unwrap();
    let [first, second] = [0, 1].map(|index| pool.stats_of(index).unwrap().capacity);
    assert_eq!(first, second);
    end(&pool);
}

/// Always chooses the same pool.
struct Always(usize);

impl Strategy for Always {
    fn choose(&self, _: &Loads<'_>) -> usize {
        self.0
    }
}

/// A `try_submit` against the end of a task in the chosen pool: it finds room there or in the pool
/// before it.
#[testkit::model(preemptions = 2)]
fn a_try_submit_racing_a_completion_finds_the_room_in_any_pool() {
    let builder = MultiBuilder::new(untimed()).pools(2);
    let pool = builder.strategy(Always(1)).build().unwrap();
    pool.submit(|| {}).unwrap();
    assert!(pool.try_submit(|| {}).is_ok());
    have_room_and_end(&pool);
}

/// A waiter in the wait queue of a pool without workers, whose first start was refused, against the
/// submit that has it started: the waiter gets room first. The task that holds the other pool ends
/// only after the waiter's task has run.
#[testkit::model(preemptions = 1)]
fn a_waiter_racing_a_late_first_worker_is_admitted_first() {
    let starts = AtomicUsize::new(0);
    let each = untimed().thread_gate(move || {
        // The second start is refused: the waiter's, at the second pool.
        if starts.fetch_add(1, Relaxed) == 1 {
            Err(io::Error::from(io::ErrorKind::WouldBlock))
        } else {
            Ok(())
        }
    });
    let (pool, runs) = (pair(each), Runs::new());
    let gate = Parker::new();
    let shut = gate.clone();
    pool.submit(move || shut.park()).unwrap();
    let open = runs.task();
    let mut future = pin!(pool.submit_async(move || {
        open();
        gate.unpark();
    }));
    let mut context = Context::from_waker(Waker::noop());
    // Ignored: the task is accepted or waits, and is counted below.
    let _ = future.as_mut().poll(&mut context);
    let late = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.try_submit(task).is_ok())
    };
    let late = usize::from(late.join().unwrap());
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1 + late);
    end(&pool);
}

/// Cancel against the worker that pops the entry, in the second pool: one of them takes the task,
/// and that pool's room is freed once.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_the_worker_of_the_other_pool_frees_its_room_once() {
    let runs = Runs::new();
    let pools = MultiBuilder::new(untimed()).pools(2).strategy(Always(1));
    let pool = pools.build().unwrap();
    let handle = pool.spawn(runs.task()).unwrap();
    let cancelled = u64::from(handle.cancel());
    if cancelled == 1 {
        let stats = pool.stats_of(1).unwrap();
        assert_eq!((stats.in_flight, stats.queued, stats.cancelled), (0, 0, 1));
        pool.try_submit(runs.task()).unwrap();
    } else {
        handle.join().unwrap();
    }
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    assert_eq!(pool.stats_of(0).unwrap().submitted, 0);
    pool.release();
    pool.wait_released().unwrap();
    let stats = pool.stats_of(1).unwrap();
    assert_eq!(stats.submitted, stats.completed + cancelled);
}

/// A waiter for a permit of either pool against two permits that are dropped: it gets the room of
/// one of them, and no entry is left in a wait queue.
#[testkit::model(preemptions = 2)]
fn a_reservation_of_two_pools_racing_a_dropped_permit_gets_its_room_once() {
    let pool = pair(untimed());
    let permits = [pool.reserve().unwrap(), pool.reserve().unwrap()];
    let other = spawn(move || drop(permits));
    let permit = pool.reserve().unwrap();
    other.join().unwrap();
    assert!(lines_are_empty(&pool));
    assert_eq!(pool.stats().reserved, 1);
    drop(permit);
    assert_eq!(pool.stats().reserved, 0);
    have_room_and_end(&pool);
}

/// The drop of a future that waits for a permit of either pool, against the hand-over of room: no
/// room is lost.
#[testkit::model(preemptions = 2)]
fn a_dropped_reservation_of_two_pools_racing_the_hand_over_loses_no_room() {
    let pool = pair(untimed());
    let [first, second] = [pool.reserve().unwrap(), pool.reserve().unwrap()];
    let other = spawn(move || drop(first));
    {
        let mut future = pin!(pool.reserve_async());
        let mut context = Context::from_waker(Waker::noop());
        // Ignored: it waits or has its permit.
        let _ = future.as_mut().poll(&mut context);
    }
    other.join().unwrap();
    assert!(lines_are_empty(&pool));
    assert_eq!(pool.stats().reserved, 1);
    drop(second);
    have_room_and_end(&pool);
}
