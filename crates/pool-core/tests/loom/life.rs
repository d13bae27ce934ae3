//! The life of a pool: release, waits for idleness and the end, reboot, the last handle.

use std::sync::Arc;
use std::time::Duration;

use loom::future::block_on;
use pool_core::{ManualClock, SubmitError, WaitError};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

/// `wait_idle` against the end of the last task: the waiter is woken.
#[testkit::model(preemptions = 3)]
fn wait_idle_racing_the_last_task_ends() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// The same, on a thread that still has the unpark token of another wait.
#[testkit::model(preemptions = 2)]
fn wait_idle_racing_the_last_task_ignores_the_unpark_token_of_another_wait() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    sync_shim::Parker::of_thread().unpark();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// The timeout of `wait_idle` against the end of the last task.
#[testkit::model(preemptions = 2)]
fn a_timed_wait_idle_racing_the_last_task_returns_the_right_result() {
    let clock = ManualClock::new();
    let pool = untimed(1).clock(clock.clone()).build().unwrap();
    let runs = Runs::new();
    pool.submit(runs.task()).unwrap();
    let time = spawn(move || clock.advance(Duration::from_secs(1)));
    match pool.wait_idle_timeout(Duration::from_secs(1)) {
        Ok(()) => assert_eq!(runs.count(), 1),
        Err(error) => assert_eq!(error, WaitError::TimedOut),
    }
    pool.wait_idle().unwrap();
    time.join().unwrap();
    end(&pool);
}

/// `wait_released` against the last worker: it returns after the worker is gone.
#[testkit::model(preemptions = 3)]
fn a_wait_for_the_end_racing_the_last_worker_sees_it_gone() {
    let stopped = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&stopped);
    let pool = untimed(1)
        .stop_hook(move || _ = hook.fetch_add(1, Relaxed))
        .build()
        .unwrap();
    pool.submit(|| {}).unwrap();
    pool.release();
    pool.wait_released().unwrap();
    assert_eq!(stopped.load(Relaxed), 1);
    assert_eq!(pool.running(), 0);
}

/// Two threads wait for the end: one joins the last worker, the other is woken.
#[testkit::model(preemptions = 2)]
fn two_waits_for_the_end_both_return() {
    let pool = untimed(1).build().unwrap();
    pool.submit(|| {}).unwrap();
    pool.release();
    let other = {
        let pool = pool.clone();
        spawn(move || {
            pool.wait_released().unwrap();
            assert_eq!(pool.stats().ending, 0, "its thread is gone");
        })
    };
    pool.wait_released().unwrap();
    assert_eq!(pool.stats().ending, 0);
    other.join().unwrap();
    assert_eq!(pool.running(), 0);
}

/// Reboot against a late worker of the old generation: it continues or is replaced, and is counted
/// once.
#[testkit::model(preemptions = 3)]
fn a_reboot_racing_a_late_worker_serves_the_new_generation() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.release();
    assert!(pool.reboot());
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    assert!(pool.running() <= 1);
    end(&pool);
}

/// Reboot against a wait for the end: the wait returns, with the end or with `Rebooted`.
#[testkit::model(preemptions = 2)]
fn a_reboot_racing_a_wait_for_the_end_lets_it_return() {
    let pool = untimed(1).build().unwrap();
    pool.submit(|| {}).unwrap();
    pool.release();
    let waiter = {
        let pool = pool.clone();
        spawn(move || match pool.wait_released() {
            Ok(()) | Err(WaitError::Rebooted) => {}
            Err(other) => panic!("{other:?}"),
        })
    };
    assert!(pool.reboot());
    // Before the end, so that no later release ends the wait. A waiter that enrols after the reboot
    // waits for the next end.
    pool.submit(|| {}).unwrap();
    pool.wait_idle().unwrap();
    pool.release();
    waiter.join().unwrap();
    end(&pool);
}

/// The drop of the last handle against a worker: accepted tasks run, and every thread ends.
/// Otherwise the model deadlocks.
#[testkit::model(preemptions = 3)]
fn dropping_the_last_handle_racing_the_worker_drains() {
    let runs = Runs::new();
    let done = sync_shim::Parker::new();
    let told = done.clone();
    {
        let pool = untimed(1).build().unwrap();
        let task = runs.task();
        pool.submit(move || {
            task();
            told.unpark();
        })
        .unwrap();
    }
    done.park();
    assert_eq!(runs.count(), 1);
}

/// A failed start against a release: the pool ends although the worker never started.
#[testkit::model(preemptions = 3)]
fn a_refused_start_racing_a_release_ends_the_pool() {
    let refuse = || Err(std::io::Error::from(std::io::ErrorKind::WouldBlock));
    let pool = untimed(1).thread_gate(refuse).build().unwrap();
    let submitter = {
        let pool = pool.clone();
        spawn(move || assert!(pool.submit(|| {}).is_err()))
    };
    pool.release();
    pool.wait_released().unwrap();
    submitter.join().unwrap();
}

