//! Workers that wait for tasks of their own pool, which they may run, or for the pool's end, which
//! is refused.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pool_core::{
    BatchError, Clock, Closures, JoinError, JoinHandle, ManualClock, Pool, QueueDepth,
    ReserveFuture, SubmitError, WaitError, WithinWorker,
};
use testkit::{Gate, block_on};

use crate::support::{Journal, end, hold, poll, pool, queueing, until};

#[testkit::test]
fn a_worker_that_joins_an_unstarted_task_runs_that_task_only() {
    let pool = Pool::builder().capacity(1).queue_depth(3).build().unwrap();
    let inner = pool.clone();
    let journal = Journal::new();
    let log = journal.clone();
    let outer = pool.spawn(move || {
        let here = thread::current().id();
        // A join under a lock must not run another task, which may want the same lock.
        let lock = Arc::new(Mutex::new(()));
        let (stranger, strange_log) = (Arc::clone(&lock), log.clone());
        inner
            .try_submit(move || {
                drop(stranger.lock().unwrap());
                strange_log.write("stranger");
            })
            .unwrap();
        let awaited_log = log.clone();
        let awaited = inner.try_spawn(move || {
            awaited_log.write("awaited");
            thread::current().id()
        });
        let failing = inner.try_spawn(|| panic!("in place")).unwrap();
        let held = lock.lock().unwrap();
        assert_eq!(awaited.unwrap().join().unwrap(), here);
        let panicked = failing.join().unwrap_err();
        assert!(panicked.into_panic().is_some());
        drop(held);
        log.write("joined");
        inner.stats()
    });
    let within = outer.unwrap().join().unwrap();
    assert_eq!((within.completed, within.panicked), (1, 1));
    assert_eq!(
        (within.queued, within.in_flight),
        (1, 2),
        "the other task, and the one that checks"
    );
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["awaited", "joined", "stranger"]);
    let stats = pool.stats();
    assert_eq!(
        (stats.submitted, stats.completed, stats.panicked),
        (4, 3, 1)
    );
}

#[testkit::test]
fn a_worker_that_joins_a_task_running_elsewhere_waits_for_it() {
    let pool = pool(2);
    let (gate, asked) = (Gate::new(), Gate::new());
    let (inner, held, asking) = (pool.clone(), gate.clone(), asked.clone());
    let outer = pool.spawn(move || {
        let task = held.clone();
        let handle = inner.spawn(move || {
            task.wait();
            thread::current().id()
        });
        held.wait_for_arrivals(1);
        let handle = handle.unwrap().join_timeout(Duration::ZERO).unwrap_err();
        asking.open();
        assert_ne!(handle.join().unwrap(), thread::current().id());
    });
    until(|| asked.is_open());
    gate.open();
    outer.unwrap().join().unwrap();
}

#[testkit::test]
fn tasks_that_wait_for_their_children_do_not_starve_the_pool() {
    fn fibonacci(pool: &Pool, n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let child = pool.clone();
        let left = pool.spawn(move || fibonacci(&child, n - 1)).unwrap();
        let right = fibonacci(pool, n - 2);
        left.join().unwrap() + right
    }
    for depth in [0, 1, 1000] {
        let pool = Pool::builder()
            .capacity(2)
            .queue_depth(depth)
            .build()
            .unwrap();
        let inner = pool.clone();
        let root = pool.spawn(move || fibonacci(&inner, 15)).unwrap();
        assert_eq!(root.join().unwrap(), 610);
        pool.wait_idle().unwrap();
        let stats = pool.stats();
        assert_eq!((stats.submitted, stats.in_flight), (stats.completed, 0));
    }
}

/// Makes every call that waits for a pool. Each must return `WouldDeadlock` at once.
fn every_wait(pool: &Pool, now: Instant) -> [Result<(), WaitError>; 8] {
    let long = Duration::MAX;
    [
        pool.wait_idle(),
        pool.wait_idle_timeout(long),
        pool.wait_idle_timeout(now),
        pool.wait_released(),
        pool.wait_released_timeout(long),
        pool.wait_released_timeout(now),
        pool.release_timeout(long),
        pool.release_timeout(now),
    ]
}

