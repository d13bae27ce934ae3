//! A queue of its own on a pool, which a few of the pool's tasks drain together.
//!
//! Mapping and scopes hand a pool many small pieces that belong together. Each piece as a task of
//! its own would pay the pool's price for each, and what has not started could not be taken back at
//! once. So the pieces lie in a [`SubQueue`], and at most `limit` *drain tasks* are submitted, each
//! of which does one piece after the other. (A queue that is drained on a parent executor: folly's
//! `MeteredExecutor`, the target queues of Grand Central Dispatch.)
//!
//! A drain task has *turns*. When one is over and other tasks wait for a worker, the drain task goes
//! to the end of the pool's queue; if the pool is full, it ends, and the owner submits another. So a
//! long mapping takes its share of a pool, and other tasks get theirs.
//!
//! Not for: deciding what a piece is or what becomes of it. That is the [`Backlog`]'s.
//!
//! # Invariants, whenever the lock is free
//! 1. `drainers` counts the drain tasks that were submitted, or are about to be, and have not ended;
//!    `starting` those of them that have not looked for a piece yet.
//! 2. A drain task uncounts itself in a section that found no piece, or in one that wakes the owner
//!    if pieces are left and it was the last.
//! 3. While the owner sleeps nothing is ready, and if a piece has not started there is a drain task;
//!    an owner that helps sleeps only while every piece has started.
//! 4. User code (pieces, values, wakers) runs and is dropped with no lock held.

use std::sync::Arc;
#[cfg(feature = "stream")]
use std::task::{Context, Poll};
use std::time::Duration;

#[cfg(not(anthill_loom))]
use backoff_spinlock::SpinLock as Lock;
#[cfg(anthill_loom)]
use sync_shim::Mutex as Lock;
use sync_shim::Parker;
#[cfg(not(anthill_loom))]
use sync_shim::{Clock, MonotonicClock};

use crate::config::OnFull;
use crate::error::SubmitError;
use crate::foreign::drop_quietly;
use crate::handle::PoolRef;
use crate::pool_handle::PoolHandle;
use crate::sched::decide::Demand;
use crate::submit::Admit;
use crate::task::closures::Closures;
use crate::task::erased::{Task, Work};
use crate::task::run::{Outcome, TaskContext, TaskResult, execute_unseen};
use crate::traits::BoxedFuture;
use sync_shim::waiter::Waiter;

/// How long a turn is to take: others wait that long for a worker, beside the piece under way.
const TURN: Duration = Duration::from_millis(1);
/// Pieces of a turn at most, so that one is over soon where pieces become longer. In a model a turn
/// ends while pieces are left.
const LONGEST_TURN: usize = if cfg!(anthill_loom) { 1 } else { 64 };

/// What a sub-queue holds, under its lock: pieces that have not started, and what came of the
/// others.
pub(crate) trait Backlog: Send + 'static {
    /// What is done by one call, on one thread.
    type Piece;
    /// What came of a piece.
    type Done;
    /// What is dropped when the lock is free.
    type Garbage;

    /// How many pieces have not started.
    fn pending(&self) -> usize;
    /// Starts the next piece.
    fn start(&mut self) -> Option<Self::Piece>;
    /// A piece has ended.
    fn settle(&mut self, done: Self::Done) -> Self::Garbage;
    /// Whether what the owner waits for is there.
    fn is_ready(&self) -> bool;
}

/// How drain tasks get to a pool, or to the one of several that a strategy chooses.
pub trait Submitter: Send + Sync {
    /// Submits a drain task. A refused one is dropped.
    ///
    /// # Errors
    /// Why it was refused.
    fn submit(self: Arc<Self>, task: DrainTask, on_full: OnFull) -> Result<(), SubmitError>;
    /// As a future that waits for room.
    fn submit_async(self: Arc<Self>, task: DrainTask) -> Submission;
    /// What else the pool's workers are wanted for.
    fn demand(&self) -> Demand;
}

/// A drain task that waits for room.
pub type Submission = BoxedFuture<Result<(), SubmitError>>;

impl<A: Admit<Closures> + Send + Sync + 'static> Submitter for A {
    fn submit(self: Arc<Self>, task: DrainTask, on_full: OnFull) -> Result<(), SubmitError> {
        self.refuses(on_full)?;
        let mut job = Some(Task::new(task));
        self.admit_job(&mut job, on_full, None).map(drop)
    }

    fn submit_async(self: Arc<Self>, task: DrainTask) -> Submission {
        let admitted = self.admit_async(Task::new(task), None);
        Box::pin(async { admitted.await.map(drop).map_err(SubmitError::without_task) })
    }

    fn demand(&self) -> Demand {
        Admit::demand(self)
    }
}

