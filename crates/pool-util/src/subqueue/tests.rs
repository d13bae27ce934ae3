//! Drain tasks and their turns, on fake pools that only store the submitted tasks.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::{OnceLock, Weak};

use pool_core::internals::AdmitHandle;
use pool_core::{ManualClock, Pool};

use super::site::Member;
use super::*;

struct Pieces(VecDeque<()>);

impl Backlog for Pieces {
    type Piece = ();
    type Number = ();
    type Done = ();
    type Garbage = ();

    fn pending(&self) -> usize {
        self.0.len()
    }

    fn start(&mut self) -> Option<((), ())> {
        self.0.pop_front().map(|()| ((), ()))
    }

    fn panicked(_: Payload, _: &TaskContext) {}

    fn settle(&mut self, (): (), (): ()) {}

    fn is_ready(&self) -> bool {
        self.0.is_empty()
    }
}

/// A pool that stores the submitted drain tasks, with a number of workers and a demand for them.
struct Keeps {
    wanted: Lock<(Demand, usize)>,
    /// Called when a drain task asks whether its worker is wanted.
    on_asked: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Called when a drain task asks for the demand.
    on_wanted: OnceLock<Box<dyn Fn() + Send + Sync>>,
    tasks: Lock<Vec<DrainTask>>,
    is_full: AtomicBool,
}

impl Keeps {
    fn new(demand: Demand, workers: usize) -> Arc<Self> {
        Arc::new(Self {
            wanted: Lock::new((demand, workers)),
            on_asked: OnceLock::new(),
            on_wanted: OnceLock::new(),
            tasks: Lock::new(Vec::new()),
            is_full: AtomicBool::new(false),
        })
    }

    fn task(&self) -> DrainTask {
        let task = self.tasks.lock().pop();
        task.expect("a drain task was submitted")
    }
}

impl Member for Arc<Keeps> {
    fn offer(&self, task: DrainTask, _: bool) -> Result<(), SubmitError> {
        if self.is_full.load(Relaxed) {
            return Err(SubmitError::Full(()));
        }
        self.tasks.lock().push(task);
        Ok(())
    }

    fn workers(&self) -> usize {
        self.wanted.lock().1
    }

    fn wanted(&self) -> (Demand, usize) {
        self.on_wanted.get().into_iter().for_each(|call| call());
        *self.wanted.lock()
    }

    fn is_wanted(&self) -> bool {
        self.on_asked.get().into_iter().for_each(|call| call());
        self.wanted.lock().0 == Demand::Others
    }

    fn is_saturated(&self) -> bool {
        false
    }

    fn has_worker(&self) -> bool {
        true
    }

    fn runs(&self, _: &TaskContext) -> bool {
        true
    }
}

/// A pool whose `offer` panics.
struct Panics;

impl Member for Panics {
    fn offer(&self, _: DrainTask, _: bool) -> Result<(), SubmitError> {
        resume_unwind(Box::new("the pool"))
    }

    fn workers(&self) -> usize {
        1
    }

    fn wanted(&self) -> (Demand, usize) {
        (Demand::None, 1)
    }

    fn is_wanted(&self) -> bool {
        false
    }

    fn is_saturated(&self) -> bool {
        false
    }

    fn has_worker(&self) -> bool {
        true
    }

    fn runs(&self, _: &TaskContext) -> bool {
        true
    }
}

pub(crate) fn site_that_panics() -> Site {
    let built = Pool::builder().capacity(1).build();
    let built = built.expect("it has a capacity");
    Site {
        pool: PoolHandle::of(&built),
        submitter: Arc::clone(built.admit()) as _,
        members: Box::new([Box::new(Panics) as _]),
        cores: usize::MAX,
    }
}

/// A queue of `pieces` pieces, whose drain tasks all run pieces at once. `run` gets the pool's clock.
fn queue(
    pool: &Arc<Keeps>,
    pieces: usize,
    run: impl Fn(&ManualClock) + Send + Sync + 'static,
) -> Arc<SubQueue<Pieces>> {
    queue_on(usize::MAX, pool, pieces, run)
}

/// The same on a machine with this many cores.
fn queue_on(
    cores: usize,
    pool: &Arc<Keeps>,
    pieces: usize,
    run: impl Fn(&ManualClock) + Send + Sync + 'static,
) -> Arc<SubQueue<Pieces>> {
    let clock = ManualClock::new();
    let built = Pool::builder().capacity(1).clock(clock.clone()).build();
    let built = built.expect("it has a capacity");
    let site = Site {
        pool: PoolHandle::of(&built),
        submitter: Arc::clone(built.admit()) as _,
        members: Box::new([Box::new(Arc::clone(pool)) as _]),
        cores,
    };
    let pieces = Pieces(VecDeque::from(vec![(); pieces]));
    SubQueue::new(site, pieces, Box::new(move |(), _| run(&clock)))
}

fn run(task: DrainTask) {
    task.drain(&TaskContext::bare());
}

