//! A queue of small pieces of work, drained by a few tasks of a pool.
//!
//! Mappings and scopes submit many small pieces that belong together. A task per piece would pay the
//! pool's cost for each of them, and unstarted pieces could not be removed in one section. So the pieces
//! are in a [`SubQueue`]. At most as many *drain tasks* as the pool has workers are submitted to the pool,
//! and each runs one piece after the other. folly's `MeteredExecutor` and the target queues of Grand
//! Central Dispatch drain a queue on a parent executor in the same way.
//!
//! A drain task has *turns*. When a turn is over and other tasks wait for a worker, the drain task goes to
//! the end of the pool's queue. If the pool is full, the drain task ends, and the owner submits another. So
//! a long mapping and other tasks share the pool. A turn lasts a millisecond plus the piece that is running
//! then. The clock is read after every piece only while other tasks want the worker. Otherwise it is read
//! after 1, 2, 4, .. pieces, to compute the length of the next turn.
//!
//! A drain task that finds no piece searches for some microseconds before it ends. Otherwise each of
//! several pieces that are added one by one would wake a worker.
//!
//! As many drain tasks run pieces as the processor can run (`crew.rs`): one per core while the pieces compute, up to the
//! pool's workers while they sleep.
//!
//! Each member of a multi-pool has its own drain tasks (`lanes.rs`). So a drain task in the queue of a
//! member whose workers are blocked does not keep other members from the pieces.
//!
//! The [`Backlog`] defines the pieces and their results.
//!
//! # Invariants, whenever the lock is free
//! 1. The lanes count the drain tasks that were reserved or submitted and have not ended. They count as
//!    *starting* the drain tasks that have not looked for a piece yet.
//! 2. A drain task that searches for a late piece counts as starting. A drain task uncounts itself only in
//!    a section that found no piece, in a section that wakes the owner if pieces are left and it was the
//!    last drain task, or if its pool has more drain tasks than workers.
//! 3. While the owner sleeps, nothing is ready, and there is a drain task if any piece has not started. An
//!    owner that helps sleeps only if all pieces have started.
//! 4. User code (pieces, values, wakers, clocks, strategies) is called and dropped without a lock.
//! 5. A piece that has started is settled, even if it panics: only [`SubQueue::run_one`] runs pieces, and it
//!    catches the panics of all code that a piece calls.

use std::mem;
use std::sync::Arc;
#[cfg(feature = "stream")]
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

#[cfg(not(anthill_loom))]
use backoff_spinlock::{SpinGuard as LockGuard, SpinLock as Lock};
use pool_core::SubmitError;
use pool_core::internals::{Demand, PoolHandle, Search, Searches, TaskContext};
use sync_shim::atomic::AtomicBool;
use sync_shim::atomic::Ordering::Relaxed;
use sync_shim::foreign::{Payload, discard, drop_quietly, guarded};
use sync_shim::thread::SystemThread;
use sync_shim::waiter::Waiter;
#[cfg(not(anthill_loom))]
use sync_shim::{Clock, MonotonicClock};
#[cfg(anthill_loom)]
use sync_shim::{Mutex as Lock, MutexGuard as LockGuard};
use sync_shim::{Parker, Process};

mod crew;
mod drain_task;
mod lanes;
mod site;
mod stack;
#[cfg(all(test, not(anthill_loom)))]
pub(crate) mod tests;

use crew::{Crew, NAP};
use drain_task::Drain;
use drain_task::DrainTask;
use lanes::Lanes;
pub(crate) use site::Site;
#[cfg(feature = "stream")]
pub(crate) use site::Submission;
use stack::Runs;

/// Length of a turn. Other tasks wait at most this long for a worker, plus the length of one piece.
const TURN: Duration = Duration::from_millis(1);
/// Most pieces in a turn: the cost of ending a turn is negligible for this many. In a model it is 1, so that
/// turns end while pieces are left.
const LONGEST_TURN: usize = if cfg!(anthill_loom) { 1 } else { 64 };
/// First nap of the owner before it submits a drain task again to a pool that refused one, or to the other
/// members of a multi-pool while a member is busy. Each further nap is twice as long.
const PATIENCE: Duration = Duration::from_millis(1);
/// Longest nap.
const LONGEST_PATIENCE: Duration = Duration::from_millis(64);

