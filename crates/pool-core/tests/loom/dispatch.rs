//! Dispatch: parking, expiry, growth, the chain of wake-ups.

use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pool_core::{ManualClock, Pool, QueueDepth};
use sync_shim::Parker;
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::{self, spawn};

use super::{Runs, end, untimed};

const SECOND: Duration = Duration::from_secs(1);

/// A pool with parked workers. Its clock stands still, and only shows that they sleep.
fn parked(workers: usize, capacity: usize) -> Pool {
    let clock = ManualClock::new();
    let pool = untimed(capacity)
        .keep_alive(SECOND)
        .clock(clock.clone())
        .prestart(workers)
        .build()
        .unwrap();
    clock.wait_for_sleepers(workers);
    pool
}

/// A submit against a parking worker: no wake-up is lost, without help of a timer.
#[testkit::model(preemptions = 3)]
fn a_submit_racing_a_parking_worker_is_run() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    end(&pool);
}

/// A submit against a worker that polls on before it parks.
#[testkit::model(preemptions = 3)]
fn a_submit_racing_a_worker_that_polls_on_is_run() {
    model::set_lingers(true);
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// Two submits against two workers, of which one polls on before it parks.
#[testkit::model(preemptions = 2)]
fn two_submits_racing_workers_that_poll_on_are_both_run() {
    model::set_lingers(true);
    let (pool, runs) = (untimed(2).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// Two submitters against a parking worker.
#[testkit::model(preemptions = 2)]
fn two_submits_racing_a_parking_worker_are_both_run() {
    let (pool, runs) = (untimed(1).queue_depth(2).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let other = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.submit(task).unwrap())
    };
    pool.submit(runs.task()).unwrap();
    other.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    end(&pool);
}

/// A task that waits for the next one, while a second worker can be started: the second task does
/// not stay behind the first. Covers growth at submit, and the last searcher that finds work.
#[testkit::model(preemptions = 2)]
fn a_task_does_not_stay_queued_behind_a_task_that_waits_for_it() {
    let pool = untimed(2).build().unwrap();
    let gate = Parker::new();
    let shut = gate.clone();
    pool.submit(move || shut.park()).unwrap();
    pool.submit(move || gate.unpark()).unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// The same with both workers parked before: the first woken worker finds work as the last
/// searcher, and must notify the next one.
#[testkit::model(preemptions = 2)]
fn the_last_searcher_that_finds_work_wakes_the_next() {
    let pool = untimed(2).min_workers(2).build().unwrap();
    let gate = Parker::new();
    let shut = gate.clone();
    pool.submit(move || shut.park()).unwrap();
    pool.submit(move || gate.unpark()).unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A submit against a worker that was notified for the previous task and may have arrived: another
/// worker is notified, because the two tasks wait for each other.
#[testkit::model(preemptions = 2)]
fn a_submit_racing_a_notified_worker_gets_its_own_worker() {
    let pool = parked(2, 2);
    let gates = [Parker::new(), Parker::new()];
    for (mine, other) in [(0, 1), (1, 0)] {
        let (mine, other) = (gates[mine].clone(), gates[other].clone());
        pool.submit(move || {
            other.unpark();
            mine.park();
        })
        .unwrap();
    }
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A notified worker arrives while a submit decides whether to notify another one. In either case,
/// no worker is counted as waking up in the end, so the next submit notifies one again.
#[testkit::model(preemptions = 2)]
fn a_submit_racing_an_arriving_worker_is_run_and_so_is_the_next() {
    let (pool, runs) = (parked(2, 2), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    end(&pool);
}

/// Explores a model in which at least one execution must set the cell.
fn shown_once(name: &str, bound: Option<usize>, body: fn(&OnceLock<()>)) {
    let shown = Arc::new(OnceLock::new());
    let seen = Arc::clone(&shown);
    crate::check(name, bound, move || body(&seen));
    assert!(shown.get().is_some(), "no execution has shown it");
}

/// A burst against its first notified worker, which may be slow: the other worker is notified
/// meanwhile. At least one execution must show it: both sleepers are notified before any worker has
/// taken a task, so that a third worker is started.
#[testkit::model(preemptions = 1, check = shown_once)]
fn a_burst_racing_its_first_notified_worker_does_not_wait_for_it(shown: &OnceLock<()>) {
    let (pool, runs) = (parked(2, 3), Runs::new());
    for _ in 0..3 {
        pool.submit(runs.task()).unwrap();
    }
    let stats = pool.stats();
    if (stats.queued, stats.live) == (3, 3) {
        // Ignored: an earlier execution may have set it.
        let _ = shown.set(());
    }
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    end(&pool);
}

/// Expiry against a submit: no task is handed to a worker that is being retired, and no accepted
/// task is left without a worker.
#[testkit::model(preemptions = 2)]
fn an_expiring_worker_racing_a_submit_leaves_no_task_behind() {
    let clock = ManualClock::new();
    let pool = untimed(1)
        .keep_alive(SECOND)
        .clock(clock.clone())
        .build()
        .unwrap();
    let runs = Runs::new();
    pool.submit(runs.task()).unwrap();
    let time = spawn(move || clock.advance(SECOND));
    pool.wait_idle().unwrap();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    time.join().unwrap();
    end(&pool);
}

/// The timeout of one worker retires another that is just being woken for a task.
#[testkit::model(preemptions = 1)]
fn an_expiry_of_two_racing_a_submit_runs_the_task() {
    let clock = ManualClock::new();
    let pool = untimed(2)
        .keep_alive(SECOND)
        .prestart(2)
        .clock(clock.clone())
        .build()
        .unwrap();
    let runs = Runs::new();
    let time = spawn(move || clock.advance(SECOND));
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    time.join().unwrap();
    end(&pool);
}

/// A panicking task against a waiter: the room is freed.
#[testkit::model(preemptions = 3)]
fn a_panicking_task_frees_its_room_for_a_waiter() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    // `panic!` would print a message per execution.
    pool.submit(|| resume_unwind(Box::new(()))).unwrap();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((runs.count(), pool.stats().panicked), (1, 1));
    end(&pool);
}

/// The system refuses a thread while the only live worker parks: that worker runs the queued task.
#[testkit::model(preemptions = 3)]
fn a_refused_start_leaves_the_task_to_the_live_worker() {
    use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
    let asked = AtomicUsize::new(0);
    let only_one = move || match asked.fetch_add(1, Relaxed) {
        0 => Ok(()),
        _ => Err(std::io::Error::from(std::io::ErrorKind::WouldBlock)),
    };
    let pool = untimed(2).thread_gate(only_one).build().unwrap();
    let runs = Runs::new();
    pool.submit(runs.task()).unwrap();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// A refused start is tried again when a task ends: the next task does not stay behind one that
/// waits for it.
#[testkit::model(preemptions = 1)]
fn a_refused_start_is_retried_at_the_end_of_a_task() {
    use sync_shim::atomic::{AtomicUsize, Ordering::SeqCst};
    let allowed = std::sync::Arc::new(AtomicUsize::new(1));
    let quota = std::sync::Arc::clone(&allowed);
    let gate = move || match quota.load(SeqCst) {
        0 => Err(std::io::Error::from(std::io::ErrorKind::WouldBlock)),
        left => {
            quota.store(left - 1, SeqCst);
            Ok(())
        }
    };
    let pool = untimed(2).queue_depth(1).thread_gate(gate).build().unwrap();
    let [first, second] = [(); 2].map(|()| Parker::new());
    let (shut, waits) = (first.clone(), second.clone());
    pool.submit(move || shut.park()).unwrap();
    pool.submit(move || waits.park()).unwrap();
    pool.submit(move || second.unpark()).unwrap();
    allowed.store(1, SeqCst);
    first.unpark();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// The capacity shrinks while a worker is being started. The worker exceeds it, and counts as a
/// searcher until it leaves. A task queued meanwhile is run by the parked worker.
#[testkit::model(preemptions = 2)]
fn a_surplus_worker_passes_its_wake_up_on() {
    let (pool, runs) = (untimed(2).queue_depth(2).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let tuner = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || {
            pool.tune(1).unwrap();
            pool.submit(task).unwrap();
        })
    };
    pool.submit(runs.task()).unwrap();
    tuner.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    end(&pool);
}

/// A busy pool is tuned down: its surplus worker does not continue with the next task.
// Two take minutes: three threads and four tasks.
#[testkit::model(preemptions = 1)]
fn a_surplus_worker_racing_a_queued_task_leaves_it_to_the_other() {
    let pool = untimed(2).queue_depth(2).build().unwrap();
    let running = Arc::new(AtomicUsize::new(0));
    let gates = [Parker::new(), Parker::new()];
    for gate in gates.clone() {
        let arrived = Parker::new();
        let here = arrived.clone();
        pool.submit(move || {
            here.unpark();
            gate.park();
        })
        .unwrap();
        arrived.park();
    }
    for _ in 0..2 {
        let running = Arc::clone(&running);
        let alone = move || {
            assert_eq!(running.fetch_add(1, Relaxed), 0, "beside another");
            running.fetch_sub(1, Relaxed);
        };
        pool.try_submit(alone).unwrap();
    }
    pool.tune(1).unwrap();
    for gate in gates {
        gate.unpark();
    }
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().panicked, 0);
    end(&pool);
}

/// A worker in its start hook counts as busy: a new worker is started for a task that the hook
/// submits and waits for.
#[testkit::model(preemptions = 1)]
fn a_start_hook_that_waits_for_a_task_of_its_own_pool_gets_it_run() {
    let own = Arc::new(OnceLock::<pool_core::WeakPool>::new());
    let [known, done] = [(); 2].map(|()| Parker::new());
    let hook = {
        let (weak, calls) = (Arc::clone(&own), AtomicUsize::new(0));
        let (known, done) = (known.clone(), done.clone());
        move || {
            if calls.fetch_add(1, Relaxed) == 0 {
                known.park();
                let pool = weak.get().unwrap().upgrade().unwrap();
                let gate = Parker::new();
                let shut = gate.clone();
                pool.submit(move || gate.unpark()).unwrap();
                shut.park();
                done.unpark();
            }
        }
    };
    let pool = untimed(2).queue_depth(1).prestart(1).start_hook(hook);
    let pool = pool.build().unwrap();
    own.set(pool.downgrade()).unwrap();
    known.unpark();
    done.park();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A core worker whose keep-alive has passed parks without a time limit. Otherwise it would wake up
/// for the past time again and again.
#[testkit::model(preemptions = 1)]
fn a_core_worker_racing_its_timeout_does_not_wait_for_it_again() {
    let clock = ManualClock::new();
    let pool = untimed(2)
        .keep_alive(SECOND)
        .min_workers(1)
        .prestart(2)
        .clock(clock.clone())
        .build()
        .unwrap();
    clock.wait_for_sleepers(2);
    clock.advance(SECOND);
    let runs = Runs::new();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// A batch of two sections against a worker that parks between them, and a second worker that may
/// wake.
#[testkit::model(preemptions = 2)]
fn a_batch_racing_a_parking_worker_is_run_whole() {
    let pool = untimed(2)
        .queue_depth(QueueDepth::Unlimited)
        .build()
        .unwrap();
    let runs = Runs::new();
    pool.submit(runs.task()).unwrap();
    let tasks = (0..3).map(|_| runs.task());
    assert_eq!(pool.submit_batch(tasks).unwrap(), 3);
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 4);
    end(&pool);
}

/// Two batches race for room for one task: each is accepted in part, and the returned tasks did not
/// run.
#[testkit::model(preemptions = 1)]
fn two_batches_racing_for_room_run_the_tasks_they_report() {
    let pool = untimed(1).queue_depth(1).build().unwrap();
    let runs = Runs::new();
    let (other, theirs) = (pool.clone(), runs.clone());
    let batch = move || {
        let tasks: Vec<_> = (0..2).map(|_| theirs.task()).collect();
        other
            .try_submit_batch(tasks)
            .unwrap_or_else(|refused| refused.submitted())
    };
    let other = spawn(batch.clone());
    let ours = batch();
    let theirs = other.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), ours + theirs);
    end(&pool);
}
