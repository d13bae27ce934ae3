//! Paused pools: they accept tasks and start none until they are resumed.

use std::thread;
use std::time::Duration;

use pool_core::{DropPolicy, JoinError, ManualClock, OnFull, Pool, QueueDepth, SubmitError};
use pool_util::PoolExt;
use testkit::Gate;

use crate::support::{Journal, end, enter_line, hold, queueing, until};

const SECOND: Duration = Duration::from_secs(1);

fn wide(capacity: usize) -> Pool {
    let depth = QueueDepth::Unlimited;
    let pool = Pool::builder().capacity(capacity).queue_depth(depth);
    pool.build().unwrap()
}

#[testkit::test]
fn a_pause_lets_running_tasks_end_and_a_resume_starts_queued_tasks_in_order() {
    let (pool, journal) = (wide(1), Journal::new());
    let gate = hold(&pool, 1);
    pool.submit(journal.writer(0)).unwrap();
    assert!(!pool.is_paused() && !pool.resume());
    assert!(pool.pause() && !pool.pause() && pool.is_paused());
    gate.open();
    until(|| pool.busy() == 0);
    (1..50).for_each(|n| pool.submit(journal.writer(n)).unwrap());
    // The worker whose task has ended is parked, or parks without looking at the next task.
    until(|| pool.idle() == 1);
    assert_eq!(
        (journal.len(), pool.queued(), pool.in_flight()),
        (0, 50, 50)
    );
    assert!(pool.resume() && !pool.is_paused());
    pool.wait_idle().unwrap();
    assert!(journal.entries().into_iter().eq(0..50));
    end(&pool);
}

#[testkit::test]
fn a_paused_pool_accepts_tasks_until_it_is_full() {
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(2)
        .start_paused(true);
    let (pool, journal) = (pool.build().unwrap(), Journal::new());
    assert!(pool.is_paused() && pool.running() == 0);
    (0..3).for_each(|n| pool.try_submit(journal.writer(n)).unwrap());
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    let later = journal.writer(3);
    let waits = enter_line(&pool, move |pool| pool.submit(later));
    assert_eq!((pool.queued(), pool.waiting(), pool.running()), (3, 1, 1));
    pool.resume();
    waits.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), [0, 1, 2, 3]);
    end(&pool);
}

#[testkit::test]
fn a_resume_wakes_or_starts_a_worker_per_queued_task() {
    let (pool, gate) = (wide(4), Gate::new());
    pool.pause();
    for _ in 0..4 {
        let gate = gate.clone();
        pool.submit(move || gate.wait()).unwrap();
    }
    assert_eq!(pool.running(), 1, "one worker is kept for the queue");
    pool.resume();
    gate.wait_for_arrivals(4);
    pool.pause();
    gate.open();
    until(|| pool.idle() == 4);
    let again = Gate::new();
    for _ in 0..4 {
        let again = again.clone();
        pool.submit(move || again.wait()).unwrap();
    }
    pool.resume();
    again.wait_for_arrivals(4);
    again.open();
    pool.wait_idle().unwrap();
    end(&pool);
}

#[testkit::test]
fn all_workers_of_a_paused_pool_expire_except_one_if_tasks_are_queued() {
    let clock = ManualClock::new();
    let pool = Pool::builder()
        .capacity(3)
        .queue_depth(9)
        .clock(clock.clone());
    let pool = pool.keep_alive(10 * SECOND).prestart(3).build().unwrap();
    clock.wait_for_sleepers(3);
    pool.pause();
    let kept = pool.spawn(|| 7).unwrap();
    clock.advance(10 * SECOND);
    until(|| pool.running() == 1);
    // It sleeps without a time limit, and not only because of the queue.
    until(|| clock.sleepers() == 0);
    clock.advance(100 * SECOND);
    assert_eq!((pool.running(), pool.queued()), (1, 1));
    pool.resume();
    assert_eq!(kept.join().unwrap(), 7);
    clock.wait_for_sleepers(1);
    clock.advance(10 * SECOND);
    until(|| pool.running() == 0);
    end(&pool);
}

