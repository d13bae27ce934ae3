//! A worker that runs user code counts as busy and holds no other task. Each test blocks one such
//! call at a gate, and checks that the pool continues meanwhile.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use pool_core::{ManualClock, Pool, WaitError};
use testkit::{Gate, waker_fn};

use crate::support::{Journal, end, hold, poll_with, until, wait_in_line};

/// Waits at a gate in its destructor.
struct Dallies(Gate);

impl Drop for Dallies {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// A waker that waits at a gate when it is woken.
fn dallying_waker(gate: &Gate) -> Waker {
    let gate = gate.clone();
    waker_fn(move || gate.wait())
}

/// A pool whose workers are all parked. They do not expire, because the clock stands still.
fn staffed(workers: usize, depth: usize) -> Pool {
    let clock = ManualClock::new();
    let pool = Pool::builder().capacity(workers).queue_depth(depth);
    let pool = pool.prestart(workers).clock(clock.clone());
    let pool = pool.build().unwrap();
    clock.wait_for_sleepers(workers);
    pool
}

/// Holds two workers, each at its own gate.
fn two_at_work(pool: &Pool) -> [Gate; 2] {
    [hold(pool, 1), hold(pool, 1)]
}

/// Runs a task while the other user code is blocked.
fn another_task_is_run(pool: &Pool) {
    assert_eq!(pool.spawn(|| 7).unwrap().join().unwrap(), 7);
}

/// Spawns a task whose value its worker drops: the handle is dropped before the task ends.
fn spawn_detached(pool: &Pool, value: impl Send + 'static) {
    let detached = Gate::new();
    let held = detached.clone();
    let handle = pool.spawn(move || {
        held.wait();
        value
    });
    drop(handle.unwrap());
    detached.open();
}

#[testkit::test]
fn a_task_does_not_wait_for_the_destructor_of_a_detached_value() {
    let (pool, dropping) = (staffed(2, 8), Gate::new());
    spawn_detached(&pool, Dallies(dropping.clone()));
    dropping.wait_for_arrivals(1);
    assert_eq!((pool.busy(), pool.in_flight()), (1, 1));
    another_task_is_run(&pool);
    dropping.open();
    end(&pool);
    assert_eq!(pool.stats().completed, 2);
}

#[testkit::test]
fn a_submitted_closure_ends_after_its_value_is_dropped() {
    let (pool, dropping) = (staffed(2, 8), Gate::new());
    let value = Dallies(dropping.clone());
    pool.submit(move || value).unwrap();
    dropping.wait_for_arrivals(1);
    assert_eq!((pool.busy(), pool.in_flight()), (1, 1));
    another_task_is_run(&pool);
    let late = pool.wait_idle_timeout(Duration::ZERO);
    assert_eq!(late, Err(WaitError::TimedOut));
    assert_eq!(pool.stats().completed, 1);
    dropping.open();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 2);
}

#[testkit::test]
fn a_detached_task_ends_after_its_value_is_dropped() {
    let (pool, dropping) = (staffed(1, 8), Gate::new());
    spawn_detached(&pool, Dallies(dropping.clone()));
    dropping.wait_for_arrivals(1);
    let late = pool.wait_idle_timeout(Duration::ZERO);
    assert_eq!(late, Err(WaitError::TimedOut));
    assert_eq!(pool.stats().completed, 0);
    dropping.open();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 1);
}

#[testkit::test]
fn the_drop_of_a_detached_value_may_wait_for_another_task() {
    struct Asks(Pool);
    impl Drop for Asks {
        fn drop(&mut self) {
            let (asked, answered) = (self.0.clone(), Gate::new());
            let answer = answered.clone();
            asked.try_submit(move || answer.open()).unwrap();
            answered.wait();
        }
    }
    let pool = staffed(2, 8);
    spawn_detached(&pool, Asks(pool.clone()));
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 2);
}

#[testkit::test]
fn a_joiners_waker_does_not_delay_the_end_of_the_task() {
    let (pool, waking) = (staffed(2, 8), Gate::new());
    let ends = Gate::new();
    let held = ends.clone();
    let mut handle = pool.spawn(move || held.wait()).unwrap();
    assert!(poll_with(&mut handle, &dallying_waker(&waking)).is_pending());
    ends.open();
    waking.wait_for_arrivals(1);
    // The task has ended, and its worker is still busy.
    let stats = pool.stats();
    assert_eq!((stats.in_flight, stats.completed, stats.busy), (0, 1, 1));
    assert!(handle.is_finished());
    pool.wait_idle().unwrap();
    another_task_is_run(&pool);
    waking.open();
    end(&pool);
}

