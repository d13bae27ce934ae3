//! Timers against parking workers, a clock that advances, and dropped sleeps.

use std::time::{Duration, Instant};

use async_pool::{AsyncPool, Clock, DropPolicy, JoinError, ManualClock, sleep_until};
use sync_shim::model::spawn;

use super::{Count, end};

const SECOND: Duration = Duration::from_secs(1);

fn timed(workers: usize) -> (AsyncPool, ManualClock, Instant) {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder()
        .workers(workers)
        .capacity(3)
        .clock(clock.clone())
        .drop_policy(DropPolicy::Drain)
        .build()
        .unwrap();
    let now = clock.now();
    (pool, clock, now)
}

/// A worker parks until a late timer, and a new task brings an earlier one: the worker parks for the earlier one.
#[testkit::model(preemptions = 2)]
fn a_new_earliest_timer_racing_a_parked_worker_fires() {
    let (pool, clock, now) = timed(1);
    let late = pool.spawn(sleep_until(now + 2 * SECOND)).unwrap();
    let early = pool.spawn(sleep_until(now + SECOND)).unwrap();
    let advances = spawn(move || clock.advance(SECOND));
    early.join().unwrap();
    assert!(!late.is_finished(), "nothing fires early");
    late.cancel();
    assert!(matches!(late.join(), Err(JoinError::Cancelled)));
    advances.join().unwrap();
    end(&pool);
}

/// A cancel against the timer of its task: the future is dropped once, and no timer is left.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_a_timer_drops_the_future_once() {
    let (pool, clock, now) = timed(1);
    let drops = Count::new();
    let guard = drops.on_drop();
    let task = pool.spawn(async move {
        let _guard = guard;
        sleep_until(now + SECOND).await;
    });
    let advances = spawn(move || clock.advance(SECOND));
    let task = task.unwrap();
    task.cancel();
    assert!(matches!(task.join(), Ok(()) | Err(JoinError::Cancelled)));
    assert_eq!(drops.get(), 1);
    advances.join().unwrap();
    end(&pool);
}

/// Two workers and one timer: its own worker or the other one fires it, once.
#[testkit::model(preemptions = 1)]
fn a_timer_racing_two_workers_wakes_its_task_once() {
    let (pool, clock, now) = timed(2);
    let task = pool.spawn(sleep_until(now + SECOND)).unwrap();
    let advances = spawn(move || clock.advance(SECOND));
    task.join().unwrap();
    advances.join().unwrap();
    end(&pool);
}