/// Contents of a sub-queue, under its lock: pieces that have not started, and results of the others.
pub(crate) trait Backlog {
    /// Work for one call on one thread.
    type Piece;
    /// Identifies a started piece.
    type Number: Copy + Send;
    /// Result of a piece.
    type Done;
    /// Values to drop without the lock.
    type Garbage;

    /// Number of pieces that have not started.
    fn pending(&self) -> usize;
    /// Starts the next piece.
    fn start(&mut self) -> Option<(Self::Number, Self::Piece)>;
    /// Result of a piece that panicked.
    fn panicked(payload: Payload, context: &TaskContext) -> Self::Done;
    /// Records the result of a started piece.
    fn settle(&mut self, number: Self::Number, done: Self::Done) -> Self::Garbage;
    /// Whether the owner has to be woken.
    fn is_ready(&self) -> bool;
}

/// A started piece.
pub(crate) type Started<B> = (<B as Backlog>::Number, <B as Backlog>::Piece);

/// Runs a piece.
pub(crate) type Run<B> =
    dyn Fn(<B as Backlog>::Piece, &TaskContext) -> <B as Backlog>::Done + Send + Sync;

/// A queue on a pool, or on the members of a multi-pool.
pub(crate) struct SubQueue<B: Backlog> {
    state: Lock<State<B>>,
    /// Hint for drain tasks that search for a piece.
    work: AtomicBool,
    run: Box<Run<B>>,
    site: Site,
    process: Process,
}

struct State<B> {
    backlog: B,
    lanes: Lanes,
    crew: Crew,
    /// Most pieces in the next turn.
    turn: usize,
    /// Adapts the searches for late pieces.
    searches: Searches,
    /// A drain task has found the pool released.
    closed: bool,
    /// The waiter of a sleeping owner.
    owner: Option<Waiter>,
    /// Whether the sleeping owner runs pieces when it is woken.
    owner_helps: bool,
}

impl<B: Backlog> State<B> {
    /// Reserves a drain task if there are more pending pieces than starting drain tasks, and the crew has use for it.
    /// With `may_wait`, the caller waits for room for the only drain task. At a full pool, one more drain task waits at a time.
    fn reserve(&mut self, site: &Site, may_wait: bool) -> Option<Reserved> {
        let alone = self.lanes.drainers() == 0;
        let waits = may_wait && alone;
        // The first one does not wait by itself: it would outlast an owner that ran all pieces.
        let may_enter = waits || !alone && self.lanes.starting() == 0;
        if !self.has_use() || !may_enter && !site.may_have_room() {
            return None;
        }
        let mut lane = self.lanes.reserve(|lane| site.member(lane).has_worker())?;
        if waits {
            lane = self.lanes.reserved_anywhere(lane);
        }
        Some(Reserved { lane, alone, waits })
    }

    /// Step D2: the next piece of a drain task, or a search for a late piece.
    fn next(&mut self, lane: usize, work: &AtomicBool) -> After<Started<B>> {
        if let Some(piece) = self.backlog.start() {
            return After::Next(piece);
        }
        self.lanes.restart(lane);
        work.store(false, Relaxed); // A hint; the lock is held.
        After::Dry(self.searches.begin())
    }

    /// Whether a piece has no drain task that is about to look for it, and the crew has use for another.
    fn has_use(&self) -> bool {
        let starting = self.lanes.starting();
        self.backlog.pending() > starting && self.crew.has_use(self.lanes.drainers(), starting)
    }

    /// Takes the owner's waiter if the owner has to be woken.
    fn wake(&mut self) -> Option<Waiter> {
        let left = self.backlog.pending() > 0 && (self.owner_helps || self.lanes.drainers() == 0);
        if left || self.backlog.is_ready() {
            self.owner.take()
        } else {
            None
        }
    }

    /// Adapts the length of the next turn to the time that the last one took.
    fn end_turn(&mut self, took: Duration) {
        if took < TURN / 2 {
            self.turn = (self.turn * 2).min(LONGEST_TURN);
        } else if took > TURN {
            self.turn = (self.turn / 2).max(1);
        }
    }

    /// Whether a piece has no drain task although another is allowed: the pool refused one, or has grown.
    fn wants_more(&self) -> bool {
        self.has_use() && self.lanes.have_space()
    }