/// A queue on a pool.
pub(crate) struct SubQueue<B> {
    state: Lock<State<B>>,
    /// Whose clock, panic hook and nesting limit hold.
    pool: PoolHandle,
    submitter: Arc<dyn Submitter>,
    /// Drain tasks there may be at a time.
    limit: usize,
}

struct State<B> {
    backlog: B,
    drainers: usize,
    starting: usize,
    /// Pieces of the next turn.
    turn: usize,
    /// The pool was found released.
    closed: bool,
    /// The owner sleeps.
    owner: Option<Waiter>,
    /// It does pieces itself where there are any.
    owner_helps: bool,
}

impl<B: Backlog> State<B> {
    /// Reserves a drain task if it would find a piece that no other is on its way to. Whether it is
    /// the only one.
    fn reserve(&mut self, limit: usize) -> Option<bool> {
        if self.drainers >= limit || self.backlog.pending() <= self.starting {
            return None;
        }
        self.drainers += 1;
        self.starting += 1;
        Some(self.drainers == 1)
    }

    /// The next piece of a drain task, which is uncounted if there is none.
    fn next(&mut self) -> Option<B::Piece> {
        let piece = self.backlog.start(); // Step D2.
        if piece.is_none() {
            self.drainers -= 1;
        }
        piece
    }

    /// The owner's waiter, if there is something to wake it for.
    fn wake(&mut self) -> Option<Waiter> {
        let left = self.backlog.pending() > 0 && (self.owner_helps || self.drainers == 0);
        if left || self.backlog.is_ready() {
            self.owner.take()
        } else {
            None
        }
    }
}

/// Whether an owner that waits does pieces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helps {
    /// On a worker of the pool, down to the nesting limit.
    OnWorker,
    /// Wherever it is called.
    Always,
}

/// A drain task before it has run. Dropped unrun, by a refusal or a `release_now`, it is uncounted.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct DrainTask(Option<Arc<dyn Drain>>);

impl DrainTask {
    fn drain(mut self) {
        if let Some(drainer) = self.0.take() {
            drainer.drain();
        }
    }
}

// Without a name: a full pool does not discard it.
impl Work for DrainTask {
    fn run(self, _: &TaskContext) -> TaskResult {
        execute_unseen(|| self.drain())
    }

    fn release(self) -> TaskResult {
        drop(self);
        TaskResult::without_handle(Outcome::Released)
    }
}

impl Drop for DrainTask {
    fn drop(&mut self) {
        if let Some(drainer) = self.0.take() {
            drainer.abandon();
        }
    }
}

/// The drain tasks' side of a sub-queue.
pub(crate) trait Drain: Send + Sync {
    /// The body of a drain task.
    fn drain(self: Arc<Self>);
    /// A drain task will not run.
    fn abandon(&self);
    /// Does one piece here. `false` if there is none.
    fn help(&self) -> bool;
}

struct Drainer<B, F> {
    queue: Arc<SubQueue<B>>,
    run: F,
}

/// The drain tasks of a queue, each piece of which is done by `run`, which does not unwind.
pub(crate) fn drain_by<B, F>(queue: &Arc<SubQueue<B>>, run: F) -> Arc<dyn Drain>
where
    B: Backlog,
    F: Fn(B::Piece) -> B::Done + Send + Sync + 'static,
{
    let queue = Arc::clone(queue);
    Arc::new(Drainer { queue, run })
}

impl<B, F> Drainer<B, F>
where
    B: Backlog,
    F: Fn(B::Piece) -> B::Done + Send + Sync + 'static,
{
    /// Does a piece. The section that settles it takes the next one, if `then` does.
    fn run_one(
        &self,
        piece: B::Piece,
        then: impl FnOnce(&mut State<B>) -> Option<B::Piece>,
    ) -> Option<B::Piece> {
        let done = (self.run)(piece);
        // Step D3.
        let mut state = self.queue.state.lock();
        let garbage = state.backlog.settle(done);
        let next = then(&mut state);
        let owner = state.wake();
        drop(state);
        owner.into_iter().for_each(Waiter::wake);
        drop_quietly(garbage);
        next
    }
}