/// Runs the drain task of a queue of three pieces once on this thread. Returns the number of pieces left,
/// the number of submitted drain tasks, and per piece that ran whether it could add another.
fn after_one_task(demand: Demand) -> (usize, usize, Vec<bool>) {
    let (keeps, added) = (Keeps::new(demand, 1), Arc::new(Lock::new(Vec::new())));
    let itself = Arc::new(OnceLock::<Weak<SubQueue<Pieces>>>::new());
    let (adds, inner) = (Arc::clone(&added), Arc::clone(&itself));
    let queue = queue(&keeps, 2, move |_| {
        let queue = inner.get().and_then(Weak::upgrade);
        let taken = queue.expect("it runs").offer(|_| ());
        adds.lock().push(taken.is_ok());
    });
    assert!(itself.set(Arc::downgrade(&queue)).is_ok());
    let first = queue.offer(|pieces| pieces.0.push_back(()));
    first.expect("nothing was asked yet");
    run(keeps.task());
    let left = queue.look(|pieces| pieces.pending());
    let taken = mem::take(&mut *added.lock());
    let tasks = mem::take(&mut *keeps.tasks.lock());
    (left, tasks.len(), taken)
}

#[test]
fn a_drain_task_without_competing_tasks_runs_all_pieces() {
    assert_eq!(after_one_task(Demand::None), (0, 0, vec![true; 3]));
}

#[test]
fn a_drain_task_leaves_its_worker_to_others_after_its_turn_and_comes_again() {
    assert_eq!(after_one_task(Demand::Others), (2, 1, vec![true]));
}

/// Runs a drain task with three pieces at a full member of a multi-pool that others want. Returns the number of pieces left.
fn left_at_a_full_member(depart: impl FnOnce(&SubQueue<Pieces>)) -> usize {
    let keeps = Keeps::new(Demand::Others, 1);
    let queue = queue(&keeps, 3, |_| ());
    queue.offer(|_| ()).expect("nothing was asked yet");
    keeps.is_full.store(true, Relaxed);
    depart(&queue);
    run(keeps.task());
    assert_eq!(queue.state.lock().lanes.drainers(), 0);
    assert_eq!(keeps.tasks.lock().len(), 0);
    queue.look(|pieces| pieces.pending())
}

#[test]
fn the_last_drain_task_goes_on_at_a_full_member_unless_the_owner_sleeps_and_submits_the_next() {
    assert_eq!(left_at_a_full_member(|_| ()), 0);
    let sleeps = |queue: &SubQueue<Pieces>| {
        queue.state.lock().owner = Some(Waiter::Thread(Parker::of_thread().clone()));
    };
    assert_eq!(left_at_a_full_member(sleeps), 2);
}

/// Runs the scout of a full crew, with three pieces, at a pool that others want. The crew has room from the scout's
/// `look`th look on. Returns the number of pieces that have run.
fn ran_by_a_scout(is_full: bool, look: usize) -> usize {
    let ran = Arc::new(Lock::new(0));
    let (counter, keeps) = (Arc::clone(&ran), Keeps::new(Demand::Others, 2));
    let queue = queue_on(1, &keeps, 3, move |_| *counter.lock() += 1);
    let running = SystemThread::current();
    assert!(queue.state.lock().crew.join(running));
    queue.offer(|_| ()).expect("nothing was asked yet");
    let scout = keeps.task();
    keeps.is_full.store(is_full, Relaxed);
    let (other, looks) = (Arc::clone(&queue), Lock::new(0));
    let leaves = move || {
        let mut looks = looks.lock();
        *looks += 1;
        if *looks >= look {
            let _ = other.state.lock().crew.leave(running);
        }
    };
    assert!(keeps.on_wanted.set(Box::new(leaves)).is_ok());
    run(scout);
    *ran.lock()
}

#[test]
fn a_scout_that_a_full_member_refuses_goes_on_napping() {
    assert!(ran_by_a_scout(true, 2) > 0);
}

#[test]
fn a_scout_that_leaves_its_worker_to_others_comes_again_and_ends_no_turn() {
    let keeps = Keeps::new(Demand::Others, 1);
    let queue = queue_on(1, &keeps, 3, |_| ());
    for demand in [Demand::Others, Demand::Paused] {
        assert!(queue.state.lock().crew.join(SystemThread::current()));
        keeps.wanted.lock().0 = demand;
        queue.offer(|_| ()).expect("nothing was asked yet");
        run(keeps.task());
        let state = queue.state.lock();
        assert_eq!((state.lanes.drainers(), state.lanes.starting()), (1, 1));
        assert_eq!((state.backlog.pending(), state.turn), (3, 1));
        drop(state);
        drop(keeps.task());
    }
}

#[test]
fn a_scout_joins_a_crew_with_room_before_it_leaves_its_worker_to_others() {
    assert_eq!(ran_by_a_scout(false, 1), 1);
}

