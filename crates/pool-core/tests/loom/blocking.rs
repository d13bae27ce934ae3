//! Tasks that block: start and end of the extra worker, and a release meanwhile.

use sync_shim::Parker;
use sync_shim::model::spawn;

use pool_core::{Builder, Closures, Pool, blocking};

use super::{Runs, end, untimed};

/// One worker, and one extra worker while a task blocks.
fn compensating() -> Builder<Closures> {
    untimed(1).max_compensation(1)
}

/// Submits a task that blocks until the second one has run, and the second one.
fn submit_one_that_blocks_for_the_next(pool: &Pool, runs: &Runs) {
    let gate = Parker::new();
    let (held, task) = (gate.clone(), runs.task());
    pool.submit(move || {
        blocking(|| held.park());
        task();
    })
    .unwrap();
    let task = runs.task();
    pool.submit(move || {
        task();
        gate.unpark();
    })
    .unwrap();
}

/// The second task is queued before the first one blocks, or while it does.
#[testkit::model(preemptions = 2)]
fn a_task_queued_behind_a_task_that_blocks_for_it_runs() {
    let pool = compensating().queue_depth(1).build().unwrap();
    let runs = Runs::new();
    submit_one_that_blocks_for_the_next(&pool, &runs);
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// At a full pool, the second task waits for room, and gets the room that the first one frees by
/// blocking.
#[testkit::model(preemptions = 2)]
fn a_waiter_for_room_racing_a_task_that_blocks_gets_it() {
    let pool = compensating().build().unwrap();
    let runs = Runs::new();
    submit_one_that_blocks_for_the_next(&pool, &runs);
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// The task unblocks while an extra worker is being started for the next task. The new worker
/// exceeds the capacity, and either worker runs the task.
#[testkit::model(preemptions = 3)]
fn the_end_of_blocking_racing_the_start_of_its_extra_worker_strands_no_task() {
    let pool = compensating().queue_depth(1).build().unwrap();
    let runs = Runs::new();
    let task = runs.task();
    pool.submit(move || blocking(task)).unwrap();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// After a release, the pool runs all accepted tasks, including the one that a blocked task waits
/// for.
#[testkit::model(preemptions = 2)]
fn a_release_racing_a_task_that_blocks_runs_the_task_it_waits_for() {
    let pool = compensating().queue_depth(1).build().unwrap();
    let runs = Runs::new();
    submit_one_that_blocks_for_the_next(&pool, &runs);
    let releases = {
        let pool = pool.clone();
        spawn(move || pool.release())
    };
    pool.wait_released().unwrap();
    assert!(releases.join().unwrap());
    assert_eq!(runs.count(), 2);
    end(&pool);
}
