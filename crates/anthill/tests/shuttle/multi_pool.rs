//! Multi-pools: a task goes to one of the pools, once.

use anthill::MultiBuilder;
use anthill::{ManualClock, MultiPool, Pool};
use sync_shim::model::{random_below, spawn};

use super::{InPlace, Latch, Ledger, SECOND, block_on, join_all, poll_once, raise};

fn ends_at_rest(pool: &MultiPool, ledger: &Ledger) {
    pool.wait_idle().unwrap();
    assert_eq!(pool.waiting(), 0);
    pool.release();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.live, stats.busy, stats.in_flight, stats.queued),
        (0, 0, 0, 0)
    );
    assert_eq!(
        stats.submitted,
        stats.completed + stats.panicked + stats.cancelled + stats.released
    );
    ledger.is_settled();
}

fn step(pool: &MultiPool, ledger: &Ledger) {
    match random_below(7) {
        0 => drop(pool.submit(ledger.task())),
        1 => drop(pool.try_submit(ledger.task())),
        2 => drop(pool.submit_timeout(ledger.task(), SECOND)),
        3 => {
            if let Ok(handle) = pool.spawn(ledger.task()) {
                drop(handle.join());
            }
        }
        4 => {
            let ticket = ledger.ticket();
            drop(pool.submit(move || {
                ticket.spend();
                raise()
            }));
        }
        5 => {
            let mut submit = Box::pin(pool.submit_async(ledger.task()));
            drop(poll_once(&mut submit));
        }
        _ => {
            if let Ok(handle) = block_on(pool.spawn_async(ledger.task())) {
                handle.cancel();
                drop(handle.join());
            }
        }
    }
}

/// Two pools of one worker each: clients, a tune, and in some schedules a release with a reboot.
#[testkit::scenario]
fn clients_of_two_pools_lose_no_task() {
    let (clock, ledger) = (ManualClock::new(), Ledger::default());
    let each = Pool::builder()
        .capacity(1)
        .queue_depth(random_below(2))
        .clock(clock.clone())
        .panic_hook(|_| {})
        .keep_alive(None);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (pool, ledger) = (pool.clone(), ledger.clone());
            spawn(move || (0..3).for_each(|_| step(&pool, &ledger)))
        })
        .collect();
    let time = spawn(move || (0..3).for_each(|_| clock.advance(SECOND)));
    match random_below(3) {
        0 => {
            pool.release();
            pool.reboot();
        }
        1 => pool.tune(2).unwrap(),
        _ => step(&pool, &ledger),
    }
    join_all(threads);
    time.join().unwrap();
    ends_at_rest(&pool, &ledger);
}

/// The continuation of a joiner may wait for a task of another thread, as with a single pool.
#[testkit::scenario]
fn a_continuation_of_several_pools_that_waits_for_a_task_gets_it() {
    let (ledger, latch) = (Ledger::default(), Latch::new());
    let each = Pool::builder().capacity(2).queue_depth(4).keep_alive(None);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let opener = {
        let (pool, ledger, latch) = (pool.clone(), ledger.clone(), latch.clone());
        spawn(move || {
            pool.submit(ledger.task()).unwrap();
            pool.submit(move || latch.open()).unwrap();
        })
    };
    let handle = pool.spawn(ledger.task()).unwrap();
    let over = InPlace::start(async move {
        handle.await.unwrap();
        latch.wait();
    });
    pool.submit(ledger.task()).unwrap();
    opener.join().unwrap();
    over.wait();
    ends_at_rest(&pool, &ledger);
}
