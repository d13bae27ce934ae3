//! A queue of its own on a pool, which a few of the pool's tasks drain together.
//!
//! Mapping and scopes hand a pool many small pieces that belong together. Each piece as a task of
//! its own would pay the pool's price for each, and what has not started could not be taken back at
//! once. So the pieces lie in a [`SubQueue`], and *drain tasks* are submitted, at most as many as the
//! pool has workers, each of which does one piece after the other. (A queue that is drained on a
//! parent executor: folly's `MeteredExecutor`, the target queues of Grand Central Dispatch.)
//!
//! A drain task has *turns*. When one is over and other tasks wait for a worker, the drain task goes
//! to the end of the pool's queue; if the pool is full, it ends, and the owner submits another. So a
//! long mapping takes its share of a pool, and other tasks get theirs. A turn lasts a millisecond and
//! the piece that runs then. The clock is read after each piece only while the worker is wanted for
//! other tasks; and after the first, the second, the fourth piece and so on, for the length of the
//! next turn.
//!
//! A drain task that finds no piece looks for some microseconds before it ends: if pieces come one
//! after the other, each would otherwise wake a worker.
//!
//! Of a multi-pool's members each has drain tasks of its own (`lanes.rs`): one that waits in the queue
//! of a member whose workers are blocked keeps no other member from the pieces.
//!
//! Not for: deciding what a piece is or what becomes of it. That is the [`Backlog`]'s.
//!
//! # Invariants, whenever the lock is free
//! 1. The lanes count the drain tasks that were submitted, or are about to be, and have not ended; as
//!    *starting* those of them that have not looked for a piece yet.
//! 2. A drain task that looks for a late piece counts as starting. It uncounts itself in a section
//!    that found no piece, or in one that wakes the owner
//!    if pieces are left and it was the last, or where its pool has more of them than workers.
//! 3. While the owner sleeps nothing is ready, and if a piece has not started there is a drain task;
//!    an owner that helps sleeps only while every piece has started.
//! 4. User code (pieces, values, wakers, clocks, strategies) runs and is dropped with no lock held.
//! 5. A piece that has started is settled, whatever its code does: only [`SubQueue::run_one`] runs
//!    pieces, and a panic of a piece, or of anything that it calls, ends there.

use std::mem;
use std::sync::Arc;
#[cfg(feature = "stream")]
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

#[cfg(not(anthill_loom))]
use backoff_spinlock::SpinLock as Lock;
use pool_core::SubmitError;
use pool_core::internals::{Demand, Outcome, PoolHandle, Search, Searches, TaskContext};
#[cfg(anthill_loom)]
use sync_shim::Mutex as Lock;
use sync_shim::atomic::AtomicBool;
use sync_shim::atomic::Ordering::Relaxed;
use sync_shim::foreign::{Payload, drop_quietly, guarded};
use sync_shim::waiter::Waiter;
#[cfg(not(anthill_loom))]
use sync_shim::{Clock, MonotonicClock};
use sync_shim::{Parker, Process};

mod drain_task;
mod lanes;
mod site;
#[cfg(all(test, not(anthill_loom)))]
pub(crate) mod tests;

use drain_task::Drain;
use drain_task::DrainTask;
use lanes::Lanes;
pub(crate) use site::Site;
#[cfg(feature = "stream")]
pub(crate) use site::Submission;

/// How long a turn is to take: others wait that long for a worker, beside the piece under way.
const TURN: Duration = Duration::from_millis(1);
/// Pieces of a turn at most: what its end costs is nothing to as many. In a model a turn ends while
/// pieces are left.
const LONGEST_TURN: usize = if cfg!(anthill_loom) { 1 } else { 64 };
/// How long the owner sleeps before it asks a pool again that has refused a drain task, or, if a
/// piece waits for a busy member of a multi-pool, the other members.
const PATIENCE: Duration = Duration::from_millis(1);
/// It doubles up to this.
const LONGEST_PATIENCE: Duration = Duration::from_millis(64);

