//! Keyed tasks: a new task against the end of the key's last task, against the end of the pool, and
//! for the last room.

use std::sync::Arc;

use pool_core::{Builder, Closures, JoinError};
use pool_util::{Keyed, PoolExt};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::spawn;

use super::{end, untimed};

/// A pool with some room behind its workers.
fn roomy(capacity: usize) -> Builder<Closures> {
    untimed(capacity).queue_depth(4)
}

/// Data that only the order of the key's tasks synchronizes.
#[derive(Clone)]
struct Line(Arc<AtomicUsize>);

impl Line {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    /// The `n`th task of its key.
    fn task(&self, n: usize) -> impl FnOnce() + Send + 'static {
        let line = self.0.clone();
        move || {
            // Relaxed, and not one step, so that a concurrent task of the key, or an earlier one
            // whose writes are not visible, fails the assertion.
            assert_eq!(line.load(Relaxed), n);
            line.store(n + 1, Relaxed);
        }
    }

    /// A task at any place in the order.
    fn any(&self) -> impl FnOnce() + Send + 'static {
        let line = self.0.clone();
        move || line.store(line.load(Relaxed) + 1, Relaxed)
    }

    fn len(&self) -> usize {
        self.0.load(Relaxed)
    }
}

fn submit(keyed: &Keyed<u8>, task: impl FnOnce() + Send + 'static) {
    keyed.submit(1, task).unwrap();
}

/// The worker closes the lane while the next task arrives: the task opens it again, or the worker
/// finds it.
#[testkit::model(preemptions = 3)]
fn a_new_task_racing_the_end_of_its_keys_last_task_runs_after_it() {
    let pool = roomy(2).build().unwrap();
    let (keyed, line) = (pool.keyed(), Line::new());
    submit(&keyed, line.task(0));
    submit(&keyed, line.task(1));
    pool.wait_idle().unwrap();
    assert_eq!((line.len(), keyed.keys(), pool.stats().reserved), (2, 0, 0));
    end(&pool);
}

/// Two submitters of one key: each task has exclusive access to the data of the key.
#[testkit::model(preemptions = 2)]
fn two_submitters_racing_on_one_key_run_one_task_at_a_time() {
    let pool = roomy(2).build().unwrap();
    let (keyed, line) = (pool.keyed(), Line::new());
    let (ours, theirs) = (keyed.clone(), line.any());
    let other = spawn(move || submit(&ours, theirs));
    submit(&keyed, line.any());
    other.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(line.len(), 2);
    end(&pool);
}