impl<B, F> Drain for Drainer<B, F>
where
    B: Backlog,
    F: Fn(B::Piece) -> B::Done + Send + Sync + 'static,
{
    fn drain(self: Arc<Self>) {
        let queue = &*self.queue;
        let (mut piece, mut turn) = queue.begin();
        loop {
            let began = queue.pool.clock().now();
            for _ in 1..turn {
                let Some(current) = piece else { return };
                piece = self.run_one(current, State::next);
            }
            let Some(current) = piece else { return };
            self.run_one(current, |_| None);
            turn = queue.end_turn(queue.pool.clock().now() - began);
            let demand = queue.submitter.demand();
            let mut state = queue.state.lock();
            if demand == Demand::Others {
                state.starting += 1;
                drop(state);
                // Step D4. Refused, it is dropped, and so uncounted.
                let next_turn = DrainTask(Some(Arc::clone(&self) as _));
                let _ = Arc::clone(&queue.submitter).submit(next_turn, OnFull::Refuse);
                return;
            }
            // What was added before is done; nothing is after it.
            state.closed |= demand == Demand::Released;
            piece = state.next();
        }
    }

    fn abandon(&self) {
        let mut state = self.queue.state.lock();
        state.drainers -= 1;
        state.starting -= 1;
        let owner = state.wake();
        drop(state);
        owner.into_iter().for_each(Waiter::wake);
    }

    fn help(&self) -> bool {
        let mut piece = self.queue.state.lock().backlog.start();
        let found = piece.is_some();
        if found {
            self.queue.pool.0.nested(&mut || {
                if let Some(piece) = piece.take() {
                    self.run_one(piece, |_| None);
                }
                Outcome::Completed
            });
        }
        found
    }
}

impl<B> SubQueue<B> {
    pub(crate) fn pool(&self) -> &PoolHandle {
        &self.pool
    }

    /// A look at the backlog that adds no piece.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut B) -> T) -> T {
        look(&mut self.state.lock().backlog)
    }

    /// A last look of an owner that leaves. The waiter that it left, if it was to be woken, is user
    /// code's to drop.
    pub(crate) fn leave<T>(&self, look: impl FnOnce(&mut B) -> T) -> (T, Option<Waiter>) {
        let mut state = self.state.lock();
        (look(&mut state.backlog), state.owner.take())
    }
}

