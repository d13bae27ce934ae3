//! Release, waits for the end and for idleness, reboot and tuning of all pools at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt, WeakMultiPool};
use pool_core::{
    Capacity, FuncPool, JoinError, ManualClock, Pool, SubmitError, TuneError, WaitError,
};
use testkit::Gate;

use crate::support::{end, enter_lines, hold, hold_all, multi, next, until};

const SECOND: Duration = Duration::from_secs(1);

fn on_clock(pools: usize) -> (MultiPool, ManualClock) {
    let clock = ManualClock::new();
    let each = Pool::builder()
        .capacity(1)
        .keep_alive(None)
        .clock(clock.clone());
    (MultiBuilder::new(each).pools(pools).build().unwrap(), clock)
}

#[testkit::test]
fn a_wait_for_the_end_reports_the_pools_that_have_not_ended_and_can_be_repeated() {
    let (pool, _clock) = on_clock(3);
    let gates = hold_all(&pool, 3);
    gates[1].open();
    until(|| pool.in_flight() == 2);
    pool.release();
    until(|| pool.running_of(1) == Ok(0));
    let error = pool.release_timeout(Duration::ZERO).unwrap_err();
    let late = WaitError::TimedOut;
    assert_eq!(error.pools(), [(0, late), (2, late)]);
    assert!(error.any_timed_out() && error.all_timed_out());
    assert_eq!(
        error.to_string(),
        "pool 0: timed out waiting for the pool, pool 2: timed out waiting for the pool"
    );
    assert_eq!(
        pool.wait_released_timeout(Duration::ZERO),
        Err(error.clone())
    );
    assert_eq!(WaitError::from(error), late);
    gates.iter().for_each(Gate::open);
    pool.release_timeout(Duration::MAX).unwrap();
    pool.wait_released_timeout(Duration::ZERO).unwrap();
    assert_eq!(pool.running(), 0);
}