#[testkit::test]
fn a_worker_kept_for_a_cancelled_task_expires_after_the_resume() {
    let clock = ManualClock::new();
    let pool = Pool::builder().capacity(1).clock(clock.clone());
    let pool = pool
        .keep_alive(10 * SECOND)
        .start_paused(true)
        .build()
        .unwrap();
    let queued = pool.spawn(|| ()).unwrap();
    until(|| pool.idle() == 1);
    assert!(queued.cancel());
    assert!(pool.resume());
    clock.wait_for_sleepers(1);
    clock.advance(10 * SECOND);
    until(|| pool.running() == 0);
    end(&pool);
}

#[testkit::test]
fn a_task_running_during_a_pause_may_join_its_children() {
    let (pool, gate) = (wide(1), Gate::new());
    let (inner, wait) = (pool.clone(), gate.clone());
    let outer = pool.spawn(move || {
        let child = inner.spawn(|| 5).unwrap();
        wait.wait();
        (inner.is_paused(), child.join().unwrap())
    });
    gate.wait_for_arrivals(1);
    pool.pause();
    gate.open();
    assert_eq!(outer.unwrap().join().unwrap(), (true, 5));
    pool.resume();
    end(&pool);
}

#[testkit::test]
fn a_release_and_the_last_drop_run_the_tasks_of_a_paused_pool() {
    let (pool, journal) = (wide(2), Journal::new());
    pool.pause();
    (0..20).for_each(|_| pool.submit(journal.writer(())).unwrap());
    assert!(pool.release() && !pool.is_paused() && !pool.pause());
    pool.wait_released().unwrap();
    assert_eq!(journal.len(), 20);
    assert!(pool.reboot() && !pool.is_paused());
    end(&pool);

    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(9)
        .start_paused(true);
    let pool = pool.drop_policy(DropPolicy::Join).build().unwrap();
    (0..5).for_each(|_| pool.submit(journal.writer(())).unwrap());
    drop(pool); // Does not hang.
    assert_eq!(journal.len(), 25);
}

#[testkit::test]
fn release_now_drops_the_tasks_of_a_paused_pool() {
    let pool = queueing(9);
    pool.pause();
    let handle = pool.spawn(|| panic!("it is not run")).unwrap();
    assert_eq!(pool.release_now(), 1);
    let joined: Result<(), _> = handle.join();
    assert!(matches!(joined, Err(JoinError::Released)));
    pool.wait_released().unwrap();
}

#[testkit::test]
fn mappings_keys_and_callers_wait_while_the_pool_is_paused() {
    let pool = Pool::builder().capacity(2).queue_depth(1);
    let pool = pool.on_full(OnFull::RunInCaller).build().unwrap();
    let (keyed, journal, gate) = (pool.keyed(), Journal::new(), Gate::new());
    let wait = gate.clone();
    keyed.submit(1, move || wait.wait()).unwrap();
    gate.wait_for_arrivals(1);
    keyed.submit(1, journal.writer(1)).unwrap();
    pool.pause();
    pool.submit(journal.writer(2)).unwrap();
    // The pool is full. Unless it is paused, the caller would run the task itself.
    let third = journal.writer(3);
    let waits = enter_line(&pool, move |pool| pool.submit(third));
    let mapped = enter_line(&pool, |pool| {
        pool.map(0..9, |n| n).map(Result::unwrap).sum::<i32>()
    });
    gate.open();
    until(|| pool.idle() == pool.running());
    assert_eq!(journal.len(), 0);
    pool.resume();
    waits.join().unwrap().unwrap();
    assert_eq!(mapped.join().unwrap(), 36);
    pool.wait_idle().unwrap();
    let mut entries = journal.entries();
    entries.sort_unstable();
    assert_eq!(entries, [1, 2, 3]);
    end(&pool);
}

#[testkit::test]
fn random_pauses_and_resumes_lose_no_task() {
    let (pool, journal) = (wide(3), Journal::new());
    thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                for n in 0..2_000 {
                    pool.submit(journal.writer(n)).unwrap();
                }
            });
        }
        threads.spawn(|| {
            for _ in 0..500 {
                pool.pause();
                thread::yield_now();
                pool.resume();
            }
        });
    });
    pool.wait_idle().unwrap();
    assert_eq!(journal.len(), 4_000);
    end(&pool);
}