impl<B: Backlog> SubQueue<B> {
    /// An empty one. `limit` is how many drain tasks there may be.
    pub(crate) fn new(
        submitter: Arc<dyn Submitter>,
        pool: PoolHandle,
        limit: usize,
        backlog: B,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Lock::new(State {
                backlog,
                drainers: 0,
                starting: 0,
                turn: 1,
                closed: false,
                owner: None,
                owner_helps: false,
            }),
            pool,
            submitter,
            limit,
        })
    }

    /// Changes the backlog, and wakes the owner if that is what it waits for.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut B) -> T) -> T {
        let mut state = self.state.lock();
        let changed = change(&mut state.backlog);
        let owner = state.wake();
        drop(state);
        owner.into_iter().for_each(Waiter::wake);
        changed
    }

    /// Adds a piece, and submits a drain task for it if there may be another and the pool has room
    /// for it: the owner helps, or submits one when it waits.
    ///
    /// # Errors
    /// The pool is released. The piece has been added all the same.
    pub(crate) fn offer<T>(
        &self,
        drain: &Arc<dyn Drain>,
        add: impl FnOnce(&mut B) -> T,
    ) -> Result<T, SubmitError> {
        let (added, reserved) = self.push(add)?;
        if reserved.is_some() {
            let _ = self.submit_reserved(drain, OnFull::Refuse);
        }
        Ok(added)
    }

    /// Adds a piece, and submits a drain task for it if there may be another. Blocks for room only
    /// if there is no drain task at all, and the caller is no worker of the pool.
    ///
    /// # Errors
    /// The pool is released, or there is no drain task and the pool refused the first. The piece
    /// has been added all the same. An own worker does not learn of the latter here: it does the
    /// piece itself as it waits.
    pub(crate) fn add<T>(
        &self,
        drain: &Arc<dyn Drain>,
        add: impl FnOnce(&mut B) -> T,
    ) -> Result<T, SubmitError> {
        let (added, reserved) = self.push(add)?;
        if let Some(alone) = reserved {
            if alone && !self.pool.0.is_own_worker() {
                self.submit_reserved(drain, OnFull::Wait(None))?;
            } else {
                let _ = self.submit_reserved(drain, OnFull::Refuse);
            }
        }
        Ok(added)
    }

    /// Adds a piece. Whether a drain task was reserved for it, and that is the only one.
    fn push<T>(&self, add: impl FnOnce(&mut B) -> T) -> Result<(T, Option<bool>), SubmitError> {
        // Step D1.
        let mut state = self.state.lock();
        let added = add(&mut state.backlog);
        let reserved = state.reserve(self.limit);
        let (closed, owner) = (state.closed, state.wake());
        drop(state);
        owner.into_iter().for_each(Waiter::wake);
        if closed && reserved.is_none() {
            return Err(SubmitError::Released(()));
        }
        Ok((added, reserved))
    }

    /// Blocks until `take` finds something, which looks whenever the owner is woken, and after
    /// each nap if there is one.
    ///
    /// # Errors
    /// There is a piece, no drain task, and the pool refused one.
    pub(crate) fn wait<T>(
        &self,
        drain: &Arc<dyn Drain>,
        helps: Helps,
        nap: Option<Duration>,
        mut take: impl FnMut(&mut B) -> Option<T>,
    ) -> Result<T, SubmitError> {
        let own_worker = self.pool.0.is_own_worker();
        let helps = helps == Helps::Always || own_worker && self.pool.0.may_nest();
        let parker = Parker::of_thread();
        let mut asked = false;
        loop {
            // Step D5.
            let mut state = self.state.lock();
            let previous = state.owner.take();
            if let Some(found) = take(&mut state.backlog) {
                drop(state);
                drop(previous);
                return Ok(found);
            }
            let left = state.backlog.pending() > 0;
            // Step D6. Once for each time it wakes, or whenever there is none: a full pool refuses another.
            let reserved = if asked && (helps || state.drainers > 0) {
                None
            } else {
                state.reserve(self.limit)
            };
            if reserved.is_none() && !(helps && left) {
                state.owner = Some(Waiter::Thread(parker.clone()));
                state.owner_helps = helps;
            }
            drop(state);
            drop(previous);
            match reserved {
                Some(alone) => {
                    asked = true;
                    if !alone || helps {
                        let _ = self.submit_reserved(drain, OnFull::Refuse);
                    } else if own_worker {
                        self.submit_reserved(drain, OnFull::Refuse)?;
                    } else {
                        self.submit_reserved(drain, OnFull::Wait(None))?;
                    }
                }
                None if helps && left => {
                    drain.help();
                    asked = false;
                }
                None => {
                    doze(&parker, nap);
                    asked = false;
                }
            }
        }
    }

    /// As [`wait`](Self::wait), for a future's `poll`. `submission` is the caller's, from poll to
    /// poll: the drain task that waits for room, while there is no other.
    ///
    /// # Errors
    /// There is a piece, no drain task, and the pool refused one.
    #[cfg(feature = "stream")]
    pub(crate) fn poll<T>(
        &self,
        drain: &Arc<dyn Drain>,
        submission: &mut Option<Submission>,
        context: &mut Context<'_>,
        mut take: impl FnMut(&mut B) -> Option<T>,
    ) -> Poll<Result<T, SubmitError>> {
        let mut asked = false;
        loop {
            if let Some(waiting) = submission
                && let Poll::Ready(submitted) = waiting.as_mut().poll(context)
            {
                *submission = None;
                submitted?;
            }
            // Cloned first: a waker's clone is user code.
            let waiter = Waiter::Task(context.waker().clone());
            let mut state = self.state.lock();
            let previous = state.owner.take();
            if let Some(found) = take(&mut state.backlog) {
                drop(state);
                drop_quietly((previous, waiter));
                return Poll::Ready(Ok(found));
            }
            let reserved = if submission.is_some() || (asked && state.drainers > 0) {
                None
            } else {
                state.reserve(self.limit)
            };
            if reserved.is_none() {
                state.owner = Some(waiter);
                state.owner_helps = false;
            }
            drop(state);
            drop_quietly(previous);
            match reserved {
                None => return Poll::Pending,
                Some(true) => {
                    let task = DrainTask(Some(Arc::clone(drain)));
                    *submission = Some(Arc::clone(&self.submitter).submit_async(task));
                }
                Some(false) => {
                    asked = true;
                    let _ = self.submit_reserved(drain, OnFull::Refuse);
                }
            }
        }
    }

    /// Submits a drain task that was reserved. One that is refused is uncounted.
    fn submit_reserved(&self, drain: &Arc<dyn Drain>, on_full: OnFull) -> Result<(), SubmitError> {
        let task = DrainTask(Some(Arc::clone(drain)));
        Arc::clone(&self.submitter).submit(task, on_full)
    }

    /// How many pieces a turn has: the more, the shorter pieces are. 1 if they take long.
    pub(crate) fn turn(&self) -> usize {
        self.state.lock().turn
    }

    /// A drain task begins: its first piece, and how many its turn has.
    fn begin(&self) -> (Option<B::Piece>, usize) {
        let mut state = self.state.lock();
        state.starting -= 1;
        (state.next(), state.turn)
    }

    /// A turn took so long: how many pieces the next one has.
    fn end_turn(&self, took: Duration) -> usize {
        let mut state = self.state.lock();
        if took < TURN / 2 {
            state.turn = (state.turn * 2).min(LONGEST_TURN);
        } else if took > TURN {
            state.turn = (state.turn / 2).max(1);
        }
        state.turn
    }
}