/// What a sub-queue holds, under its lock: pieces that have not started, and what came of the
/// others.
pub(crate) trait Backlog {
    /// What is done by one call, on one thread.
    type Piece;
    /// Which piece it was.
    type Number: Copy;
    /// What came of a piece.
    type Done;
    /// What is dropped when the lock is free.
    type Garbage;

    /// How many pieces have not started.
    fn pending(&self) -> usize;
    /// Starts the next piece.
    fn start(&mut self) -> Option<(Self::Number, Self::Piece)>;
    /// What comes of a piece that has panicked.
    fn panicked(payload: Payload, context: &TaskContext) -> Self::Done;
    /// A piece has ended.
    fn settle(&mut self, number: Self::Number, done: Self::Done) -> Self::Garbage;
    /// Whether what the owner waits for is there.
    fn is_ready(&self) -> bool;
}

/// A piece that a thread has in its hands.
pub(crate) type Started<B> = (<B as Backlog>::Number, <B as Backlog>::Piece);

/// Does a piece.
pub(crate) type Run<B> =
    dyn Fn(<B as Backlog>::Piece, &TaskContext) -> <B as Backlog>::Done + Send + Sync;

/// A queue on a pool, or on the members of a multi-pool.
pub(crate) struct SubQueue<B: Backlog> {
    state: Lock<State<B>>,
    /// A hint to drain tasks that look for a piece.
    work: AtomicBool,
    run: Box<Run<B>>,
    site: Site,
    /// See [`process`](Self::process).
    process: Process,
}

struct State<B> {
    backlog: B,
    lanes: Lanes,
    /// Pieces of the next turn at most.
    turn: usize,
    /// How drain tasks look for a piece that comes late.
    searches: Searches,
    /// The pool was found released.
    closed: bool,
    /// The owner sleeps.
    owner: Option<Waiter>,
    /// It does pieces itself where there are any.
    owner_helps: bool,
}

impl<B: Backlog> State<B> {
    /// Reserves a drain task if it would find a piece that no other is on its way to. Whether it may
    /// wait for room if it is the only one, is said by `may_wait`.
    fn reserve(&mut self, site: &Site, may_wait: bool) -> Option<Reserved> {
        if self.backlog.pending() <= self.lanes.starting() {
            return None;
        }
        let mut lane = self.lanes.reserve(|lane| site.member(lane).has_worker())?;
        let alone = self.lanes.drainers() == 1;
        let waits = may_wait && alone;
        if waits {
            lane = self.lanes.reserved_anywhere(lane);
        }
        Some(Reserved { lane, alone, waits })
    }

    /// Step D2: the next piece of a drain task; if there is none, it is to look for one that comes
    /// late.
    fn next(&mut self, lane: usize, work: &AtomicBool) -> After<Started<B>> {
        if let Some(piece) = self.backlog.start() {
            return After::Next(piece);
        }
        self.lanes.restart(lane);
        work.store(false, Relaxed); // A hint; the lock is held.
        After::Dry(self.searches.begin())
    }

    /// The next piece of a drain task, which is uncounted if there is none.
    fn next_or_end(&mut self, lane: usize) -> Option<Started<B>> {
        let piece = self.backlog.start();
        if piece.is_none() {
            self.lanes.end(lane);
        }
        piece
    }

    /// The owner's waiter, if there is something to wake it for.
    fn wake(&mut self) -> Option<Waiter> {
        let left = self.backlog.pending() > 0 && (self.owner_helps || self.lanes.drainers() == 0);
        if left || self.backlog.is_ready() {
            self.owner.take()
        } else {
            None
        }
    }

    /// A turn took so long: the more pieces the next one has, the shorter they are.
    fn end_turn(&mut self, took: Duration) {
        if took < TURN / 2 {
            self.turn = (self.turn * 2).min(LONGEST_TURN);
        } else if took > TURN {
            self.turn = (self.turn / 2).max(1);
        }
    }

    /// Whether there may be a drain task for a piece that none is on its way to: a pool has refused
    /// one, or has grown since.
    fn wants_more(&self) -> bool {
        self.backlog.pending() > self.lanes.starting() && self.lanes.have_space()
    }

    /// Whether a piece waits for a pool that may be blocked while another has no drain task.
    fn stalls(&self) -> bool {
        self.backlog.pending() > 0 && self.lanes.has_idle_member()
    }
}