#[testkit::test]
fn a_worker_calls_a_joiners_waker_before_it_takes_the_next_task() {
    let (pool, waking) = (staffed(2, 8), Gate::new());
    let [ends, other] = [(); 2].map(|()| Gate::new());
    let held = ends.clone();
    let mut handle = pool.spawn(move || held.wait()).unwrap();
    let held = other.clone();
    pool.submit(move || held.wait()).unwrap();
    ends.wait_for_arrivals(1);
    other.wait_for_arrivals(1);
    assert!(poll_with(&mut handle, &dallying_waker(&waking)).is_pending());
    let next = pool.spawn(|| "next").unwrap();
    ends.open();
    waking.wait_for_arrivals(1);
    assert_eq!((pool.queued(), pool.busy()), (1, 2));
    other.open();
    assert_eq!(next.join().unwrap(), "next");
    waking.open();
    end(&pool);
}

#[testkit::test]
fn a_task_frees_its_room_before_a_joiners_waker_is_called() {
    let (pool, journal) = (staffed(1, 0), Journal::new());
    let ends = Gate::new();
    let held = ends.clone();
    let mut handle = pool.spawn(move || held.wait()).unwrap();
    let waker = {
        let (pool, journal) = (pool.clone(), journal.clone());
        waker_fn(move || {
            journal.write(pool.stats().completed);
            pool.try_submit(journal.writer(99)).unwrap();
        })
    };
    assert!(poll_with(&mut handle, &waker).is_pending());
    ends.open();
    until(|| journal.len() == 2);
    assert_eq!(journal.entries(), [1, 99]);
    end(&pool);
}

#[testkit::test]
fn a_worker_wakes_a_waiting_future_before_it_takes_the_next_task() {
    let (pool, waking, ran) = (staffed(2, 0), Gate::new(), Gate::new());
    let [first, second] = two_at_work(&pool);
    let runs = ran.clone();
    let mut entering = pool.submit_async(move || runs.open());
    assert!(poll_with(&mut entering, &dallying_waker(&waking)).is_pending());
    first.open();
    waking.wait_for_arrivals(1);
    assert_eq!((pool.queued(), pool.busy()), (1, 2));
    second.open();
    ran.wait();
    assert!(!waking.is_open());
    waking.open();
    end(&pool);
}

#[testkit::test]
fn tuning_starts_workers_before_it_wakes_futures() {
    let (pool, waking, ran) = (staffed(1, 0), Gate::new(), Gate::new());
    let held = hold(&pool, 1);
    let runs = ran.clone();
    let mut entering = pool.submit_async(move || runs.open());
    assert!(poll_with(&mut entering, &dallying_waker(&waking)).is_pending());
    let tuner = {
        let pool = pool.clone();
        thread::spawn(move || pool.tune(8).unwrap())
    };
    waking.wait_for_arrivals(1);
    ran.wait();
    another_task_is_run(&pool);
    waking.open();
    tuner.join().unwrap();
    held.open();
    end(&pool);
}

#[testkit::test]
fn a_release_wakes_waiting_threads_before_futures() {
    let (pool, waking) = (staffed(1, 0), Gate::new());
    let held = hold(&pool, 1);
    let mut entering = pool.submit_async(|| ());
    assert!(poll_with(&mut entering, &dallying_waker(&waking)).is_pending());
    let waiter = wait_in_line(&pool, || ());
    let releaser = {
        let pool = pool.clone();
        thread::spawn(move || pool.release())
    };
    waking.wait_for_arrivals(1);
    assert!(waiter.join().unwrap().unwrap_err().is_released());
    waking.open();
    assert!(releaser.join().unwrap());
    held.open();
    end(&pool);
}

/// A thread gate that allows two starts and refuses the others. Once `blocks` is open, each refused
/// start first waits at `asked`.
fn budget(blocks: &Gate, asked: &Gate) -> impl Fn() -> io::Result<()> + Send + Sync + 'static {
    let (free, blocks, asked) = (AtomicUsize::new(2), blocks.clone(), asked.clone());
    move || {
        let take = |left: usize| left.checked_sub(1);
        if free.fetch_update(SeqCst, SeqCst, take).is_ok() {
            return Ok(());
        }
        if blocks.is_open() {
            asked.wait();
        }
        Err(io::Error::from(io::ErrorKind::WouldBlock))
    }
}

#[testkit::test]
fn a_worker_calls_the_thread_gate_before_it_takes_the_next_task() {
    let (blocks, asked, journal) = (Gate::new(), Gate::new(), Journal::new());
    let pool = Pool::builder().capacity(3).queue_depth(8);
    let pool = pool.thread_gate(budget(&blocks, &asked)).build().unwrap();
    let [first, second] = two_at_work(&pool);
    pool.try_submit(journal.writer("third")).unwrap();
    pool.try_submit(journal.writer("fourth")).unwrap();
    blocks.open();
    // Its worker sees two queued tasks, and is about to start another worker for one of them.
    first.open();
    asked.wait_for_arrivals(1);
    assert_eq!((pool.queued(), pool.busy()), (2, 2));
    second.open();
    until(|| journal.len() == 2);
    assert_eq!(journal.entries(), ["third", "fourth"]);
    asked.open();
    end(&pool);
}
