//! Futures that wait for idleness or for the end.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use loom::future::block_on;
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

/// An idle future against the end of the last task: it is woken, and the task has ended.
#[testkit::model(preemptions = 2)]
fn wait_idle_async_racing_the_last_task_is_woken() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    block_on(pool.wait_idle_async()).unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// `release_async` against the last worker: it is woken when the worker is gone.
#[testkit::model(preemptions = 2)]
fn wait_released_async_racing_the_last_worker_is_woken() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    block_on(pool.release_async()).unwrap();
    assert_eq!((runs.count(), pool.running()), (1, 0));
    end(&pool);
}

/// A future for the end that was polled once and dropped, against the end: a thread that waits too
/// is woken.
#[testkit::model(preemptions = 2)]
fn a_dropped_wait_released_async_racing_the_end_steals_no_wake_up() {
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
        // Ignored: the end may have come already.
        let _ = future.as_mut().poll(&mut context);
    }
    waiter.join().unwrap();
    end(&pool);
}
