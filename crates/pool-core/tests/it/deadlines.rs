//! Submits with a timeout: they wait exactly that long, and always return an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use pool_core::{Clock, ManualClock, Pool, SubmitError};
use testkit::Gate;

use crate::support::{Journal, enter_line, hold, pool};

const SECOND: Duration = Duration::from_secs(1);

#[testkit::test]
fn a_submit_that_times_out_leaves_the_wait_queue_and_returns_its_task() {
    let clock = ManualClock::new();
    let pool = Pool::builder()
        .capacity(1)
        .keep_alive(None)
        .clock(clock.clone());
    let pool = pool.build().unwrap();
    let gate = hold(&pool, 1);
    let journal = Journal::new();
    let short = {
        let task = journal.writer("short");
        enter_line(&pool, move |pool| pool.submit_timeout(task, 5 * SECOND))
    };
    let long = {
        let (task, deadline) = (journal.writer("long"), clock.now() + 9 * SECOND);
        enter_line(&pool, move |pool| pool.submit_timeout(task, deadline))
    };
    clock.wait_for_sleepers(2);
    clock.advance(Duration::new(4, 999_999_999));
    assert_eq!((pool.waiting(), clock.sleepers()), (2, 2));
    clock.advance(Duration::from_nanos(1));
    let back = short.join().unwrap().unwrap_err();
    assert!(matches!(back, SubmitError::TimedOut(_)), "{back}");
    assert_eq!((pool.waiting(), journal.len()), (1, 0));
    gate.open();
    long.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["long"]);
    back.into_task()();
    assert_eq!(journal.entries(), ["long", "short"]);
}

#[testkit::test]
fn a_deadline_racing_the_hand_over_accepts_or_returns_the_task() {
    let clock = ManualClock::new();
    let pool = Pool::builder()
        .capacity(1)
        .keep_alive(None)
        .clock(clock.clone());
    let pool = pool.build().unwrap();
    let mut outcomes = [0; 2];
    for _ in 0..500 {
        let gate = hold(&pool, 1);
        let ran = Arc::new(AtomicBool::new(false));
        let task = {
            let ran = Arc::clone(&ran);
            move || ran.store(true, SeqCst)
        };
        let waiter = enter_line(&pool, move |pool| pool.submit_timeout(task, SECOND));
        clock.wait_for_sleepers(1);
        let opener = thread::spawn(move || gate.open());
        clock.advance(SECOND);
        let accepted = waiter.join().unwrap().is_ok();
        opener.join().unwrap();
        pool.wait_idle().unwrap();
        assert_eq!(ran.load(SeqCst), accepted);
        outcomes[usize::from(accepted)] += 1;
    }
    assert_eq!(outcomes.iter().sum::<i32>(), 500);
}

#[testkit::test]
fn a_zero_timeout_and_a_past_deadline_still_take_free_room() {
    let clock = ManualClock::new();
    let pool = Pool::builder()
        .capacity(2)
        .clock(clock.clone())
        .build()
        .unwrap();
    let past = clock.now();
    clock.advance(SECOND);
    let gate = Gate::new();
    let task = || {
        let gate = gate.clone();
        move || gate.wait()
    };
    pool.submit_timeout(task(), Duration::ZERO).unwrap();
    pool.submit_timeout(task(), past).unwrap();
    let late = pool.submit_timeout(task(), Duration::ZERO);
    assert!(matches!(late, Err(SubmitError::TimedOut(_))));
    let late = pool.submit_timeout(task(), past);
    assert!(matches!(late, Err(SubmitError::TimedOut(_))));
    let late = pool.spawn_timeout(task(), Duration::ZERO);
    assert!(matches!(late, Err(SubmitError::TimedOut(_))));
    let late = pool.spawn_timeout(task(), past);
    assert!(matches!(late, Err(SubmitError::TimedOut(_))));
    assert_eq!((pool.waiting(), pool.stats().refused), (0, 4));
    gate.open();
}

#[testkit::test]
fn an_endless_timeout_waits_until_there_is_room() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let waiters = [
        Duration::MAX,
        Duration::from_secs(u64::MAX),
        Duration::MAX / 2,
    ]
    .map(|long| enter_line(&pool, move |pool| pool.submit_timeout(|| (), long)));
    let spawned = enter_line(&pool, |pool| pool.spawn_timeout(|| 5, Duration::MAX));
    gate.open();
    for waiter in waiters {
        waiter.join().unwrap().unwrap();
    }
    let handle = spawned.join().unwrap().unwrap();
    assert_eq!(handle.join_timeout(Duration::MAX).unwrap().unwrap(), 5);
}