    /// Whether no drain task is left for the pieces that have not started.
    fn is_deserted(&self) -> bool {
        self.backlog.pending() > 0 && self.lanes.drainers() == 0
    }

    /// Whether a piece waits for a member that may be blocked while another member has no drain task.
    fn stalls(&self) -> bool {
        self.backlog.pending() > 0 && self.lanes.has_idle_member()
    }
}

/// Whether a waiting owner runs pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helps {
    /// On a worker of the pool.
    OnWorker,
    /// On any thread.
    Always,
    /// On any thread, and without submitting drain tasks, so that no user code runs except the pieces.
    Alone,
}

/// A turn of a drain task.
struct Turn {
    /// Lane of the worker's pool.
    lane: usize,
    thread: SystemThread,
    /// Most pieces.
    length: usize,
    /// Number of pieces that have ended.
    ended: usize,
    began: Option<Instant>,
    /// Time from `began` to the last reading of the clock.
    took: Duration,
}

impl Turn {
    /// Counts a piece that has ended. Returns whether the turn may continue.
    fn goes_on(&mut self, is_wanted: bool, now: impl FnOnce() -> Option<Instant>) -> bool {
        self.ended += 1;
        let is_last = self.ended >= self.length;
        if is_wanted || is_last || self.ended.is_power_of_two() {
            // If the clock panics, a turn has one piece.
            let times = now().zip(self.began);
            self.took = times.map_or(Duration::MAX, |(now, began)| {
                now.saturating_duration_since(began)
            });
        }
        !is_last && self.took <= TURN
    }
}

/// Next step of a drain task.
enum After<P> {
    Next(P),
    /// No piece is pending. The drain task is counted as starting.
    Dry(Search),
    Ended,
    TurnOver,
}

/// A reserved drain task.
struct Reserved {
    lane: usize,
    /// Whether it is the only drain task.
    alone: bool,
    /// Whether it waits for room, at any member.
    waits: bool,
}

impl<B: Backlog<Piece: Send> + Send + 'static> Runs<Started<B>> for SubQueue<B> {
    fn run(&self, piece: Started<B>) {
        self.run_one(piece, None);
    }
}

