//! Scheduled tasks: each runs once or reports why not, series continue, and the end waits for all.

use std::num::NonZeroU64;
use std::time::Duration;

use anthill::scheduled_pool::Series;
use anthill::{JoinError, ManualClock, Pool, ScheduledPool};
use sync_shim::model::{random_below, spawn};

use super::{InPlace, Latch, Ledger, SECOND, Ticker, block_on, join_all, raise};

fn step(pool: &ScheduledPool, ledger: &Ledger) {
    let delay = SECOND * u32::try_from(random_below(3)).unwrap();
    match random_below(5) {
        0 => drop(pool.spawn_after(delay, ledger.task())),
        1 => {
            if let Ok(handle) = pool.spawn_after(delay, ledger.task()) {
                let cancelled = handle.cancel();
                let joined = handle.join();
                if cancelled {
                    assert!(matches!(joined, Err(JoinError::Cancelled)));
                }
            }
        }
        2 => {
            if let Ok(handle) = pool.spawn_after(delay, ledger.task()) {
                drop(block_on(handle));
            }
        }
        3 => {
            let ticket = ledger.ticket();
            drop(pool.spawn_after(delay, move || {
                ticket.spend();
                raise()
            }));
        }
        _ => {
            // A series whose body schedules another task.
            let (weak, book) = (pool.downgrade(), ledger.clone());
            let series = Series::at_fixed_rate(SECOND).max_runs(NonZeroU64::new(2).unwrap());
            drop(pool.spawn_series(delay, &series, move || {
                if let Some(pool) = weak.upgrade() {
                    drop(pool.spawn_after(Duration::ZERO, book.task()));
                }
            }));
        }
    }
}

/// Clients, time, and a release of either kind.
#[testkit::scenario]
fn clients_of_a_timer_lose_no_task() {
    let (clock, ledger) = (ManualClock::new(), Ledger::default());
    let pool = Pool::builder()
        .capacity(1 + random_below(2))
        .queue_depth(random_below(2))
        .clock(clock.clone())
        .panic_hook(|_| {})
        .keep_alive(None)
        .build()
        .unwrap();
    let timer = ScheduledPool::new(pool.clone());
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let (timer, ledger) = (timer.clone(), ledger.clone());
            spawn(move || (0..2).for_each(|_| step(&timer, &ledger)))
        })
        .collect();
    // Nothing falls due unless time advances.
    let time = Ticker::start(clock);
    if random_below(3) == 0 {
        timer.release_now();
    }
    join_all(clients);
    timer.release();
    timer.wait_released().unwrap();
    time.stop();
    assert_eq!(timer.pending(), 0);
    pool.release();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.live, stats.in_flight, stats.queued), (0, 0, 0));
    drop(timer);
    ledger.is_settled();
}

/// The continuation of a scheduled task's joiner waits for another scheduled task.
#[testkit::scenario]
fn a_continuation_of_a_timer_that_waits_for_a_task_gets_it() {
    let (clock, ledger, latch) = (ManualClock::new(), Ledger::default(), Latch::new());
    let pool = Pool::builder()
        .capacity(2)
        .queue_depth(4)
        .clock(clock.clone())
        .keep_alive(None)
        .build()
        .unwrap();
    let timer = ScheduledPool::new(pool.clone());
    let opener = {
        let (timer, latch) = (timer.clone(), latch.clone());
        spawn(move || drop(timer.spawn_after(SECOND, move || latch.open())))
    };
    let handle = timer.spawn_after(SECOND, ledger.task()).unwrap();
    let over = InPlace::start(async move {
        handle.await.unwrap();
        latch.wait();
    });
    opener.join().unwrap();
    clock.advance(SECOND);
    over.wait();
    timer.release();
    timer.wait_released().unwrap();
    pool.release();
    pool.wait_released().unwrap();
    drop(timer);
    ledger.is_settled();
    assert_eq!(ledger.used(), 1);
}