#[testkit::test]
fn a_timed_release_releases_all_pools_first_and_has_one_deadline() {
    let (pool, clock) = on_clock(3);
    let gates = hold_all(&pool, 3);
    let releaser = {
        let pool = pool.clone();
        thread::spawn(move || pool.release_timeout(SECOND))
    };
    clock.wait_for_sleepers(1); // It waits for the first pool.
    for _ in 0..3 {
        assert!(pool.try_submit(|| ()).unwrap_err().is_released());
    }
    clock.advance(SECOND); // One deadline for all pools.
    let error = releaser.join().unwrap().unwrap_err();
    assert_eq!(error.pools().len(), 3);
    gates.iter().for_each(Gate::open);
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_wait_for_the_end_of_all_pools_returns_rebooted_after_a_reboot() {
    let (pool, clock) = on_clock(2);
    let gate = hold(&pool);
    let waiter = {
        let pool = pool.clone();
        thread::spawn(move || pool.release_timeout(SECOND))
    };
    clock.wait_for_sleepers(1);
    assert!(pool.reboot());
    let error = waiter.join().unwrap().unwrap_err();
    assert_eq!(error.pools()[0], (0, WaitError::Rebooted));
    assert!(!error.all_timed_out());
    assert_eq!(WaitError::from(error), WaitError::Rebooted);
    assert_eq!(next(&pool), 1);
    gate.open();
    end(&pool);
}

#[testkit::test]
fn wait_idle_waits_for_a_task_that_moves_from_pool_to_pool() {
    fn hop(pool: &WeakMultiPool, hops: usize, count: &Arc<AtomicUsize>) {
        count.fetch_add(1, SeqCst);
        if hops > 0 {
            let (weak, count) = (pool.clone(), Arc::clone(count));
            let pool = pool.upgrade().unwrap();
            pool.submit(move || hop(&weak, hops - 1, &count)).unwrap();
        }
    }
    const HOPS: usize = 50;
    let pool = multi(2, 1);
    for round in 1..=200 {
        let count = Arc::new(AtomicUsize::new(0));
        let (weak, counter) = (pool.downgrade(), Arc::clone(&count));
        pool.submit(move || hop(&weak, HOPS, &counter)).unwrap();
        pool.wait_idle().unwrap();
        assert_eq!(count.load(SeqCst), HOPS + 1, "round {round}");
    }
}

#[testkit::test]
fn wait_idle_reports_the_pools_that_are_busy() {
    let (pool, _clock) = on_clock(3);
    pool.wait_idle_timeout(Duration::ZERO).unwrap();
    let gates = hold_all(&pool, 2);
    let error = pool.wait_idle_timeout(Duration::ZERO).unwrap_err();
    assert_eq!(
        error.pools(),
        [(0, WaitError::TimedOut), (1, WaitError::TimedOut)]
    );
    gates.iter().for_each(Gate::open);
    pool.wait_idle().unwrap();
    assert!(!pool.is_released());
    end(&pool);
}

#[testkit::test]
fn tuning_changes_every_pool() {
    let pool = multi(3, 1);
    pool.tune(4).unwrap();
    assert_eq!(pool.capacity(), Capacity::Limited(12));
    let gates = hold_all(&pool, 12);
    assert_eq!(pool.running_of(2), Ok(4));
    pool.tune(2).unwrap();
    assert_eq!((pool.free(), pool.running()), (Some(0), 12));
    gates.iter().for_each(Gate::open);
    until(|| pool.running() <= 6);
    assert_eq!(pool.tune(0), Err(TuneError::ZeroCapacity));
    assert_eq!(pool.capacity(), Capacity::Limited(6));
    end(&pool);
}

#[testkit::test]
fn preallocated_pools_cannot_become_unlimited() {
    let each = Pool::builder().capacity(2).preallocate(true);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    assert_eq!(
        pool.tune(Capacity::Unlimited),
        Err(TuneError::PreallocateUnlimited)
    );
    assert_eq!(pool.capacity(), Capacity::Limited(4));
}

#[testkit::test]
fn tuning_a_released_multi_pool_takes_effect_after_the_reboot() {
    let pool = multi(2, 1);
    end(&pool);
    pool.tune(3).unwrap();
    assert!(pool.is_released() && pool.try_submit(|| ()).is_err());
    assert_eq!(pool.running(), 0);
    pool.reboot();
    let gates = hold_all(&pool, 6);
    assert!(pool.try_submit(|| ()).unwrap_err().is_full());
    gates.iter().for_each(Gate::open);
    end(&pool);
}

#[testkit::test]
fn release_now_removes_unstarted_tasks_of_every_pool() {
    let each = Pool::builder().capacity(1).queue_depth(2);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let gates = hold_all(&pool, 2);
    let handles = [(); 4].map(|()| pool.try_spawn(|| ()).unwrap());
    let waiter = enter_lines(&pool, |pool| pool.submit(|| ()));
    assert_eq!(pool.release_now(), 4);
    assert!(waiter.join().unwrap().unwrap_err().is_released());
    for handle in handles {
        assert!(matches!(handle.join(), Err(JoinError::Released)));
    }
    gates.iter().for_each(Gate::open);
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.submitted, stats.completed, stats.released),
        (6, 2, 4)
    );
}

