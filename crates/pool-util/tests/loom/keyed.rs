//! Keys: a task that comes against the end of its key's last one, against the pool's end, and for
//! the last room.

use std::sync::Arc;

use pool_core::{Builder, Closures, JoinError};
use pool_util::{Keyed, PoolExt};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::spawn;

use super::{end, untimed};

/// So many workers and some room behind them.
fn roomy(capacity: usize) -> Builder<Closures> {
    untimed(capacity).queue_depth(4)
}

/// What the tasks of one key write without any other synchronization than their order.
#[derive(Clone)]
struct Line(Arc<AtomicUsize>);

impl Line {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    /// A task that is the `n`th of its key.
    fn task(&self, n: usize) -> impl FnOnce() + Send + 'static {
        let line = self.0.clone();
        move || {
            // Relaxed, and not one step: it would show another task of the key beside this one, or
            // one before this one whose writes it does not see.
            assert_eq!(line.load(Relaxed), n);
            line.store(n + 1, Relaxed);
        }
    }

    /// Whatever its place.
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

/// The worker closes the lane as the next task comes: it opens it again, or is found in it.
#[testkit::model(preemptions = 3)]
fn a_keys_next_task_racing_the_end_of_the_last_is_run_after_it() {
    let pool = roomy(2).build().unwrap();
    let (keyed, line) = (pool.keyed(), Line::new());
    submit(&keyed, line.task(0));
    submit(&keyed, line.task(1));
    pool.wait_idle().unwrap();
    assert_eq!((line.len(), keyed.keys(), pool.stats().reserved), (2, 0, 0));
    end(&pool);
}

/// Two that submit to one key: each task has what the key guards for itself.
#[testkit::model(preemptions = 2)]
fn two_submitters_of_one_key_racing_run_no_task_beside_another() {
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

/// A turn that is over goes to the end of the queue, and is found there.
#[testkit::model(preemptions = 3)]
fn a_turn_that_yields_to_another_task_comes_again() {
    let pool = roomy(1).build().unwrap();
    let (keyed, line, other) = (pool.keyed(), Line::new(), Line::new());
    (0..3).for_each(|n| submit(&keyed, line.task(n)));
    pool.submit(other.any()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((line.len(), other.len(), keyed.keys()), (3, 1, 0));
    end(&pool);
}

/// Room that was reserved undecided, against the release that retires the workers.
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

/// What waits behind a key, against a `release_now` that finds its turn, or does not.
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

/// The room of a task that waits behind its key is free when it takes the place of the one before.
#[testkit::model(preemptions = 2)]
fn a_submit_that_waits_for_room_racing_its_keys_next_task_gets_it() {
    let pool = untimed(1).queue_depth(1).build().unwrap();
    let (keyed, line) = (pool.keyed(), Line::new());
    (0..3).for_each(|n| submit(&keyed, line.task(n)));
    pool.wait_idle().unwrap();
    assert_eq!((line.len(), pool.stats().reserved), (3, 0));
    end(&pool);
}

/// A handle that drops its task's captures, against the turn that comes to it.
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

/// The next task of the key takes the ended one's place before a join of that returns: so there is
/// room for a call that does not wait.
#[testkit::model(preemptions = 2)]
fn a_try_after_a_join_racing_the_keys_next_task_is_accepted() {
    let pool = untimed(1).queue_depth(2).build().unwrap();
    let (keyed, line) = (pool.keyed(), Line::new());
    let first = keyed.spawn(1, line.task(0)).unwrap();
    submit(&keyed, line.task(1));
    // Two wait, so that a permit is left when the first one is used up.
    submit(&keyed, line.task(2));
    let refused = pool.try_submit(|| ()).is_err();
    first.join().unwrap();
    assert!(!refused || pool.try_submit(|| ()).is_ok());
    pool.wait_idle().unwrap();
    assert_eq!(line.len(), 3);
    end(&pool);
}

/// Two turns of one lane end as a third task of the key comes: it joins the lane or brings a turn, and
/// the last turn closes the lane.
#[testkit::model(preemptions = 2)]
fn two_turns_of_a_key_that_end_racing_a_third_task_run_it_and_close_the_lane() {
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

/// One turn runs while the other is in the queue, and each finds its task: the first that waits.
#[testkit::model(preemptions = 3)]
fn tasks_of_a_key_with_two_turns_racing_their_submitter_start_in_order() {
    let pool = roomy(1).build().unwrap();
    let (keyed, line) = (pool.keyed().limit(2), Line::new());
    (0..4).for_each(|n| submit(&keyed, line.task(n)));
    pool.wait_idle().unwrap();
    assert_eq!((line.len(), keyed.keys(), pool.stats().reserved), (4, 0, 0));
    end(&pool);
}

/// A `release_now` that takes none, one or two turns of a lane out of the queue.
#[testkit::model(preemptions = 3)]
fn two_turns_of_a_key_racing_a_release_now_leave_no_task_behind() {
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
