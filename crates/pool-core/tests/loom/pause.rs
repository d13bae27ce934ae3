//! Paused pools: the resume against submits and parking workers, the pause against the next task.

use std::sync::Arc;

use sync_shim::atomic::{AtomicBool, Ordering::SeqCst};
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

/// The resume finds the task, or the later submit finds the pool resumed.
#[testkit::model(preemptions = 3)]
fn a_submit_to_a_paused_pool_racing_its_resume_is_run() {
    let pool = untimed(1).start_paused(true).build().unwrap();
    let runs = Runs::new();
    let (ours, task) = (pool.clone(), runs.task());
    let submits = spawn(move || ours.submit(task).unwrap());
    pool.resume();
    submits.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// The worker parks although the queue has tasks, and the resume notifies it.
#[testkit::model(preemptions = 3)]
fn a_worker_that_parks_at_a_paused_pools_queue_racing_its_resume_is_notified() {
    let pool = untimed(1)
        .queue_depth(1)
        .start_paused(true)
        .build()
        .unwrap();
    let runs = Runs::new();
    (0..2).for_each(|_| pool.submit(runs.task()).unwrap());
    pool.resume();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// A task submitted after `pause` has returned does not start before the resume.
#[testkit::model(preemptions = 3)]
fn a_task_after_a_pause_racing_a_worker_starts_after_the_resume() {
    let pool = untimed(1).queue_depth(2).build().unwrap();
    let (runs, resumed) = (Runs::new(), Arc::new(AtomicBool::new(false)));
    pool.submit(runs.task()).unwrap();
    assert!(pool.pause());
    let (flag, task) = (Arc::clone(&resumed), runs.task());
    pool.submit(move || {
        assert!(flag.load(SeqCst));
        task();
    })
    .unwrap();
    resumed.store(true, SeqCst);
    assert!(pool.resume());
    pool.wait_idle().unwrap();
    assert_eq!((runs.count(), pool.stats().panicked), (2, 0));
    end(&pool);
}

/// The release ends the pause.
#[testkit::model(preemptions = 3)]
fn a_release_of_a_paused_pool_racing_its_worker_runs_accepted_tasks() {
    let pool = untimed(1).start_paused(true).build().unwrap();
    let runs = Runs::new();
    pool.submit(runs.task()).unwrap();
    pool.release();
    pool.wait_released().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}