#[testkit::test]
fn release_now_of_a_typed_multi_pool_returns_the_arguments() {
    let gate = Gate::new();
    let shut = gate.clone();
    let each = FuncPool::builder(move |_: u32| shut.wait())
        .capacity(1)
        .queue_depth(2);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    for number in 0..6 {
        pool.try_submit(number).unwrap();
        gate.wait_for_arrivals(2.min(number as usize + 1));
    }
    let mut back = pool.release_now();
    back.sort_unstable();
    assert_eq!(back, [2, 3, 4, 5]);
    gate.open();
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_submit_racing_a_release_runs_accepted_tasks_only() {
    for _ in 0..200 {
        let pool = multi(2, 1);
        let ran = Arc::new(AtomicUsize::new(0));
        let submitters: Vec<_> = (0..3)
            .map(|_| {
                let (pool, ran) = (pool.clone(), Arc::clone(&ran));
                thread::spawn(move || {
                    let task = || {
                        let ran = Arc::clone(&ran);
                        move || _ = ran.fetch_add(1, SeqCst)
                    };
                    let accepted = (0..20).filter(|_| match pool.submit(task()) {
                        Ok(()) => true,
                        Err(SubmitError::Released(_)) => false,
                        Err(other) => panic!("{other:?}"),
                    });
                    accepted.count()
                })
            })
            .collect();
        thread::yield_now();
        pool.release();
        let accepted: usize = submitters.into_iter().map(|s| s.join().unwrap()).sum();
        pool.wait_released().unwrap();
        assert_eq!(ran.load(SeqCst), accepted);
        let stats = pool.stats();
        assert_eq!(stats.submitted + stats.refused, 60);
        assert_eq!((stats.live, stats.waiting, stats.in_flight), (0, 0, 0));
    }
}

#[testkit::test]
fn concurrent_releases_and_reboots_leave_all_pools_in_one_state() {
    let pool = multi(4, 1);
    for round in 0..200 {
        let others: Vec<_> = (0..4)
            .map(|number| {
                let pool = pool.clone();
                thread::spawn(move || {
                    if (number + round) % 2 == 0 {
                        pool.release()
                    } else {
                        pool.reboot()
                    }
                })
            })
            .collect();
        for other in others {
            other.join().unwrap();
        }
        let released = pool.is_released();
        for _ in 0..4 {
            let answer = pool.spawn(|| ());
            assert_eq!(answer.is_err(), released);
            let _ = answer.map(|handle| handle.join().unwrap());
        }
    }
    end(&pool);
}

/// Calls a closure in its destructor.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    fn new(call: F) -> Self {
        Self(Some(call))
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0.take().unwrap()();
    }
}

#[testkit::test]
fn release_now_does_not_hang_on_a_capture_that_joins_a_task_of_another_pool() {
    let each = Pool::builder().capacity(1).queue_depth(4);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let gates = hold_all(&pool, 2);
    pool.submit(|| ()).unwrap(); // Runs in the first pool.
    let second = pool.spawn(|| 7).unwrap(); // Queued in the second pool, which is emptied later.
    let (sent, joined) = std::sync::mpsc::channel();
    let capture = OnDrop::new(move || sent.send(second.join()).unwrap());
    pool.submit(move || drop(capture)).unwrap(); // Queued in the first pool.
    assert_eq!(
        (
            pool.stats_of(0).unwrap().queued,
            pool.stats_of(1).unwrap().queued
        ),
        (2, 1)
    );
    // The task that the capture joins was removed too, and is dropped later.
    assert_eq!(pool.release_now(), 3);
    assert!(matches!(joined.recv(), Ok(Err(JoinError::Released))));
    gates.iter().for_each(Gate::open);
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.released), (2, 3));
    assert!(!pool.is_own_worker());
}

#[testkit::test]
fn a_capture_that_calls_wait_idle_in_release_now_gets_would_deadlock() {
    let each = Pool::builder().capacity(1).queue_depth(4);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let gates = hold_all(&pool, 2);
    let (sent, told) = std::sync::mpsc::channel();
    let weak = pool.downgrade();
    let capture = OnDrop::new(move || {
        let pool = weak.upgrade().unwrap();
        let answers = [pool.wait_idle(), pool.wait_released()];
        sent.send(answers.map(|answer| answer.is_err())).unwrap();
    });
    pool.submit(move || drop(capture)).unwrap();
    assert_eq!(pool.release_now(), 1);
    assert_eq!(told.recv(), Ok([true, true]));
    gates.iter().for_each(Gate::open);
    end(&pool);
}