/// Whether an owner that waits does pieces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helps {
    /// On a worker of the pool, down to the nesting limit.
    OnWorker,
    /// Wherever it is called.
    Always,
    /// Wherever it is called, and no drain task is submitted: no user code runs but in pieces.
    Alone,
}

/// A turn of a drain task.
struct Turn {
    /// That of its pool.
    lane: usize,
    /// Pieces that it may have.
    length: usize,
    /// Pieces that have ended.
    ended: usize,
    began: Option<Instant>,
    /// Until the clock was read last.
    took: Duration,
}

impl Turn {
    /// A piece has ended. Whether the turn may have another.
    fn goes_on(&mut self, is_wanted: bool, now: impl FnOnce() -> Option<Instant>) -> bool {
        self.ended += 1;
        let is_last = self.ended >= self.length;
        if is_wanted || is_last || self.ended.is_power_of_two() {
            // A clock that panics makes turns of one piece.
            let times = now().zip(self.began);
            self.took = times.map_or(Duration::MAX, |(now, began)| {
                now.saturating_duration_since(began)
            });
        }
        !is_last && self.took <= TURN
    }
}

/// What a thread has after a piece.
enum After<P> {
    /// Another one.
    Next(P),
    /// None: there was no other, and the drain task is counted as starting.
    Dry(Search),
    /// None, and nothing is to be done any more.
    Ended,
    /// None: it was not to take another.
    TurnOver,
}

/// A drain task that was reserved.
struct Reserved {
    lane: usize,
    /// There is no other.
    alone: bool,
    /// It may wait for room, at any pool.
    waits: bool,
}

impl<B: Backlog + Send + 'static> Drain for SubQueue<B> {
    fn drain(&self, this: &Arc<dyn Drain>, lane: usize, context: &TaskContext) {
        let (mut turn, piece) = self.begin(lane, context);
        let mut next = piece.map_or(After::Ended, After::Next);
        loop {
            next = match next {
                After::Next(piece) => self.run_one(piece, Some(&mut turn)),
                After::TurnOver => self.end_turn(this, &mut turn),
                After::Dry(search) => self.search(turn.lane, search),
                After::Ended => return,
            }
        }
    }

    fn abandon(&self, lane: usize) {
        if !self.process.is_current() {
            return;
        }
        let mut state = self.state.lock();
        state.lanes.abandon(lane);
        // An owner that counted on it asks again.
        let owner = if state.wants_more() {
            state.owner.take()
        } else {
            state.wake()
        };
        drop(state);
        owner.into_iter().for_each(Waiter::wake);
    }
}

impl<B: Backlog> SubQueue<B> {
    /// An empty one, whose pieces are done by `run`.
    pub(crate) fn new(site: Site, backlog: B, run: Box<Run<B>>) -> Arc<Self> {
        let lanes = Lanes::new(site.limits());
        Arc::new(Self {
            state: Lock::new(State {
                backlog,
                lanes,
                turn: 1,
                searches: Searches::new(),
                closed: false,
                owner: None,
                owner_helps: false,
            }),
            work: AtomicBool::new(false),
            run,
            site,
            process: Process::current(),
        })
    }

    pub(crate) fn pool(&self) -> &PoolHandle {
        &self.site.pool
    }

    /// The process of its drain tasks and its owner.
    pub(crate) fn process(&self) -> Process {
        self.process
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

    /// Changes the backlog, and wakes the owner if that is what it waits for.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut B) -> T) -> T {
        let mut state = self.state.lock();
        let changed = change(&mut state.backlog);
        let owner = state.wake();
        drop(state);
        owner.into_iter().for_each(Waiter::wake);
        changed
    }

    /// Pieces of a turn at most, which are the more the shorter they are (1 if they take long); and
    /// how many workers there may be.
    pub(crate) fn pace(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.turn, state.lanes.limit())
    }
}

