//! Futures that wait for rest or for the end, against what they wait for.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use loom::future::block_on;
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

/// A future for rest against the end of the last task: it is woken, and finds the task ended.
#[testkit::model(preemptions = 2)]
fn a_future_for_rest_racing_the_last_task_is_woken() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    block_on(pool.wait_idle_async()).unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// A future that releases, against the last worker: it is woken when that is gone.
#[testkit::model(preemptions = 2)]
fn a_future_for_the_end_racing_the_last_worker_is_woken() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    block_on(pool.release_async()).unwrap();
    assert_eq!((runs.count(), pool.running()), (1, 0));
    end(&pool);
}

/// A future for the end, polled once and dropped, against that end: a thread that waits for it too
/// has its wake-up.
#[testkit::model(preemptions = 2)]
fn a_dropped_future_for_the_end_racing_it_takes_no_other_wake_up() {
    let pool = untimed(1).build().unwrap();
    pool.submit(|| {}).unwrap();
    let waiter = {
        let pool = pool.clone();
        spawn(move || pool.wait_released().unwrap())
    };
    pool.release();
    {
        let mut future = pin!(pool.wait_released_async());
        let mut context = Context::from_waker(Waker::noop());
        // Discarded: it has come, or not yet.
        let _ = future.as_mut().poll(&mut context);
    }
    waiter.join().unwrap();
    end(&pool);
}
