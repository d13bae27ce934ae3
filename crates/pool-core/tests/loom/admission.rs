//! Admission: room, the wait queue, the first worker.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use pool_core::internals::{
    Entered, Outcome, PoolHandle, ReleaseListener, Resolve, ScheduledTask, TaskContext, TaskResult,
    plain_job,
};
use pool_core::{ManualClock, SubmitError};
use sync_shim::Parker;
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

const SECOND: Duration = Duration::from_secs(1);

/// Submit against release: the task either runs or is returned.
#[testkit::model(preemptions = 3)]
fn a_submit_racing_a_release_runs_or_returns_its_task() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    let submitter = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.submit(task).is_ok())
    };
    pool.release();
    let accepted = submitter.join().unwrap();
    end(&pool);
    assert_eq!(runs.count(), usize::from(accepted));
}

/// A submit after a release, against the worker that is still busy: it is refused.
#[testkit::model(preemptions = 3)]
fn a_submit_after_a_release_racing_the_last_task_is_refused() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.release();
    let refused = pool.submit(runs.task()).unwrap_err();
    assert!(matches!(refused, SubmitError::Released(_)), "{refused:?}");
    end(&pool);
    assert_eq!(runs.count(), 1);
}

/// A `try_submit` at a full pool takes no lock. After a join it must find the task's room, even if
/// the worker already runs the next task.
#[testkit::model(preemptions = 3)]
fn a_try_submit_after_a_join_racing_the_next_task_is_accepted() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    let first = pool.spawn(|| ()).unwrap();
    pool.submit(runs.task()).unwrap(); // Fills the pool, unless the first task has ended.
    first.join().unwrap();
    pool.try_submit(runs.task()).unwrap();
    end(&pool);
    assert_eq!(runs.count(), 2);
}

/// The same, after the statistics have shown the end. They can be read as soon as the lock is free.
#[testkit::model(preemptions = 3)]
fn a_try_submit_after_the_statistics_show_an_end_is_accepted() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.submit(runs.task()).unwrap(); // Fills the pool, unless the first task has ended.
    let room = pool.in_flight() < 2;
    let tried = pool.try_submit(runs.task());
    assert!(tried.is_ok() || !room, "{:?}", tried.err());
    let expected = if tried.is_ok() { 3 } else { 2 };
    end(&pool);
    assert_eq!(runs.count(), expected);
}

/// A `try_submit` at a full, released pool, against its last task: the error is `Released`, not
/// `Full`.
#[testkit::model(preemptions = 3)]
fn a_try_after_a_release_racing_the_last_task_returns_released() {
    let (pool, runs) = (untimed(1).queue_depth(0).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap(); // Fills the pool, unless the first task has ended.
    pool.release();
    let refused = pool.try_submit(runs.task()).unwrap_err();
    assert!(refused.is_released(), "{refused:?}");
    end(&pool);
    assert_eq!(runs.count(), 1);
}

/// A waiter against the end of a task: the room is handed over once, and the waiter is woken.
#[testkit::model(preemptions = 3)]
fn a_waiter_racing_a_completion_gets_the_room_once() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// Two waiters against one worker: both are woken.
#[testkit::model(preemptions = 2)]
fn two_waiters_both_get_room() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
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

/// A waiter's timeout against the hand-over of room: the task either runs or is returned.
#[testkit::model(preemptions = 2)]
fn a_deadline_racing_the_hand_over_loses_no_task() {
    let clock = ManualClock::new();
    let pool = untimed(1).clock(clock.clone()).build().unwrap();
    let runs = Runs::new();
    pool.submit(|| {}).unwrap();
    let time = spawn(move || clock.advance(SECOND));
    let accepted = match pool.submit_timeout(runs.task(), SECOND) {
        Ok(()) => 1,
        Err(SubmitError::TimedOut(_)) => 0,
        Err(other) => panic!("{other:?}"),
    };
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), accepted);
    time.join().unwrap();
    end(&pool);
}