#[test]
fn a_surplus_drain_task_becomes_the_scout_if_there_is_none() {
    let keeps = Keeps::new(Demand::None, 1);
    let queue = queue_on(1, &keeps, 3, |_| ());
    queue.offer(|_| ()).expect("nothing was asked yet");
    let task = keeps.task();
    // At the end of its turn another one runs pieces, which leaves while the scout naps.
    let (other, is_there) = (Arc::clone(&queue), AtomicBool::new(false));
    let come_and_go = move || {
        let crew = &mut other.state.lock().crew;
        if is_there.swap(true, Relaxed) {
            let _ = crew.leave(SystemThread::current());
        } else {
            crew.join_surplus(SystemThread::current());
        }
    };
    assert!(keeps.on_wanted.set(Box::new(come_and_go)).is_ok());
    run(task);
    let state = queue.state.lock();
    assert_eq!((state.backlog.pending(), state.lanes.drainers()), (0, 0));
}

#[test]
fn at_a_released_pool_added_pieces_run_and_further_ones_are_refused() {
    let expected = (0, 0, vec![true, false, false]);
    assert_eq!(after_one_task(Demand::Released), expected);
}

#[test]
fn a_turn_has_more_pieces_the_shorter_they_are_and_one_if_they_are_long() {
    let long = Arc::new(Lock::new(false));
    let (is_long, keeps) = (Arc::clone(&long), Keeps::new(Demand::None, 1));
    let queue = queue(&keeps, 1_000, move |clock| {
        if *is_long.lock() {
            clock.advance(2 * TURN);
        }
    });
    queue.offer(|_| ()).expect("nothing was asked yet");
    run(keeps.task());
    assert_eq!(queue.pace().0, LONGEST_TURN);
    *long.lock() = true;
    queue
        .offer(|pieces| pieces.0.extend([(); 6]))
        .expect("as before");
    run(keeps.task());
    assert_eq!(queue.pace().0, 1, "each turn of one long piece halves it");
}

#[test]
fn a_turn_ends_with_the_piece_in_which_its_time_is_up() {
    let ran = Arc::new(Lock::new(0));
    let (counter, keeps) = (Arc::clone(&ran), Keeps::new(Demand::None, 1));
    let queue = queue(&keeps, 1_000, move |clock| {
        let mut ran = counter.lock();
        *ran += 1;
        if *ran >= 1_005 {
            clock.advance(2 * TURN);
        }
    });
    queue.offer(|_| ()).expect("nothing was asked yet");
    run(keeps.task());
    assert_eq!((*ran.lock(), queue.pace().0), (1_000, LONGEST_TURN));
    // A turn now has many pieces. All from the fifth on are long, and other tasks wait.
    keeps.wanted.lock().0 = Demand::Others;
    queue
        .offer(|pieces| pieces.0.extend([(); 9]))
        .expect("as before");
    for n in 5..=9 {
        run(keeps.task());
        assert_eq!(*ran.lock(), 1_000 + n);
    }
}

#[test]
fn a_drain_task_that_searches_takes_a_late_piece_and_no_other_is_submitted_for_it() {
    let ran = Arc::new(Lock::new(0));
    let (counter, keeps) = (Arc::clone(&ran), Keeps::new(Demand::None, 2));
    let queue = queue(&keeps, 1, move |_| *counter.lock() += 1);
    let (late, added) = (Arc::downgrade(&queue), AtomicBool::new(false));
    let add = move || {
        let queue = late.upgrade().expect("it runs");
        if queue.state.lock().lanes.starting() == 1 && !added.swap(true, Relaxed) {
            let added = queue.offer(|pieces| pieces.0.push_back(()));
            added.expect("the pool is open");
        }
    };
    queue.offer(|_| ()).expect("nothing was asked yet");
    let first = keeps.task();
    assert!(keeps.on_asked.set(Box::new(add)).is_ok());
    run(first);
    assert_eq!((*ran.lock(), keeps.tasks.lock().len()), (2, 0));
}

#[test]
fn a_piece_that_panics_is_settled_and_the_drain_task_goes_on() {
    let ran = Arc::new(Lock::new(0));
    let (counter, keeps) = (Arc::clone(&ran), Keeps::new(Demand::None, 1));
    let queue = queue(&keeps, 10, move |_| {
        *counter.lock() += 1;
        resume_unwind(Box::new("a piece"));
    });
    queue.offer(|_| ()).expect("nothing was asked yet");
    run(keeps.task());
    assert_eq!(
        (*ran.lock(), queue.look(|pieces| pieces.pending())),
        (10, 0)
    );
}

#[test]
fn as_many_drain_tasks_as_workers_remain_when_a_turn_ends() {
    let keeps = Keeps::new(Demand::Others, 1);
    let queue = queue(&keeps, 100, |_| ());
    queue.offer(|_| ()).expect("nothing was asked yet");
    let tasks = || keeps.tasks.lock().len();
    assert_eq!(tasks(), 1);
    *keeps.wanted.lock() = (Demand::None, 4);
    let first = keeps.task();
    *keeps.wanted.lock() = (Demand::Others, 4);
    run(first); // Reads the new number of workers, and leaves the worker to the other tasks.
    for _ in 0..9 {
        queue.offer(|_| ()).expect("as before");
    }
    assert_eq!(tasks(), 4);
    keeps.wanted.lock().1 = 2;
    for _ in 0..4 {
        run(keeps.task());
    }
    assert_eq!(tasks(), 2, "two drain tasks have ended");
}