#[testkit::test]
fn every_wait_on_an_own_worker_returns_would_deadlock() {
    let pool = pool(2);
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let now = pool_core::MonotonicClock.now();
        assert_eq!(every_wait(&inner, now), [Err(WaitError::WouldDeadlock); 8]);
        assert!(
            inner.is_released(),
            "the release takes effect although its wait is refused"
        );
    });
    outer.unwrap().join().unwrap();
    pool.wait_released().unwrap();
}

/// Polls every future that waits for a pool, until it is ready.
fn every_wait_as_a_future(pool: &Pool) -> [Result<(), WaitError>; 4] {
    [
        block_on(pool.wait_idle_async()),
        block_on(pool.wait_released_async()),
        block_on(pool.release_timeout_async(Duration::MAX)),
        block_on(pool.release_async()),
    ]
}

#[testkit::test]
fn every_wait_polled_on_an_own_worker_returns_would_deadlock() {
    for capacity in [1, 2] {
        let pool = pool(capacity);
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            let answers = every_wait_as_a_future(&inner);
            assert_eq!(answers, [Err(WaitError::WouldDeadlock); 4]);
            assert!(inner.is_released());
        });
        outer.unwrap().join().unwrap();
        pool.wait_released().unwrap();
    }
}

#[testkit::test]
fn a_wait_that_has_begun_elsewhere_returns_would_deadlock_when_it_is_polled_on_an_own_worker() {
    let pool = pool(2);
    let gate = hold(&pool, 1);
    let (mut idle, mut end) = (pool.wait_idle_async(), Box::pin(pool.wait_released_async()));
    assert!(poll(&mut idle).is_pending() && poll(&mut end).is_pending());
    let outer = pool.spawn(move || [block_on(idle), block_on(end)]).unwrap();
    assert_eq!(outer.join().unwrap(), [Err(WaitError::WouldDeadlock); 2]);
    gate.open();
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_wait_created_on_an_own_worker_and_polled_elsewhere_waits() {
    let pool = pool(1);
    let inner = pool.clone();
    let created = pool.spawn(move || inner.wait_idle_async()).unwrap();
    assert_eq!(block_on(created.join().unwrap()), Ok(()));
}

#[testkit::test]
fn a_future_that_submits_on_an_own_worker_of_a_full_pool_follows_the_setting_of_the_pool() {
    let policies = [
        (WithinWorker::RunInPlace, 1),
        (WithinWorker::RunInPlace, 0), // At the nesting limit.
        (WithinWorker::Refuse, 1),
    ];
    for (policy, limit) in policies {
        let pool = Pool::builder().capacity(1).within_worker(policy);
        let pool = pool.nesting_limit(limit).build().unwrap();
        let runs = policy == WithinWorker::RunInPlace && limit > 0;
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            let here = thread::current().id();
            let task = move || thread::current().id() == here;
            let spawned = [
                block_on(inner.spawn_async(task)),
                block_on(inner.task().spawn_async(task)),
            ];
            let submitted = [
                block_on(inner.submit_async(task)).map_err(SubmitError::without_task),
                block_on(inner.task().submit_async(task)).map_err(SubmitError::without_task),
                block_on(inner.submit_batch_async([task, task]))
                    .map(drop)
                    .map_err(BatchError::without_tasks),
            ];
            for spawned in spawned {
                match spawned {
                    Ok(handle) => assert!(runs && handle.join().unwrap()),
                    Err(refused) => assert!(!runs && refused.is_full()),
                }
            }
            for submitted in submitted {
                assert_eq!(submitted.is_ok(), runs);
                assert!(submitted.err().is_none_or(|refused| refused.is_full()));
            }
            assert!(block_on(inner.reserve_async()).unwrap_err().is_full());
        });
        outer.unwrap().join().unwrap();
        end(&pool);
        let stats = pool.stats();
        assert_eq!((stats.waiting, stats.reserved), (0, 0));
        assert_eq!(
            stats.completed,
            if runs { 7 } else { 1 },
            "{policy:?}, {limit}"
        );
        assert_eq!(stats.submitted, stats.completed);
    }
}