/// The drop of a waiting future against the hand-over of room: its task runs or is dropped, and the
/// room is not lost.
#[testkit::model(preemptions = 3)]
fn a_dropped_future_racing_the_hand_over_loses_no_room() {
    let (pool, runs, kept) = (untimed(1).build().unwrap(), Runs::new(), Arc::new(()));
    pool.submit(|| {}).unwrap();
    {
        let (task, held) = (runs.task(), Arc::clone(&kept));
        let mut future = pin!(pool.submit_async(move || {
            task();
            drop(held);
        }));
        // Ignored: the task is accepted or waits, and runs are counted.
        let _ = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
    }
    assert_eq!(pool.waiting(), 0);
    pool.submit(|| {}).unwrap();
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!(stats.completed, 2 + runs.count() as u64);
    assert_eq!(stats.waiting, 0);
    end(&pool);
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// A waiting future that is never polled again is served in its turn and delays no other waiter.
#[testkit::model(preemptions = 3)]
fn a_waiting_future_that_is_not_polled_again_gets_room() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let mut future = pin!(pool.submit_async(runs.task()));
    let mut context = Context::from_waker(Waker::noop());
    // Ignored: only the future's place in the wait queue matters.
    let _ = future.as_mut().poll(&mut context);
    // This task waits behind the future, so it is accepted after the future's task.
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    end(&pool);
}

/// A future's waker against the hand-over of room: a future that returned `Pending` is woken.
#[testkit::model(preemptions = 3)]
fn a_pending_future_is_woken_by_the_hand_over() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    loom::future::block_on(pool.submit_async(runs.task())).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// The operating system refuses the first worker while a second submitter arrives: both get an
/// answer, and no accepted task is stranded.
#[testkit::model(preemptions = 3)]
fn a_refused_first_worker_strands_no_second_submitter() {
    let asked = AtomicUsize::new(0);
    let refuse_first = move || match asked.fetch_add(1, Relaxed) {
        0 => Err(io::Error::from(io::ErrorKind::WouldBlock)),
        _ => Ok(()),
    };
    let pool = untimed(1).thread_gate(refuse_first).build().unwrap();
    let runs = Runs::new();
    let other = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.submit(task).is_ok())
    };
    let mine = pool.submit(runs.task()).is_ok();
    let other = other.join().unwrap();
    assert!(mine != other, "one of them was refused");
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// Tuning up against a waiter that enrols: it gets the new room although no task ends.
#[testkit::model(preemptions = 2)]
fn tuning_up_racing_a_waiter_admits_it() {
    let pool = untimed(1).build().unwrap();
    let gate = sync_shim::Parker::new();
    let shut = gate.clone();
    pool.submit(move || shut.park()).unwrap();
    let tuner = {
        let pool = pool.clone();
        spawn(move || pool.tune(2).unwrap())
    };
    // Runs only if the task is admitted while the first one still holds its worker.
    pool.submit(move || gate.unpark()).unwrap();
    tuner.join().unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// Tuning down against a submit: the accepted task runs, and the count of live workers is right at
/// rest.
#[testkit::model(preemptions = 2)]
fn tuning_down_racing_a_submit_strands_no_task() {
    let (pool, runs) = (untimed(2).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let tuner = {
        let pool = pool.clone();
        spawn(move || pool.tune(1).unwrap())
    };
    pool.submit(runs.task()).unwrap();
    tuner.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
    assert!(pool.stats().peak_live <= 2);
}

/// A waiter against a release: its task either runs or is returned.
#[testkit::model(preemptions = 2)]
fn a_waiter_racing_a_release_runs_or_returns_its_task() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(|| {}).unwrap();
    let releaser = {
        let pool = pool.clone();
        spawn(move || _ = pool.release())
    };
    let accepted = pool.submit(runs.task()).is_ok();
    releaser.join().unwrap();
    end(&pool);
    assert_eq!(runs.count(), usize::from(accepted));
}

/// Three submitters at a pool without workers: one starts the first worker, and the other two are
/// admitted.
#[testkit::model(preemptions = 2)]
fn all_submitters_that_wait_for_the_first_worker_are_admitted() {
    let (pool, runs) = (untimed(1).queue_depth(2).build().unwrap(), Runs::new());
    let others = [(); 2].map(|()| {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.submit(task).unwrap())
    });
    pool.submit(runs.task()).unwrap();
    for other in others {
        other.join().unwrap();
    }
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    end(&pool);
}