/// A turn that has ended goes to the end of the queue, and is popped there.
#[testkit::model(preemptions = 3)]
fn a_turn_that_yields_to_another_task_is_queued_again() {
    let pool = roomy(1).build().unwrap();
    let (keyed, line, other) = (pool.keyed(), Line::new(), Line::new());
    (0..3).for_each(|n| submit(&keyed, line.task(n)));
    pool.submit(other.any()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((line.len(), other.len(), keyed.keys()), (3, 1, 0));
    end(&pool);
}

/// Room reserved on the fast path, against the release that retires the workers.
#[testkit::model(preemptions = 3)]
fn a_task_behind_its_key_racing_a_release_runs() {
    let pool = roomy(1).build().unwrap();
    let (keyed, line) = (pool.keyed(), Line::new());
    submit(&keyed, line.task(0));
    let releases = pool.clone();
    let release = spawn(move || releases.release());
    let taken = keyed.submit(1, line.task(1)).is_ok();
    release.join().unwrap();
    pool.wait_released().unwrap();
    assert_eq!(line.len(), 1 + usize::from(taken));
    end(&pool);
}

/// A task behind its key, against a `release_now` that finds its turn in the queue or not.
#[testkit::model(preemptions = 3)]
fn a_task_behind_its_key_racing_a_release_now_runs_or_is_dropped() {
    let pool = roomy(1).build().unwrap();
    let (keyed, line) = (pool.keyed(), Line::new());
    submit(&keyed, line.task(0));
    let behind = keyed.spawn(1, line.task(1)).unwrap();
    pool.release_now();
    let ran = match behind.join() {
        Ok(()) => true,
        Err(JoinError::Released) => false,
        Err(other) => panic!("{other}"),
    };
    pool.wait_released().unwrap();
    assert!(line.len() == 2 || !ran && line.len() < 2);
    assert_eq!(keyed.keys(), 0);
    end(&pool);
}

/// The room of a waiting task is free when it replaces the task before it.
#[testkit::model(preemptions = 2)]
fn a_submit_that_waits_for_room_racing_a_keys_next_task_gets_it() {
    let pool = untimed(1).queue_depth(1).build().unwrap();
    let (keyed, line) = (pool.keyed(), Line::new());
    (0..3).for_each(|n| submit(&keyed, line.task(n)));
    pool.wait_idle().unwrap();
    assert_eq!((line.len(), pool.stats().reserved), (3, 0));
    end(&pool);
}

/// A handle that drops its task's captures, against the turn that reaches the task.
#[testkit::model(preemptions = 3)]
fn a_cancel_racing_the_keys_turn_ends_the_task_once() {
    let pool = roomy(1).build().unwrap();
    let (keyed, line) = (pool.keyed(), Line::new());
    submit(&keyed, line.any());
    let handle = keyed.spawn(1, line.any()).unwrap();
    let cancelled = handle.cancel();
    assert_eq!(handle.join().is_err(), cancelled);
    pool.wait_idle().unwrap();
    assert_eq!(line.len(), 2 - usize::from(cancelled));
    end(&pool);
}

/// The next task of the key replaces the ended one before a join of that returns, so there is room
/// for a call that does not wait.
#[testkit::model(preemptions = 2)]
fn a_keyed_try_submit_after_a_join_racing_the_next_task_is_accepted() {
    let pool = untimed(1).queue_depth(2).build().unwrap();
    let (keyed, line) = (pool.keyed(), Line::new());
    let first = keyed.spawn(1, line.task(0)).unwrap();
    submit(&keyed, line.task(1));
    // Two tasks wait, so that a permit is left when the first one is used.
    submit(&keyed, line.task(2));
    let refused = pool.try_submit(|| ()).is_err();
    first.join().unwrap();
    assert!(!refused || pool.try_submit(|| ()).is_ok());
    pool.wait_idle().unwrap();
    assert_eq!(line.len(), 3);
    end(&pool);
}

/// Two turns of a lane end while a third task of the key arrives: it joins the lane or adds a turn,
/// and the last turn closes the lane.
#[testkit::model(preemptions = 2)]
fn two_ending_turns_of_a_key_racing_a_third_task_run_it_and_close_the_lane() {
    let pool = roomy(2).build().unwrap();
    let (keyed, ran) = (pool.keyed().limit(2), Arc::new(AtomicUsize::new(0)));
    for _ in 0..3 {
        let ran = Arc::clone(&ran);
        submit(&keyed, move || _ = ran.fetch_add(1, Relaxed));
    }
    pool.wait_idle().unwrap();
    let ran = ran.load(Relaxed);
    assert_eq!((ran, keyed.keys(), pool.stats().reserved), (3, 0, 0));
    end(&pool);
}

/// One turn runs while the other is in the queue, and each pops the first waiting task.
#[testkit::model(preemptions = 3)]
fn tasks_of_a_key_with_two_turns_racing_their_submitter_start_in_order() {
    let pool = roomy(1).build().unwrap();
    let (keyed, line) = (pool.keyed().limit(2), Line::new());
    (0..4).for_each(|n| submit(&keyed, line.task(n)));
    pool.wait_idle().unwrap();
    assert_eq!((line.len(), keyed.keys(), pool.stats().reserved), (4, 0, 0));
    end(&pool);
}

/// A `release_now` that removes zero, one or two turns of a lane from the queue.
#[testkit::model(preemptions = 3)]
fn two_turns_of_a_key_racing_a_release_now_lose_no_task() {
    let pool = roomy(1).build().unwrap();
    let (keyed, line) = (pool.keyed().limit(2), Line::new());
    submit(&keyed, line.any());
    let behind = [(); 2].map(|()| keyed.spawn(1, line.any()).unwrap());
    pool.release_now();
    let ran = behind.map(|handle| match handle.join() {
        Ok(()) => 1,
        Err(JoinError::Released) => 0,
        Err(other) => panic!("{other}"),
    });
    pool.wait_released().unwrap();
    let ran: usize = ran.iter().sum();
    assert!((ran..=ran + 1).contains(&line.len()));
    assert_eq!((keyed.keys(), pool.stats().reserved), (0, 0));
}