impl<B: Backlog<Piece: Send> + Send + 'static> Drain for SubQueue<B> {
    fn drain(&self, this: &Arc<dyn Drain>, lane: usize, context: &TaskContext) {
        let (mut turn, mut next) = self.begin(this, lane, context);
        loop {
            next = match next {
                After::Next(piece) => self.run_one(piece, Some(&mut turn)),
                After::TurnOver => self.end_turn(this, &mut turn),
                After::Dry(search) => self.search(this, &turn, search),
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
        // A sleeping owner relied on this drain task, and has to submit another.
        let owner = if state.wants_more() {
            state.owner.take()
        } else {
            state.wake()
        };
        drop(state);
        // USER CODE: the owner's waker. After the unlock. A panic ends there.
        owner.into_iter().for_each(Waiter::wake);
    }
}

impl<B: Backlog> SubQueue<B> {
    pub(crate) fn new(site: Site, backlog: B, run: Box<Run<B>>) -> Arc<Self> {
        let lanes = Lanes::new(site.limits());
        let crew = Crew::new(site.cores);
        Arc::new(Self {
            state: Lock::new(State {
                backlog,
                lanes,
                crew,
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

    /// The process that created the queue.
    pub(crate) fn process(&self) -> Process {
        self.process
    }

    /// Called before an owner that helps pulls its source. Returns whether a piece has not started, and no worker may take
    /// it while the caller blocks: no drain task has begun, and each one that is about to begin waits for a busy worker.
    pub(crate) fn is_stranded(&self) -> bool {
        if !self.process.is_current() {
            return false;
        }
        let state = self.state.lock();
        if state.backlog.pending() == 0 || state.lanes.is_live() {
            return false;
        }
        let lanes: Vec<usize> = state.lanes.starting_lanes().collect();
        drop(state);
        lanes
            .into_iter()
            .all(|lane| self.site.member(lane).is_saturated())
    }

    /// Called before an owner that does not help pulls its source. Returns whether a piece has not started, and has no
    /// drain task.
    pub(crate) fn is_deserted(&self) -> bool {
        if !self.process.is_current() {
            return false;
        }
        self.state.lock().is_deserted()
    }

    /// Accesses the backlog. No drain task is submitted for pieces that `look` adds: the caller runs them.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut B) -> T) -> T {
        look(&mut self.state.lock().backlog)
    }

    /// Last access of an owner. Returns its waiter, which the caller drops without the lock.
    pub(crate) fn leave<T>(&self, look: impl FnOnce(&mut B) -> T) -> (T, Option<Waiter>) {
        let mut state = self.state.lock();
        (look(&mut state.backlog), state.owner.take())
    }

    /// Changes the backlog, and wakes the owner if it is ready.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut B) -> T) -> T {
        let mut state = self.state.lock();
        let changed = change(&mut state.backlog);
        let owner = state.wake();
        drop(state);
        // USER CODE: the owner's waker. After the unlock. A panic ends there.
        owner.into_iter().for_each(Waiter::wake);
        changed
    }

    /// Returns the most pieces of a turn (1 if pieces take long) and the most workers.
    pub(crate) fn pace(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.turn, state.lanes.limit())
    }
}

impl<B: Backlog<Piece: Send> + Send + 'static> SubQueue<B> {
    /// Runs a piece, catches its panic, and settles it. If the turn continues, the same section takes the
    /// next piece.
    fn run_one(&self, (number, piece): Started<B>, turn: Option<&mut Turn>) -> After<Started<B>> {
        let context = self.site.pool.context();
        // USER CODE: the piece: a mapping's function with an item, or a scope's task. A panic is the piece's outcome.
        let ran = guarded(|| (self.run)(piece, context));
        let done = ran.unwrap_or_else(|payload| B::panicked(payload, context));
        if !self.process.is_current() {
            mem::forget(done); // The owner is in the parent process.
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
        state.crew.note_progress();
        let next = lane.map_or(After::TurnOver, |lane| state.next(lane, &self.work));
        let owner = state.wake();
        drop(state);
        // USER CODE: the owner's waker. After the unlock. A panic ends there.
        owner.into_iter().for_each(Waiter::wake);
        // USER CODE: the drop of a result that nobody takes. After the unlock.
        drop_quietly(garbage);
        next
    }

    /// Begins a drain task and its first turn.
    fn begin(
        &self,
        this: &Arc<dyn Drain>,
        lane: usize,
        context: &TaskContext,
    ) -> (Turn, After<Started<B>>) {
        let here = self.site.lane_of(context);
        let mut turn = Turn {
            lane: here,
            thread: SystemThread::current(),
            length: 0,
            ended: 0,
            began: None,
            took: Duration::ZERO,
        };
        let mut state = self.state.lock();
        state.lanes.begin(lane, here);
        turn.length = state.turn;
        // Step D8.
        let has_place = !state.lanes.has_too_many(here);
        let next = if has_place && state.crew.join(turn.thread) {
            self.take_first(this, &turn, state)
        } else if has_place && state.crew.begin_to_scout(&Parker::of_thread()) {
            drop(state);
            self.scout(this, &turn)
        } else {
            state.lanes.end(here);
            After::Ended
        };
        turn.began = self.site.now();
        (turn, next)
    }

    /// The first piece of a drain task that was counted as starting and is in the crew. Before it runs, more drain tasks
    /// are submitted, up to the next scout: the piece may wait for others that have not started, and who added them relied
    /// on the drain task that was starting.
    fn take_first(
        &self,
        this: &Arc<dyn Drain>,
        turn: &Turn,
        mut state: LockGuard<'_, State<B>>,
    ) -> After<Started<B>> {
        let Some(piece) = state.backlog.start() else {
            return end(turn, state);
        };
        let has_use = state.has_use();
        drop(state);
        if has_use {
            // A panic must not cost the piece. The owner or the end of a turn submits more.
            guarded(|| self.submit_more(this)).unwrap_or_else(discard);
        }
        After::Next(piece)
    }

    /// Naps until the crew has room, or no piece is left.
    fn scout(&self, this: &Arc<dyn Drain>, turn: &Turn) -> After<Started<B>> {
        let parker = Parker::of_thread();
        loop {
            doze(&parker, Some(NAP));
            let (demand, workers) = self.site.member(turn.lane).wanted();
            let mut state = self.look_at_crew(self.state.lock());
            state.lanes.tune(turn.lane, workers);
            state.closed |= demand == Demand::Released;
            let ends = state.backlog.pending() == 0 || state.lanes.has_too_many(turn.lane);
            // Before it gives way to others: else, among many others, no scout would ever join.
            let joins = !ends && demand != Demand::Paused && state.crew.join(turn.thread);
            if ends || joins {
                state.crew.end_scouting();
            }
            if ends {
                return end(turn, state);
            } else if joins {
                return self.take_first(this, turn, state);
            } else if demand.is_for_worker() {
                state.crew.end_scouting();
                let Some(mut stays) = self.give_way(this, turn, state, |_| true) else {
                    return After::Ended;
                };
                if !stays.crew.begin_to_scout(&parker) {
                    return end(turn, stays);
                }
            }
        }
    }

    /// Adapts the crew to what its threads do, if a look at them is due.
    fn look_at_crew<'a>(&'a self, mut state: LockGuard<'a, State<B>>) -> LockGuard<'a, State<B>> {
        let Some(look) = state.crew.begin_look() else {
            return state;
        };
        drop(state);
        let seen = look.count();
        let mut state = self.state.lock();
        state.crew.end_look(&seen);
        state
    }

    /// Searches for a late piece until other tasks want the worker.
    fn search(&self, this: &Arc<dyn Drain>, turn: &Turn, search: Search) -> After<Started<B>> {
        let lane = turn.lane;
        let member = self.site.member(lane);
        search.look(|| self.work.load(Relaxed) || member.is_wanted());
        let mut state = self.state.lock();
        state.lanes.begin(lane, lane);
        let found = state.backlog.pending() > 0;
        state.searches.learn(search, found);
        self.take_first(this, turn, state)
    }

    /// Ends a turn. Begins the next one unless other tasks want the worker.
    fn end_turn(&self, this: &Arc<dyn Drain>, turn: &mut Turn) -> After<Started<B>> {
        let lane = turn.lane;
        let (demand, workers) = self.site.member(lane).wanted();
        let mut state = self.state.lock();
        state.end_turn(turn.took);
        state.lanes.tune(lane, workers);
        if state.lanes.has_too_many(lane) {
            return end(turn, state);
        }
        state = self.look_at_crew(state);
        if state.crew.has_too_many() {
            let is_needed = state.backlog.pending() > 0 && state.lanes.starting() == 0;
            if !is_needed || !state.crew.begin_to_scout(&Parker::of_thread()) {
                return end(turn, state);
            }
            let _ = state.crew.leave(turn.thread); // The scout is the caller.
            drop(state);
            return self.scout(this, turn);
        }
        if demand.is_for_worker() {
            // A sleeping owner is woken, and submits the next one.
            let may_stay = state.owner.is_none();
            let stays = |state: &State<B>| may_stay && state.is_deserted();
            match self.give_way(this, turn, state, stays) {
                Some(last) => state = last,
                None => return After::Ended,
            }
        }
        if state.wants_more() {
            drop(state);
            self.submit_more(this);
            state = self.state.lock();
        }
        // Pieces added before still run; `push` refuses further ones.
        state.closed |= demand == Demand::Released;
        let next = state.next(lane, &self.work);
        turn.length = state.turn;
        turn.ended = 0;
        drop(state);
        turn.began = self.site.now();
        next
    }

    /// Step D4: leaves the worker to other tasks, and submits a drain task in its place. Returns the lock if a full member of
    /// a multi-pool has refused it and the drain task `stays` then.
    fn give_way<'a>(
        &'a self,
        this: &Arc<dyn Drain>,
        turn: &Turn,
        mut state: LockGuard<'a, State<B>>,
        stays: impl FnOnce(&State<B>) -> bool,
    ) -> Option<LockGuard<'a, State<B>>> {
        state.lanes.restart(turn.lane);
        drop(state);
        // A refused drain task is dropped, which uncounts it and wakes a sleeping owner.
        let next_turn = DrainTask::new(this, turn.lane);
        let accepted = self.site.member(turn.lane).offer(next_turn, true);
        let mut state = self.state.lock();
        if accepted.is_err_and(|refused| refused.is_full()) && stays(&state) {
            state.lanes.recount(turn.lane);
            return Some(state);
        }
        leave(turn, state);
        None
    }

    /// Submits drain tasks for all pieces without one.
    fn submit_more(&self, this: &Arc<dyn Drain>) {
        loop {
            let reserved = self.state.lock().reserve(&self.site, false);
            let accepted = reserved.map(|reserved| self.submit(this, &reserved));
            if !matches!(accepted, Some(Ok(()))) {
                return;
            }
        }
    }

    /// Runs the piece that `take` returns. Returns `false` if there is none.
    ///
    /// The nesting limit does not apply: an owner runs only pieces of its own queue, which nest as calls of the user's
    /// functions do.
    pub(crate) fn help(self: &Arc<Self>, take: impl FnOnce(&mut B) -> Option<Started<B>>) -> bool {
        let piece = take(&mut self.state.lock().backlog);
        let Some(piece) = piece else { return false };
        stack::run(&self.site.pool, self, piece);
        true
    }

    /// Adds a piece, and submits a drain task if another is allowed and the pool has room. Otherwise the
    /// owner runs the piece, or submits a drain task when it waits.
    ///
    /// # Errors
    /// The pool is released. The piece has been added nevertheless.
    pub(crate) fn offer<T>(
        self: &Arc<Self>,
        add: impl FnOnce(&mut B) -> T,
    ) -> Result<T, SubmitError> {
        let (added, reserved) = self.push(false, add)?;
        if let Some(reserved) = reserved {
            let _ = self.submit(&(Arc::clone(self) as _), &reserved);
        }
        Ok(added)
    }

    /// Adds a piece, and submits a drain task if another is allowed. Blocks for room only if there is no
    /// drain task and the caller is not a worker of the pool.
    ///
    /// # Errors
    /// The pool is released, or it refused the first drain task. The piece has been added nevertheless. On
    /// an own worker such a refusal is no error, because the worker runs the piece when it waits.
    pub(crate) fn add<T>(
        self: &Arc<Self>,
        add: impl FnOnce(&mut B) -> T,
    ) -> Result<T, SubmitError> {
        let (added, reserved) = self.push(!self.site.pool.is_own_worker(), add)?;
        if let Some(reserved) = reserved {
            let submitted = self.submit(&(Arc::clone(self) as _), &reserved);
            if reserved.waits {
                submitted?;
            }
        }
        Ok(added)
    }

    /// Adds a piece. Returns the drain task that was reserved for it.
    fn push<T>(
        &self,
        may_wait: bool,
        add: impl FnOnce(&mut B) -> T,
    ) -> Result<(T, Option<Reserved>), SubmitError> {
        self.process.check(SubmitError::Forked(()))?;
        // Step D1.
        let mut state = self.state.lock();
        let added = add(&mut state.backlog);
        let reserved = if state.closed {
            None // The drain tasks that there are run what was added.
        } else {
            state.reserve(&self.site, may_wait)
        };
        let (closed, owner) = (state.closed, state.wake());
        let starting = state.lanes.starting() > 0;
        drop(state);
        if starting {
            self.work.store(true, Relaxed); // A hint: drain tasks look under the lock before they end.
        }
        // USER CODE: the owner's waker. After the unlock. A panic ends there.
        owner.into_iter().for_each(Waiter::wake);
        if closed && reserved.is_none() {
            return Err(SubmitError::Released(()));
        }
        Ok((added, reserved))
    }

    /// Submits a reserved drain task. A refused one is dropped, which uncounts it.
    fn submit(&self, this: &Arc<dyn Drain>, reserved: &Reserved) -> Result<(), SubmitError> {
        let task = DrainTask::new(this, reserved.lane);
        self.site.pool.process().check(SubmitError::Forked(()))?;
        if reserved.waits {
            Arc::clone(&self.site.submitter).submit(task)
        } else {
            // One that is not alone continues the work of the others.
            self.site.member(reserved.lane).offer(task, !reserved.alone)
        }
    }

    /// Blocks until `take` returns a value. Calls it whenever the owner is woken, and after each nap.
    ///
    /// # Errors
    /// A piece is pending, there is no drain task, and the pool refused one; or the process was forked.
    pub(crate) fn wait<T>(
        self: &Arc<Self>,
        helps: Helps,
        nap: Option<Duration>,
        mut take: impl FnMut(&mut B) -> Option<T>,
    ) -> Result<T, SubmitError> {
        let own_worker = self.site.pool.is_own_worker();
        let submits = helps != Helps::Alone;
        let helps = helps != Helps::OnWorker || own_worker;
        let parker = Parker::of_thread();
        let (mut asked, mut patience) = (false, PATIENCE);
        // Whether to submit to members without a drain task now. In a model naps do not end.
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
            // Step D6. Only once per wake-up unless there is no drain task: a released pool refuses more of them.
            let reserved = if !submits || asked && (helps || state.lanes.drainers() > 0) {
                None
            } else {
                state.reserve(&self.site, !helps && !own_worker)
            };
            let stalls = reserved.is_none() && !helps && state.stalls();
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
                let submitted = self.submit(&(Arc::clone(self) as _), &reserved);
                if reserved.alone && !helps {
                    submitted?;
                }
            } else if sleeps {
                let nap = if stalls {
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

    /// Submits the drain tasks that were reserved in `lanes`.
    fn submit_at(self: &Arc<Self>, lanes: Vec<usize>) {
        for lane in lanes {
            let reserved = Reserved {
                lane,
                alone: false,
                waits: false,
            };
            let _ = self.submit(&(Arc::clone(self) as _), &reserved);
        }
    }

    /// Like [`wait`](Self::wait), for a future's `poll`. The caller keeps `submission` between polls: the
    /// only drain task, while it waits for room.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    #[cfg(feature = "stream")]
    pub(crate) fn poll<T>(
        self: &Arc<Self>,
        submission: &mut Option<Submission>,
        context: &mut Context<'_>,
        mut take: impl FnMut(&mut B) -> Option<T>,
    ) -> Poll<Result<T, SubmitError>> {
        let (mut asked, mut spreads) = (false, true);
        // As in `wait`: an own worker must not wait for another one.
        let helps = self.site.pool.is_own_worker();
        loop {
            self.process.check(SubmitError::Forked(()))?;
            if let Some(waiting) = submission
                && let Poll::Ready(submitted) = waiting.as_mut().poll(context)
            {
                *submission = None;
                submitted?;
            }
            // USER CODE: the waker's clone. Before the lock is taken. A panic is the poller's.
            let waiter = Waiter::Task(context.waker().clone());
            let mut state = self.state.lock();
            let previous = state.owner.take();
            if let Some(found) = take(&mut state.backlog) {
                drop(state);
                // USER CODE: the drops of wakers. A panic must not cost the caller what was found.
                drop_quietly((previous, waiter));
                return Poll::Ready(Ok(found));
            }
            if helps && state.backlog.pending() > 0 {
                drop(state);
                // USER CODE: the drops of wakers.
                drop_quietly((previous, waiter));
                self.help(B::start);
                continue;
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
            // USER CODE: the drops of wakers.
            drop_quietly((previous, unneeded));
            match reserved {
                Some(Reserved {
                    lane, waits: true, ..
                }) => {
                    let task = DrainTask::new(&(Arc::clone(self) as _), lane);
                    *submission = Some(Arc::clone(&self.site.submitter).submit_async(task));
                }
                Some(reserved) => {
                    asked = true;
                    let _ = self.submit(&(Arc::clone(self) as _), &reserved);
                }
                None if sleeps => return Poll::Pending,
                None => {
                    // Step D7, at once, because a future has no naps.
                    self.submit_at(idle);
                    spreads = false;
                }
            }
        }
    }
}

/// Uncounts a drain task.
fn end<B: Backlog>(turn: &Turn, mut state: LockGuard<'_, State<B>>) -> After<Started<B>> {
    state.lanes.end(turn.lane);
    leave(turn, state);
    After::Ended
}

/// Takes a drain task out of the crew, and wakes the scout without the lock.
fn leave<B: Backlog>(turn: &Turn, mut state: LockGuard<'_, State<B>>) {
    let scout = state.crew.leave(turn.thread);
    drop(state);
    if let Some(scout) = scout {
        scout.unpark();
    }
}

/// Returns whether less than `limit` has passed since the first call with this `since`. Uses real time,
/// because a manual clock of the pool may stand still. In a model no time passes.
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

/// Sleeps until the thread is woken, or for the nap. Returns whether it was woken.
fn doze(parker: &Parker, nap: Option<Duration>) -> bool {
    match nap {
        // In real time, because a manual clock of the pool may stand still, and results would be late.
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