/// Sleeps until the owner is woken, or for the nap.
fn doze(parker: &Parker, nap: Option<Duration>) {
    match nap {
        // Not by the pool's clock, which may stand still: it is no deadline, but a bound on how
        // late a result may be.
        #[cfg(not(anthill_loom))]
        Some(nap) => {
            let clock = MonotonicClock;
            clock.park_until(parker, clock.now() + nap);
        }
        _ => parker.park(),
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{OnceLock, Weak};

    use super::*;
    use crate::Pool;

    /// Pieces that come to nothing.
    struct Pieces(VecDeque<()>);

    impl Backlog for Pieces {
        type Piece = ();
        type Done = ();
        type Garbage = ();

        fn pending(&self) -> usize {
            self.0.len()
        }

        fn start(&mut self) -> Option<()> {
            self.0.pop_front()
        }

        fn settle(&mut self, (): ()) {}

        fn is_ready(&self) -> bool {
            self.0.is_empty()
        }
    }

    /// A pool that keeps what is submitted, and wants its workers for something.
    struct Keeps(Demand, Lock<Vec<DrainTask>>);

    impl Submitter for Keeps {
        fn submit(self: Arc<Self>, task: DrainTask, _: OnFull) -> Result<(), SubmitError> {
            self.1.lock().push(task);
            Ok(())
        }

        fn submit_async(self: Arc<Self>, task: DrainTask) -> Submission {
            Box::pin(std::future::ready(self.submit(task, OnFull::Refuse)))
        }

        fn demand(&self) -> Demand {
            self.0
        }
    }

    /// A queue of three pieces, whose drain task has been run once, on this thread: how many pieces
    /// are left, how many drain tasks are there then, and whether each piece that ran could add
    /// another one.
    fn after_one_task(demand: Demand) -> (usize, usize, Vec<bool>) {
        let pool = Pool::builder().capacity(1).build().expect("it has one");
        let keeps = Arc::new(Keeps(demand, Lock::new(Vec::new())));
        let pieces = Pieces(VecDeque::from([(); 2]));
        let submitter = Arc::clone(&keeps) as Arc<dyn Submitter>;
        let queue = SubQueue::new(submitter, PoolHandle::of(&pool), 1, pieces);
        let added = Arc::new(Lock::new(Vec::new()));
        let itself = Arc::new(OnceLock::<Weak<dyn Drain>>::new());
        let (ours, adds, inner) = (Arc::clone(&queue), Arc::clone(&added), Arc::clone(&itself));
        let drain = drain_by(&queue, move |()| {
            let drain = inner.get().and_then(Weak::upgrade);
            let drain = drain.expect("it is set before it runs, and runs");
            let taken = ours.offer(&drain, |_| ()); // As if one were added.
            adds.lock().push(taken.is_ok());
        });
        assert!(itself.set(Arc::downgrade(&drain)).is_ok());
        let first = queue.offer(&drain, |pieces| pieces.0.push_back(()));
        first.expect("nothing was asked yet");
        let task = keeps.1.lock().pop().expect("the first piece wants one");
        task.drain();
        let left = queue.look(|pieces| pieces.pending());
        let tasks = std::mem::take(&mut *keeps.1.lock());
        let taken = std::mem::take(&mut *added.lock());
        (left, tasks.len(), taken)
    }

    #[test]
    fn a_drain_task_that_nothing_else_waits_for_goes_on_to_the_end() {
        assert_eq!(after_one_task(Demand::None), (0, 0, vec![true; 3]));
    }

    #[test]
    fn a_drain_task_leaves_its_worker_to_others_after_its_turn_and_comes_again() {
        assert_eq!(after_one_task(Demand::Others), (2, 1, vec![true]));
    }

    #[test]
    fn at_a_released_pool_what_was_added_is_done_and_nothing_is_added() {
        let expected = (0, 0, vec![true, false, false]);
        assert_eq!(after_one_task(Demand::Released), expected);
    }
}