/// A release against a wait for the end, of a pool that never had a worker.
#[testkit::model]
fn a_release_racing_a_wait_for_the_end_of_a_pool_without_workers_ends_it() {
    let pool = untimed(1).build().unwrap();
    let waiter = {
        let pool = pool.clone();
        spawn(move || pool.wait_released().unwrap())
    };
    pool.release();
    waiter.join().unwrap();
}

/// A reboot during a wait for the end, while a task holds the worker: the wait returns at once.
#[testkit::model(preemptions = 2)]
fn a_reboot_racing_a_wait_for_the_end_ends_the_wait_at_once() {
    let pool = untimed(1).build().unwrap();
    let gate = sync_shim::Parker::new();
    let shut = gate.clone();
    pool.submit(move || shut.park()).unwrap();
    let waiter = {
        let pool = pool.clone();
        spawn(move || pool.release_timeout(Duration::MAX))
    };
    while !pool.reboot() {
        sync_shim::thread::yield_now();
    }
    assert_eq!(waiter.join().unwrap(), Err(WaitError::Rebooted));
    gate.unpark();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// `release_now` against `wait_idle` and the last running task: the party that ends last wakes the
/// waiter.
#[testkit::model(preemptions = 2)]
fn release_now_racing_wait_idle_ends_it() {
    let pool = untimed(1).queue_depth(1).build().unwrap();
    let gate = sync_shim::Parker::new();
    let shut = gate.clone();
    pool.submit(move || shut.park()).unwrap();
    pool.submit(|| {}).unwrap();
    let waiter = {
        let pool = pool.clone();
        spawn(move || pool.wait_idle().unwrap())
    };
    gate.unpark();
    pool.release_now();
    waiter.join().unwrap();
    end(&pool);
}

/// A release against a waiter that gets no room, because a task holds the worker.
#[testkit::model(preemptions = 3)]
fn a_release_wakes_a_waiter_that_never_gets_room() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let gate = sync_shim::Parker::new();
    let shut = gate.clone();
    pool.submit(move || shut.park()).unwrap();
    let waiter = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.submit(task).is_err_and(|error| error.is_released()))
    };
    pool.release();
    assert!(waiter.join().unwrap());
    gate.unpark();
    end(&pool);
    assert_eq!(runs.count(), 0);
}

/// Workers that end one after the other. The later ones join the earlier ones, or wait for a place.
/// A wait for the end returns after all of them, and each ends once.
#[testkit::model(preemptions = 1)]
fn workers_that_end_one_after_another_are_all_gone_at_the_end() {
    let pool = untimed(1).keep_alive(Duration::ZERO).build().unwrap();
    for _ in 0..2 {
        pool.submit(|| {}).unwrap();
        pool.wait_idle().unwrap();
    }
    end(&pool);
    assert_eq!(pool.stats().ending, 0);
}

/// A worker that has to wait for the end of another worker's thread, against the last step of that
/// thread: the worker ends, although only the end of the pool waits for that thread.
#[testkit::model(preemptions = 2)]
fn a_worker_that_waits_to_end_racing_the_end_of_another_thread_ends() {
    let pool = untimed(1).keep_alive(Duration::ZERO).build().unwrap();
    for _ in 0..2 {
        pool.submit(|| {}).unwrap();
        block_on(pool.wait_idle_async()).unwrap();
    }
    pool.release();
    block_on(pool.wait_released_async()).unwrap(); // Joins no thread.
    end(&pool);
    assert_eq!(pool.stats().ending, 0);
}

/// A release ends two workers at once, neither of which joins the other. A wait for the end joins
/// both.
#[testkit::model(preemptions = 1)]
fn two_workers_that_leave_at_once_are_both_gone_at_the_end() {
    let pool = untimed(2).prestart(2).build().unwrap();
    pool.submit(|| {}).unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
    assert_eq!(pool.stats().ending, 0);
}

/// A submit with a timeout against another submitter's start of the first worker, and against the
/// timeout: it is accepted, or returns `TimedOut`.
#[testkit::model(preemptions = 1)]
fn a_timed_submit_racing_another_thread_start_is_accepted_or_times_out() {
    let clock = ManualClock::new();
    let pool = untimed(2).clock(clock.clone()).build().unwrap();
    let runs = Runs::new();
    let starter = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.submit(task).unwrap())
    };
    let time = spawn(move || clock.advance(Duration::from_secs(1)));
    let accepted = match pool.submit_timeout(runs.task(), Duration::from_secs(1)) {
        Ok(()) => 1,
        Err(error) => {
            assert!(matches!(error, SubmitError::TimedOut(_)), "{error:?}");
            0
        }
    };
    starter.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1 + accepted);
    time.join().unwrap();
    end(&pool);
}
