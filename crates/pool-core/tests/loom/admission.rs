//! Who gets in: room, the wait queue, the first worker.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use pool_core::internals::{
    Entered, Outcome, PoolHandle, ReleaseListener, Resolve, ScheduledTask, TaskContext, TaskResult,
};
use pool_core::{ManualClock, SubmitError};
use sync_shim::Parker;
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::spawn;

use super::{Runs, end, untimed};

const SECOND: Duration = Duration::from_secs(1);

/// Submit against release: the task runs or comes back, never both, never neither.
#[testkit::model(preemptions = 3)]
fn a_submit_racing_a_release_runs_or_comes_back() {
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

/// A submit that comes after a release, against the worker that is still busy: it is refused.
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

/// A try on a full pool takes no lock. A thread that joined a task is not refused for its room,
/// while the worker is already at the next one.
#[testkit::model(preemptions = 3)]
fn a_try_after_a_join_racing_the_next_task_is_accepted() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    let first = pool.spawn(|| ()).unwrap();
    pool.submit(runs.task()).unwrap(); // Full now, unless the first has ended.
    first.join().unwrap();
    pool.try_submit(runs.task()).unwrap();
    end(&pool);
    assert_eq!(runs.count(), 2);
}

/// And by the figures, which are read as soon as the lock is free.
#[testkit::model(preemptions = 3)]
fn a_try_after_the_figures_show_an_end_is_accepted() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.submit(runs.task()).unwrap(); // Full now, unless the first has ended.
    let room = pool.in_flight() < 2;
    let tried = pool.try_submit(runs.task());
    assert!(tried.is_ok() || !room, "{:?}", tried.err());
    let expected = if tried.is_ok() { 3 } else { 2 };
    end(&pool);
    assert_eq!(runs.count(), expected);
}

/// And on a full pool that was released, against its last task: it says which.
#[testkit::model(preemptions = 3)]
fn a_try_after_a_release_racing_the_last_task_is_told_so() {
    let (pool, runs) = (untimed(1).queue_depth(0).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap(); // Full now, unless it has ended.
    pool.release();
    let refused = pool.try_submit(runs.task()).unwrap_err();
    assert!(refused.is_released(), "{refused:?}");
    end(&pool);
    assert_eq!(runs.count(), 1);
}

/// A waiter against the completion that frees room: the room is handed over once, and the waiter
/// is woken.
#[testkit::model(preemptions = 3)]
fn a_waiter_racing_a_completion_gets_the_room_once() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// Two waiters against one worker: neither is forgotten.
#[testkit::model(preemptions = 2)]
fn two_waiters_are_both_served() {
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

/// A waiter's time-out against the hand-over: the task runs or comes back.
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

/// A future in the wait queue, dropped, against the hand-over: its task runs or is dropped, and the
/// room is not lost with it.
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
        // Discarded: the task may be accepted or wait, and what runs is counted.
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

/// A future in the wait queue that is never polled again holds no other up and is served in its turn.
#[testkit::model(preemptions = 3)]
fn a_future_that_is_not_polled_again_is_served() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    let mut future = pin!(pool.submit_async(runs.task()));
    let mut context = Context::from_waker(Waker::noop());
    // Discarded: the future's place in the wait queue is what matters.
    let _ = future.as_mut().poll(&mut context);
    // Behind the future in the wait queue, so it is accepted only after that.
    pool.submit(runs.task()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 3);
    end(&pool);
}

/// A future's waker against the hand-over: a future that returned `Pending` is woken.
#[testkit::model(preemptions = 3)]
fn a_pending_future_is_woken_by_the_hand_over() {
    let (pool, runs) = (untimed(1).build().unwrap(), Runs::new());
    pool.submit(runs.task()).unwrap();
    loom::future::block_on(pool.submit_async(runs.task())).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}

/// The operating system refuses the first worker while a second submitter comes: both have an
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
    assert!(mine != other, "one met the refusal, the other did not");
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
    // Runs only if it is let in while the first still holds its worker.
    pool.submit(move || gate.unpark()).unwrap();
    tuner.join().unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// Tuning down against a submit: the count of live workers is right again at rest, and the
/// accepted task has run.
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

/// A waiter against a release: it gets its task back or it runs.
#[testkit::model(preemptions = 2)]
fn a_waiter_racing_a_release_gets_its_task_back_or_it_runs() {
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

/// Three submitters at a pool without a worker: one starts it, and each of the others is let in.
#[testkit::model(preemptions = 2)]
fn all_submitters_that_wait_for_the_first_worker_are_let_in() {
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

/// Two submitters at a pool without a worker: one of them starts the only worker there may be.
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

/// A scheduler's task, withdrawn from the wait queue against the hand-over of room: it is run, or
/// it is gone, and the room is not lost with it.
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

/// A scheduled task that counts its runs.
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

/// A scheduler's release listener against the release: it is called, or refused as too late.
#[testkit::model(preemptions = 3)]
fn a_watch_racing_a_release_learns_of_it() {
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

/// Two submitters against the one place left in the queue of a busy pool: one gets it.
#[testkit::model(preemptions = 2)]
fn two_submits_racing_for_the_last_place_take_it_once() {
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

/// A worker that goes on to the next task against a waiter: the waiter has the room that the last
/// task left before the next one is run.
#[testkit::model(preemptions = 2)]
fn a_worker_that_goes_on_lets_the_waiter_in_first() {
    let (pool, runs) = (untimed(1).queue_depth(1).build().unwrap(), Runs::new());
    let gate = Parker::new();
    let shut = gate.clone();
    pool.submit(runs.task()).unwrap();
    pool.submit(move || shut.park()).unwrap();
    pool.submit(runs.task()).unwrap(); // Returns while the one before is still running.
    gate.unpark();
    pool.wait_idle().unwrap();
    assert_eq!(runs.count(), 2);
    end(&pool);
}