#[testkit::test]
fn a_future_in_the_wait_queue_does_not_wait_for_the_own_worker_that_polls_it() {
    let pool = Pool::builder().capacity(2).build().unwrap();
    let (gate, polls) = (hold(&pool, 1), Gate::new());
    let (entered, (give, take)) = (polls.clone(), mpsc::channel());
    let outer = pool.spawn(move || {
        entered.wait();
        let (submits, reserves) = take.recv().unwrap();
        let here = thread::current().id();
        let submitted: Result<JoinHandle<ThreadId>, _> = block_on(submits);
        assert_eq!(submitted.unwrap().join().unwrap(), here);
        let reserved = block_on::<ReserveFuture<Closures>>(reserves);
        assert!(reserved.unwrap_err().is_full());
    });
    polls.wait_for_arrivals(1);
    let mut submits = pool.spawn_async(|| thread::current().id());
    let mut reserves = pool.reserve_async();
    assert!(poll(&mut submits).is_pending() && poll(&mut reserves).is_pending());
    assert_eq!(pool.waiting(), 2);
    give.send((submits, reserves)).unwrap();
    polls.open();
    outer.unwrap().join().unwrap();
    gate.open();
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed, stats.refused), (3, 3, 1));
}

#[testkit::test]
fn a_pool_whose_workers_may_block_lets_a_future_on_an_own_worker_wait_for_another() {
    let pool = Pool::builder()
        .capacity(2)
        .within_worker(WithinWorker::Block);
    let pool = pool.build().unwrap();
    let gate = hold(&pool, 1);
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let here = thread::current().id();
        block_on(inner.spawn_async(move || thread::current().id() != here)).is_ok()
    });
    until(|| pool.waiting() == 1);
    gate.open();
    assert!(outer.unwrap().join().unwrap());
    end(&pool);
}

#[testkit::test]
fn every_wait_in_a_workers_thread_local_destructor_returns_would_deadlock() {
    type Answers = Journal<[Result<(), WaitError>; 8]>;
    struct Waits(Pool, Answers);
    impl Drop for Waits {
        fn drop(&mut self) {
            assert!(self.0.is_own_worker());
            self.1.write(every_wait(&self.0, Instant::now()));
        }
    }
    thread_local!(static KEPT: RefCell<Option<Waits>> = const { RefCell::new(None) });
    let (pool, answers) = (pool(2), Answers::new());
    let waits = Waits(pool.clone(), answers.clone());
    pool.submit(move || KEPT.set(Some(waits))).unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
    assert_eq!(answers.entries(), [[Err(WaitError::WouldDeadlock); 8]]);
}

#[testkit::test]
fn a_workers_thread_local_destructor_may_submit() {
    struct Submits(Pool, Journal<bool>);
    impl Drop for Submits {
        fn drop(&mut self) {
            let value = self.0.spawn(|| 7).map(|handle| handle.join().unwrap() == 7);
            self.1.write(value.unwrap());
        }
    }
    thread_local!(static KEPT: RefCell<Option<Submits>> = const { RefCell::new(None) });
    // The worker expires at once, so its thread-locals are dropped while the pool is open.
    let pool = Pool::builder()
        .capacity(1)
        .keep_alive(Duration::ZERO)
        .build()
        .unwrap();
    let journal = Journal::new();
    let submits = Submits(pool.clone(), journal.clone());
    pool.submit(move || KEPT.set(Some(submits))).unwrap();
    until(|| journal.len() == 1);
    end(&pool);
    assert_eq!(journal.entries(), [true]);
    assert_eq!(pool.stats().threads_started, 2);
}