/// Two submitters at a pool without workers: together they start only one.
#[testkit::model(preemptions = 2)]
fn a_pool_of_one_never_has_two_workers() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    let other = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.submit(task).unwrap())
    };
    pool.submit(runs.task()).unwrap();
    other.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((runs.count(), pool.stats().peak_live), (2, 1));
    end(&pool);
}

/// An errand's withdrawal from the wait queue against the hand-over of room: it runs or is
/// withdrawn, and the room is not lost.
#[testkit::model(preemptions = 3)]
fn a_withdrawn_errand_racing_the_hand_over_loses_no_room() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(|| {}).unwrap();
    let task = Arc::new(Counted(runs.clone()));
    if let Entered::Waiting(ticket) = PoolHandle::of(&pool).enter(Arc::clone(&task) as _) {
        drop(ticket);
    }
    assert_eq!(pool.waiting(), 0);
    pool.submit(|| {}).unwrap();
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!(stats.completed, 2 + runs.count() as u64);
    assert_eq!(stats.refused, 0, "it was taken back, not refused");
    end(&pool);
    assert_eq!(Arc::strong_count(&task), 1);
}

/// A task that submits the next one at a full pool, against a release: it waits for room, or finds the pool released.
#[testkit::model(preemptions = 2)]
fn a_continuation_racing_a_release_runs() {
    let (pool, runs) = (untimed(1).queue_depth(0).build().unwrap(), Runs::new());
    let (handle, next) = (PoolHandle::of(&pool), plain_job(runs.task()));
    pool.submit(move || handle.line_up(next).unwrap()).unwrap();
    pool.release();
    pool.wait_released().unwrap();
    assert_eq!(runs.count(), 1);
}

/// An errand that counts its runs.
struct Counted(Runs);

impl ScheduledTask for Counted {
    fn run(self: Arc<Self>, env: &TaskContext) -> TaskResult {
        env.execute("errand", self.0.task()).unwrap();
        TaskResult::new(Outcome::Completed, None)
    }

    fn release(self: Arc<Self>) -> TaskResult {
        TaskResult::new(Outcome::Released, None)
    }
}

impl Resolve for Counted {
    fn resolve(&self) {}
}

impl ReleaseListener for Runs {
    fn released(&self) {
        self.task()();
    }
}

/// Adding a scheduler's release listener, against the release: the listener is called or refused.
#[testkit::model(preemptions = 3)]
fn a_watch_racing_a_release_is_called_or_refused() {
    let pool = untimed(1).build().unwrap();
    let told = Runs::new();
    let watch = Arc::new(told.clone()) as Arc<dyn ReleaseListener>;
    let releaser = {
        let pool = pool.clone();
        spawn(move || _ = pool.release())
    };
    let in_time = PoolHandle::of(&pool).on_release(Arc::downgrade(&watch), 0);
    releaser.join().unwrap();
    assert_eq!(told.count(), usize::from(in_time));
    end(&pool);
}

/// Two submitters against the last place in the queue of a busy pool: one of them gets it.
#[testkit::model(preemptions = 2)]
fn one_of_two_submits_gets_the_last_place_of_the_queue() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    let gate = Parker::new();
    let shut = gate.clone();
    pool.submit(move || shut.park()).unwrap();
    let other = {
        let (pool, task) = (pool.clone(), runs.task());
        spawn(move || pool.try_submit(task).is_ok())
    };
    let ours = pool.try_submit(runs.task()).is_ok();
    let others = other.join().unwrap();
    assert!(ours != others, "accepted: {ours} and {others}");
    gate.unpark();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 1);
    end(&pool);
}

/// A worker that continues with the next task, against a waiter: the waiter gets the room of the
/// last task before the next one runs.
#[testkit::model(preemptions = 2)]
fn a_worker_admits_the_waiter_before_its_next_task() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    let gate = Parker::new();
    let shut = gate.clone();
    pool.submit(runs.task()).unwrap();
    pool.submit(move || shut.park()).unwrap();
    pool.submit(runs.task()).unwrap(); // Returns while the previous task is still running.
    gate.unpark();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}