impl<B: Backlog + Send + 'static> SubQueue<B> {
    /// Does a piece, whatever it does, and settles it. In a turn that goes on the section that settles
    /// it takes the next one.
    fn run_one(&self, (number, piece): Started<B>, turn: Option<&mut Turn>) -> After<Started<B>> {
        let context = self.site.pool.context();
        let ran = guarded(|| (self.run)(piece, context));
        let done = ran.unwrap_or_else(|payload| B::panicked(payload, context));
        if !self.process.is_current() {
            mem::forget(done); // Its owner is in the other process.
            return After::Ended;
        }
        let lane = turn.and_then(|turn| {
            let is_wanted = self.site.member(turn.lane).is_wanted();
            let goes_on = turn.goes_on(is_wanted, || self.site.now());
            goes_on.then_some(turn.lane)
        });
        // Step D3.
        let mut state = self.state.lock();
        let garbage = state.backlog.settle(number, done);
        let next = lane.map_or(After::TurnOver, |lane| state.next(lane, &self.work));
        let owner = state.wake();
        drop(state);
        owner.into_iter().for_each(Waiter::wake);
        drop_quietly(garbage);
        next
    }

    /// A drain task begins: its first turn and piece.
    fn begin(&self, lane: usize, context: &TaskContext) -> (Turn, Option<Started<B>>) {
        let here = self.site.lane_of(context);
        let mut state = self.state.lock();
        state.lanes.begin(lane, here);
        let length = state.turn;
        let piece = if state.lanes.has_too_many(here) {
            state.lanes.end(here);
            None
        } else {
            state.next_or_end(here)
        };
        drop(state);
        let turn = Turn {
            lane: here,
            length,
            ended: 0,
            began: self.site.now(),
            took: Duration::ZERO,
        };
        (turn, piece)
    }

    /// Looks for a piece that comes late, but not while the worker is wanted for other tasks.
    fn search(&self, lane: usize, search: Search) -> After<Started<B>> {
        let member = self.site.member(lane);
        search.look(|| self.work.load(Relaxed) || member.is_wanted());
        let mut state = self.state.lock();
        state.lanes.begin(lane, lane);
        let piece = state.next_or_end(lane);
        state.searches.learn(search, piece.is_some());
        piece.map_or(After::Ended, After::Next)
    }

    /// A turn is over: the first piece of the next one, unless the worker is wanted elsewhere.
    fn end_turn(&self, this: &Arc<dyn Drain>, turn: &mut Turn) -> After<Started<B>> {
        let lane = turn.lane;
        let (demand, workers) = self.site.member(lane).wanted();
        let mut state = self.state.lock();
        state.end_turn(turn.took);
        state.lanes.tune(lane, workers);
        if state.lanes.has_too_many(lane) {
            state.lanes.end(lane); // The others do the rest.
            return After::Ended;
        }
        if demand == Demand::Others {
            state.lanes.restart(lane);
            drop(state);
            // Step D4. Refused, it is dropped, and so uncounted.
            let next_turn = DrainTask::new(Arc::clone(this), lane);
            let _ = self.site.member(lane).offer(next_turn);
            return After::Ended;
        }
        if state.wants_more() && self.site.may_have_room() {
            drop(state);
            self.submit_more(this);
            state = self.state.lock();
        }
        // What was added before is done; nothing is after it.
        state.closed |= demand == Demand::Released;
        let next = state.next(lane, &self.work);
        turn.length = state.turn;
        turn.ended = 0;
        drop(state);
        turn.began = self.site.now();
        next
    }

    /// Submits drain tasks for all pieces that none is on its way to.
    fn submit_more(&self, this: &Arc<dyn Drain>) {
        loop {
            let reserved = self.state.lock().reserve(&self.site, false);
            let accepted = reserved.map(|reserved| self.submit(Arc::clone(this), &reserved));
            if !matches!(accepted, Some(Ok(()))) {
                return;
            }
        }
    }

    /// Takes a piece that has not started, and does it here. `false` if there is none.
    pub(crate) fn help(&self, take: impl FnOnce(&mut B) -> Option<Started<B>>) -> bool {
        let mut piece = take(&mut self.state.lock().backlog);
        let found = piece.is_some();
        if found {
            self.site.pool.nested(&mut || {
                if let Some(piece) = piece.take() {
                    self.run_one(piece, None);
                }
                Outcome::Completed
            });
        }
        found
    }

    /// Adds a piece, and submits a drain task for it if there may be another and the pool has room
    /// for it: the owner helps, or submits one when it waits.
    ///
    /// # Errors
    /// The pool is released. The piece has been added all the same.
    pub(crate) fn offer<T>(
        self: &Arc<Self>,
        add: impl FnOnce(&mut B) -> T,
    ) -> Result<T, SubmitError> {
        let (added, reserved) = self.push(false, add)?;
        if let Some(reserved) = reserved {
            let _ = self.submit(Arc::clone(self) as _, &reserved);
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
        self: &Arc<Self>,
        add: impl FnOnce(&mut B) -> T,
    ) -> Result<T, SubmitError> {
        let (added, reserved) = self.push(!self.site.pool.is_own_worker(), add)?;
        if let Some(reserved) = reserved {
            let submitted = self.submit(Arc::clone(self) as _, &reserved);
            if reserved.waits {
                submitted?;
            }
        }
        Ok(added)
    }

    /// Adds a piece. The drain task that was reserved for it.
    fn push<T>(
        &self,
        may_wait: bool,
        add: impl FnOnce(&mut B) -> T,
    ) -> Result<(T, Option<Reserved>), SubmitError> {
        self.process.check(SubmitError::Forked(()))?;
        // Step D1.
        let mut state = self.state.lock();
        let added = add(&mut state.backlog);
        let reserved = if may_wait || self.site.may_have_room() {
            state.reserve(&self.site, may_wait)
        } else {
            None
        };
        let (closed, owner) = (state.closed, state.wake());
        let starting = state.lanes.starting() > 0;
        drop(state);
        if starting {
            self.work.store(true, Relaxed); // They look under the lock before they end.
        }
        owner.into_iter().for_each(Waiter::wake);
        if closed && reserved.is_none() {
            return Err(SubmitError::Released(()));
        }
        Ok((added, reserved))
    }

    /// Submits a drain task that was reserved. One that is refused is uncounted.
    fn submit(&self, this: Arc<dyn Drain>, reserved: &Reserved) -> Result<(), SubmitError> {
        let task = DrainTask::new(this, reserved.lane);
        self.site.pool.process().check(SubmitError::Forked(()))?;
        if reserved.waits {
            Arc::clone(&self.site.submitter).submit(task)
        } else {
            self.site.member(reserved.lane).offer(task)
        }
    }

    /// Blocks until `take` finds something, which looks whenever the owner is woken, and after
    /// each nap if there is one.
    ///
    /// # Errors
    /// There is a piece, no drain task, and the pool refused one; or the process was forked.
    pub(crate) fn wait<T>(
        self: &Arc<Self>,
        helps: Helps,
        nap: Option<Duration>,
        mut take: impl FnMut(&mut B) -> Option<T>,
    ) -> Result<T, SubmitError> {
        let own_worker = self.site.pool.is_own_worker();
        let submits = helps != Helps::Alone;
        let helps = helps != Helps::OnWorker || own_worker && self.site.pool.may_nest();
        let parker = Parker::of_thread();
        let (mut asked, mut patience) = (false, PATIENCE);
        // Whether members without a drain task are asked now. In a model no nap ends.
        let mut spreads = cfg!(anthill_loom);
        loop {
            self.process.check(SubmitError::Forked(()))?;
            // Step D5.
            let mut state = self.state.lock();
            let previous = state.owner.take();
            if let Some(found) = take(&mut state.backlog) {
                drop(state);
                drop(previous);
                return Ok(found);
            }
            let left = helps && state.backlog.pending() > 0;
            // Step D6. Once for each time it wakes, or whenever there is none: a full pool refuses another.
            let reserved = if !submits || asked && (helps || state.lanes.drainers() > 0) {
                None
            } else {
                state.reserve(&self.site, !helps && !own_worker)
            };
            let stalls = reserved.is_none() && !helps && state.stalls();
            let wants_more = reserved.is_none() && !helps && state.wants_more();
            let idle = if stalls && spreads {
                state.lanes.reserve_at_idle_members()
            } else {
                Vec::new()
            };
            let sleeps = reserved.is_none() && idle.is_empty() && !left;
            if sleeps {
                state.owner = Some(Waiter::Thread(parker.clone()));
                state.owner_helps = helps;
            }
            drop(state);
            drop(previous);
            if let Some(reserved) = reserved {
                asked = true;
                let submitted = self.submit(Arc::clone(self) as _, &reserved);
                if reserved.alone && !helps {
                    submitted?;
                }
            } else if sleeps {
                let nap = if stalls || wants_more {
                    Some(nap.map_or(patience, |nap| nap.min(patience)))
                } else {
                    nap
                };
                spreads = !doze(&parker, nap);
                if spreads {
                    patience = (patience * 2).min(LONGEST_PATIENCE);
                }
                asked = false;
            } else if left {
                self.help(B::start);
                asked = false;
            } else {
                // Step D7.
                self.submit_at(idle);
                spreads = false;
            }
        }
    }

    /// Submits drain tasks that were reserved in those lanes.
    fn submit_at(self: &Arc<Self>, lanes: Vec<usize>) {
        for lane in lanes {
            let reserved = Reserved {
                lane,
                alone: false,
                waits: false,
            };
            let _ = self.submit(Arc::clone(self) as _, &reserved);
        }
    }

    /// As [`wait`](Self::wait), for a future's `poll`. `submission` is the caller's, from poll to
    /// poll: the drain task that waits for room, while there is no other.
    ///
    /// # Errors
    /// There is a piece, no drain task, and the pool refused one; or the process was forked.
    #[cfg(feature = "stream")]
    pub(crate) fn poll<T>(
        self: &Arc<Self>,
        submission: &mut Option<Submission>,
        context: &mut Context<'_>,
        mut take: impl FnMut(&mut B) -> Option<T>,
    ) -> Poll<Result<T, SubmitError>> {
        let (mut asked, mut spreads) = (false, true);
        loop {
            self.process.check(SubmitError::Forked(()))?;
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
            let reserved = if submission.is_some() || asked && state.lanes.drainers() > 0 {
                None
            } else {
                state.reserve(&self.site, true)
            };
            let idle = if spreads && reserved.is_none() && submission.is_none() && state.stalls() {
                state.lanes.reserve_at_idle_members()
            } else {
                Vec::new()
            };
            let sleeps = reserved.is_none() && idle.is_empty();
            let unneeded = if sleeps {
                state.owner_helps = false;
                state.owner.replace(waiter)
            } else {
                Some(waiter)
            };
            drop(state);
            drop_quietly((previous, unneeded));
            match reserved {
                Some(Reserved {
                    lane, waits: true, ..
                }) => {
                    let task = DrainTask::new(Arc::clone(self) as _, lane);
                    *submission = Some(Arc::clone(&self.site.submitter).submit_async(task));
                }
                Some(reserved) => {
                    asked = true;
                    let _ = self.submit(Arc::clone(self) as _, &reserved);
                }
                None if sleeps => return Poll::Pending,
                None => {
                    // Step D7. At once: a future has no naps.
                    self.submit_at(idle);
                    spreads = false;
                }
            }
        }
    }
}

/// Whether less real time than that has passed since it was first asked. Not by the pool's clock,
/// which may stand still: it is a bound on how late a result may be. In a model no time passes.
pub(crate) fn within(limit: Duration, since: &mut Option<Instant>) -> bool {
    #[cfg(not(anthill_loom))]
    {
        let now = MonotonicClock.now();
        now.saturating_duration_since(*since.get_or_insert(now)) < limit
    }
    #[cfg(anthill_loom)]
    {
        let _ = (limit, since);
        true
    }
}

/// Sleeps until the owner is woken, or for the nap. Whether it was woken.
fn doze(parker: &Parker, nap: Option<Duration>) -> bool {
    match nap {
        // Not by the pool's clock, which may stand still: it is no deadline, but a bound on how
        // late a result may be.
        #[cfg(not(anthill_loom))]
        Some(nap) => {
            let clock = MonotonicClock;
            clock.park_until(parker, clock.now() + nap)
        }
        _ => {
            parker.park();
            true
        }
    }
}