#[testkit::test]
fn a_task_joined_in_place_holds_no_room_and_is_in_flight() {
    let pool = queueing(1);
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let looks = inner.clone();
        let child = inner.spawn(move || {
            let stats = looks.stats();
            looks.try_submit(|| ()).unwrap();
            stats
        });
        let child = child.unwrap();
        assert!(inner.try_submit(|| ()).is_err(), "the child holds the room");
        let during = child.join().unwrap();
        assert_eq!(
            (during.in_flight, during.queued, during.completed),
            (2, 0, 0)
        );
        let after = inner.stats();
        assert_eq!((after.in_flight, after.queued, after.completed), (2, 1, 1));
    });
    outer.unwrap().join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 3);
}

#[testkit::test]
fn a_timed_join_starts_nothing_in_place() {
    let clock = ManualClock::new();
    let pool = Pool::builder().capacity(1).queue_depth(1).keep_alive(None);
    let pool = pool.clock(clock.clone()).build().unwrap();
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let journal = Journal::new();
        let child = inner.spawn(journal.writer("child")).unwrap();
        let child = child.join_timeout(Duration::from_secs(1)).unwrap_err();
        let child = child.join_timeout(Instant::now()).unwrap_err();
        assert_eq!((journal.len(), child.is_finished()), (0, false));
        child.join().unwrap();
        journal.len()
    });
    clock.wait_for_sleepers(1);
    clock.advance(Duration::from_secs(1));
    assert_eq!(outer.unwrap().join().unwrap(), 1);
}

/// Spawns a task that spawns a task, and so on. Each joins the next. Returns the depth that was
/// reached.
fn descend(pool: &Pool, deeper: u32) -> Result<u32, JoinError> {
    if deeper == 0 {
        return Ok(0);
    }
    let inner = pool.clone();
    let next = pool.spawn(move || descend(&inner, deeper - 1)).unwrap();
    Ok(next.join()?? + 1)
}

#[testkit::test]
fn recursion_by_spawn_and_join_ends_at_the_nesting_limit_without_stack_overflow() {
    for limit in [0, 1, 64] {
        let pool = Pool::builder().capacity(1).nesting_limit(limit);
        let pool = pool.queue_depth(QueueDepth::Unlimited).build().unwrap();
        let depth = |deeper| {
            let inner = pool.clone();
            let outer = pool.spawn(move || descend(&inner, deeper));
            let depth = outer.unwrap().join().unwrap();
            pool.wait_idle().unwrap();
            depth
        };
        assert_eq!(depth(limit).unwrap(), limit);
        let beyond = depth(limit + 1);
        assert!(
            matches!(beyond, Err(JoinError::WouldDeadlock)),
            "{beyond:?}"
        );
        let far_beyond = depth(10_000);
        assert!(matches!(far_beyond, Err(JoinError::WouldDeadlock)));
        let stats = pool.stats();
        // The tasks whose joins were refused have run.
        assert_eq!(stats.completed, u64::from(2 * limit) + 10_004);
        assert_eq!((stats.in_flight, stats.panicked), (0, 0));
    }
}

#[testkit::test]
fn a_worker_at_the_nesting_limit_still_waits_for_a_task_that_another_has_started() {
    let pool = Pool::builder()
        .capacity(2)
        .nesting_limit(0)
        .build()
        .unwrap();
    let (inner, gate) = (pool.clone(), Gate::new());
    let held = gate.clone();
    let outer = pool.spawn(move || {
        let wait = held.clone();
        let child = inner.spawn(move || wait.wait()).unwrap();
        held.wait_for_arrivals(1);
        child.join()
    });
    gate.wait_for_arrivals(1);
    gate.open();
    outer.unwrap().join().unwrap().unwrap();
}
