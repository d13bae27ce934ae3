//! The pool as single-threaded arithmetic: the state that it must reach once every worker is at
//! rest, parked or at its task's gate.
//!
//! The model has no locks, wake-ups or tombstones, and uses only the vocabulary of the crate. Every
//! figure must be equal.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use pool_core::WithinWorker;

use super::figures::{Counts, End, Expected, Figures, Patience};
use super::given::{CANCELLED, Given, Known, Ready};
use super::group::Group;
use super::job::Id;
use super::permits::Request;
use super::program::Settings;
use super::subject::Why;

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(super) settings: Settings,
    pub(crate) open: bool,
    pub(crate) paused: bool,
    /// `usize::MAX`: unlimited.
    pub(super) capacity: usize,
    pub(super) depth: usize,
    /// Time since the beginning.
    pub(super) now: Duration,
    pub(crate) threads_refused: bool,
    pub(super) live: usize,
    /// Busy workers, by the task popped from the queue: the tasks that run in place within it,
    /// innermost last.
    pub(super) workers: BTreeMap<Id, Vec<Placed>>,
    /// The same for callers that run a task of a full pool and are not workers.
    pub(super) callers: BTreeMap<Id, Vec<Placed>>,
    /// Tasks that wait in the wait queue for the room of another task.
    pub(super) blocked: BTreeSet<Id>,
    pub(super) queue: Ready,
    /// The options of each task.
    pub(super) known: BTreeMap<Id, Known>,
    pub(super) line: VecDeque<Waiter>,
    /// Permits in use, by the task that each is for.
    pub(super) permits: BTreeSet<Id>,
    pub(super) group: Group,
    /// Longest idle first.
    pub(super) idle: Vec<Idle>,
    /// The stage of each accepted spawn.
    pub(super) spawns: BTreeMap<Id, Stage>,
    pub(super) counts: Counts,
    /// Answers that have become due and were not taken yet.
    pub(super) answers: Vec<(Id, Expected)>,
    /// Joins within tasks that have ended and were not taken yet.
    pub(super) joins: Vec<(Id, End)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) id: Id,
    pub(super) by: Place,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Hand {
        spawn: bool,
    },
    /// Runs in the caller of a full pool. It is in flight.
    Caller {
        spawn: bool,
    },
    Join,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) id: Id,
    pub(super) request: Request,
    pub(super) deadline: Option<Duration>,
    /// Its waker is called when it gets room.
    pub(super) is_future: bool,
    /// The waiting task, if a task made the call.
    pub(super) within: Option<Id>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) since: Duration,
    /// It sleeps until its keep-alive has passed, not until it is notified.
    pub(super) timed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Queued,
    Started,
    Ended(End),
}

impl Model {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut model = Self {
            settings,
            open: true,
            paused: false,
            capacity: settings.capacity.unwrap_or(usize::MAX),
            depth: settings.depth.unwrap_or(usize::MAX),
            now: Duration::ZERO,
            threads_refused: false,
            live: 0,
            workers: BTreeMap::new(),
            callers: BTreeMap::new(),
            blocked: BTreeSet::new(),
            queue: Ready::new(settings.priorities),
            known: BTreeMap::new(),
            line: VecDeque::new(),
            permits: BTreeSet::new(),
            group: Group::default(),
            idle: Vec::new(),
            spawns: BTreeMap::new(),
            counts: Counts::default(),
            answers: Vec::new(),
            joins: Vec::new(),
        };
        for _ in 0..settings.min_workers.max(settings.prestart) {
            assert!(model.start(), "no start is refused yet");
            model.work();
        }
        model.settle();
        model
    }

    /// Submits a task from `within`, a task that waits at its gate, or from a new thread.
    pub(crate) fn hand(
        &mut self,
        id: Id,
        given: Given,
        patience: Patience,
        spawn: bool,
        within: Option<Id>,
    ) {
        let refuse = |model: &mut Self, why| model.refuse(id, why);
        let start_before = given.within.map(|within| self.now + within);
        let own = within.filter(|&outer| !self.is_in_caller(outer));
        let runs_in_caller = matches!(patience, Patience::RunInCaller)
            && self.may_run_in_caller(within)
            && !matches!(
                (self.settings.within_worker, own),
                (WithinWorker::Refuse, Some(_))
            );
        self.know(id, given);
        if given.token == Some(CANCELLED) {
            refuse(self, Why::Cancelled);
        } else if !self.open {
            refuse(self, Why::Released);
        } else if self.has_room() {
            if !self.enter(|model| model.accept(id, spawn)) {
                if runs_in_caller {
                    return self.run_in_caller(id, spawn, within);
                }
                return refuse(self, Why::NoThread);
            }
            self.rouse();
        } else {
            if runs_in_caller {
                return self.run_in_caller(id, spawn, within);
            }
            let blocking = matches!(patience, Patience::Thread(_) | Patience::RunInCaller);
            let deadline = match patience {
                Patience::None => return refuse(self, Why::Full),
                Patience::RunInCaller => start_before,
                Patience::DiscardOldest => {
                    return self.discard(self.queue.oldest_of_lowest(), id, spawn);
                }
                Patience::DiscardNewest => return self.discard(None, id, spawn),
                Patience::Thread(timeout) => {
                    let deadline = timeout.map(|timeout| self.now + timeout);
                    deadline.into_iter().chain(start_before).min()
                }
                Patience::Future => None,
            };
            match (self.settings.within_worker, own) {
                (WithinWorker::RunInPlace, Some(outer)) if blocking => {
                    let limit = self.settings.nesting_limit as usize;
                    let (_, nested) = self.stack_of(outer);
                    if nested.len() >= limit {
                        return refuse(self, Why::Full);
                    }
                    let by = Place::Hand { spawn };
                    nested.push(Placed { id, by });
                    self.counts.submitted += 1;
                    if spawn {
                        self.spawns.insert(id, Stage::Started);
                    }
                }
                (WithinWorker::Refuse, Some(_)) if blocking => refuse(self, Why::Full),
                _ if self.line.len() >= self.settings.max_waiting.unwrap_or(usize::MAX) => {
                    refuse(self, Why::Full);
                }
                _ => {
                    self.blocked.extend(within);
                    self.line.push_back(Waiter {
                        id,
                        request: Request::Task { spawn },
                        deadline,
                        is_future: matches!(patience, Patience::Future),
                        within,
                    });
                }
            }
        }
        self.settle();
    }

    /// Whether the caller runs its task at a full pool.
    fn may_run_in_caller(&mut self, within: Option<Id>) -> bool {
        let depth = within.map_or(0, |outer| {
            let base = u32::from(self.is_in_caller(outer));
            let nested = self.stack_of(outer).1.len();
            base + u32::try_from(nested).expect("programs are short")
        });
        depth < self.settings.nesting_limit && !self.paused
    }

    fn run_in_caller(&mut self, id: Id, spawn: bool, within: Option<Id>) {
        self.counts.submitted += 1;
        if spawn {
            self.spawns.insert(id, Stage::Started);
        }
        let own = within.is_some_and(|outer| !self.is_in_caller(outer));
        let by = match self.settings.within_worker {
            WithinWorker::RunInPlace if own => Place::Hand { spawn },
            _ => Place::Caller { spawn },
        };
        match within {
            Some(outer) => self.stack_of(outer).1.push(Placed { id, by }),
            None => _ = self.callers.insert(id, Vec::new()),
        }
        self.settle();
    }

    /// Whether the task is the innermost one on the stack of a caller that is not a worker.
    fn is_in_caller(&self, id: Id) -> bool {
        self.callers.iter().any(|stack| innermost(stack) == id)
    }

    /// Whether a join within a task neither waits for another worker nor leaves a tombstone in a
    /// queue with levels.
    pub(crate) fn may_join_within(&self, outer: Id, id: Id) -> bool {
        let in_place = !self.is_in_caller(outer) && !self.runs(id) && !self.leaves_a_tombstone(id);
        in_place || self.end_of(id).is_some()
    }

    /// A full pool discards a queued task and accepts the new one, or discards the new one.
    fn discard(&mut self, other: Option<Id>, id: Id, spawn: bool) {
        self.accept(id, spawn);
        let gone = other.unwrap_or(id);
        self.queue.remove(gone);
        self.counts.discarded += 1;
        self.show_end(gone, End::Discarded);
    }

    /// A task at its gate joins a spawned one. An unstarted task runs in place, down to the nesting
    /// limit.
    pub(crate) fn join_within(&mut self, outer: Id, id: Id) {
        let limit = self.settings.nesting_limit as usize;
        let nested = self.stack_of(outer).1.len();
        match self.spawns[&id] {
            Stage::Queued if nested >= limit => {
                self.joins.push((id, End::Refused));
            }
            Stage::Queued if let Some(end) = self.unstarted(id) => {
                self.joins.push((id, end));
                self.count(end);
                self.show_end(id, end);
                self.leave_queue(id);
            }
            Stage::Queued => {
                let by = Place::Join;
                self.stack_of(outer).1.push(Placed { id, by });
                self.spawns.insert(id, Stage::Started);
                self.leave_queue(id);
            }
            Stage::Ended(end) => self.joins.push((id, end)),
            Stage::Started => unreachable!("such a join would block, so no program does it"),
        }
        self.settle();
    }

    /// The task's handle takes it out of the queue, and frees its room.
    fn leave_queue(&mut self, id: Id) {
        self.queue.remove(id);
        self.admit();
        self.rouse();
    }

    /// Lets a task at its gate end.
    pub(crate) fn finish(&mut self, id: Id, panics: bool) {
        let end = if panics {
            self.counts.panicked += 1;
            End::Panicked
        } else {
            self.counts.completed += 1;
            End::Value
        };
        self.show_end(id, end);
        let (worker, nested) = self.stack_of(id);
        if let Some(Placed { id, by }) = nested.pop() {
            match by {
                Place::Hand { spawn } | Place::Caller { spawn } => {
                    self.answers.push((id, Expected::Accepted { spawn }));
                }
                Place::Join => self.joins.push((id, end)),
            }
        } else if self.callers.remove(&id).is_some() {
            let spawn = self.spawns.contains_key(&id);
            self.answers.push((id, Expected::Accepted { spawn }));
        } else {
            self.workers.remove(&worker);
            self.free_room();
            self.work();
            self.rouse();
        }
        self.settle();
    }

    /// Returns whether the task was still cancellable.
    pub(crate) fn cancel(&mut self, id: Id) -> bool {
        let in_time = self.spawns[&id] == Stage::Queued;
        if in_time {
            self.counts.cancelled += 1;
            self.show_end(id, End::Cancelled);
            self.leave_queue(id);
            self.settle();
        }
        in_time
    }

    /// If queued tasks will not start any more, and other workers than the one that ends its task
    /// may pop them, their number is a race. Programs avoid that.
    pub(crate) fn may_spoil(&self) -> bool {
        let none_waits = self.queue.is_empty() && self.line.is_empty();
        none_waits || !self.paused && self.live >= self.capacity
    }

    /// Whether a task that is or may be queued will not start after that time.
    pub(crate) fn is_spoilt_after(&self, by: Duration) -> bool {
        let is_spoilt = |id| self.known[&id].unstarted(self.now + by).is_some();
        let in_line = self.line.iter().map(|waiter| waiter.id);
        self.queue.ids().chain(in_line).any(is_spoilt)
    }

    /// Cancels a token. Queued tasks with the token do not start, and waiting tasks are returned.
    pub(crate) fn cancel_token(&mut self, token: usize) -> Vec<Id> {
        for known in self.known.values_mut() {
            if known.token == Some(token) {
                known.cancelled = true;
                known.token = None; // A new token takes its index.
            }
        }
        let (gone, rest): (VecDeque<_>, _) = self
            .line
            .drain(..)
            .partition(|waiter| self.known[&waiter.id].cancelled);
        self.line = rest;
        let ids = gone.iter().map(|waiter| waiter.id).collect();
        for waiter in gone {
            self.turn_away(waiter, Why::Cancelled);
        }
        self.settle();
        ids
    }

    /// Drops the future of a waiting task.
    pub(crate) fn withdraw(&mut self, id: Id) {
        let before = self.line.len();
        self.line.retain(|waiter| waiter.id != id);
        assert_eq!(self.line.len() + 1, before, "{id} was waiting");
        self.counts.refused += 1;
    }

    /// Returns `false` if the capacity is invalid.
    pub(crate) fn tune(&mut self, capacity: Option<usize>) -> bool {
        if capacity == Some(0) || (capacity.is_none() && self.settings.preallocate) {
            return false;
        }
        self.capacity = capacity.unwrap_or(usize::MAX);
        let surplus = self.live.saturating_sub(self.capacity);
        self.retire_oldest(surplus.min(self.idle.len()));
        self.admit();
        self.rouse();
        self.settle();
        true
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.now += by;
        self.settle();
        if self.is_coarse() {
            self.retire_above_floor();
        }
    }

    /// A paused pool's queue keeps a worker from expiring, and an observer cannot tell when that
    /// worker has parked without a time limit. So programs pause only pools whose workers never
    /// expire.
    pub(crate) fn may_pause(&self) -> bool {
        self.settings.keep_alive.is_none()
    }

    pub(crate) fn pause(&mut self) -> bool {
        let pauses = self.open && !self.paused;
        self.paused |= pauses;
        pauses
    }

    pub(crate) fn resume(&mut self) -> bool {
        let was_paused = std::mem::replace(&mut self.paused, false);
        if was_paused {
            self.rouse();
        }
        was_paused
    }

    /// Whether it is a race which workers a release retires: those that it does not notify, and it
    /// notifies no other worker while one is still parking.
    pub(crate) fn is_race_which_are_let_go(&self) -> bool {
        self.paused && !self.queue.is_empty() && !self.idle.is_empty()
    }

    pub(crate) fn release(&mut self) -> bool {
        self.resume();
        let was_open = std::mem::replace(&mut self.open, false);
        if was_open {
            for waiter in std::mem::take(&mut self.line) {
                self.turn_away(waiter, Why::Released);
            }
            self.let_idle_go();
        }
        was_open
    }

    /// Returns the returned tasks, oldest first.
    pub(crate) fn release_now(&mut self) -> Vec<Id> {
        self.release();
        let back = self.queue.take_all();
        self.counts.released += back.len() as u64;
        for &id in &back {
            self.show_end(id, End::Released);
        }
        back
    }

    pub(crate) fn reboot(&mut self) -> bool {
        !std::mem::replace(&mut self.open, true)
    }
}

/// The observable state.
impl Model {
    pub(crate) fn figures(&self) -> Figures {
        let on_clock = self.idle.iter().filter(|idle| idle.timed).count()
            + self.line.iter().filter(|w| w.deadline.is_some()).count();
        Figures {
            open: self.open,
            paused: self.paused,
            capacity: self.capacity,
            live: self.live,
            busy: self.workers.len(),
            in_flight: self.in_flight(),
            reserved: self.permits.len(),
            queued: self.queue.len(),
            waiting: self.line.len(),
            counts: self.counts,
            retired: self.counts.started - self.live as u64,
            at_gates: self.at_gates(),
            sleepers: (!self.is_coarse()).then_some(on_clock),
        }
    }

    /// Tasks that hold room.
    fn occupied(&self) -> usize {
        self.workers.len() + self.queue.len()
    }

    /// Tasks and permits that hold room.
    pub(super) fn holding_room(&self) -> usize {
        self.occupied() + self.permits.len()
    }

    /// Accepted tasks that have not ended, including those that a join runs in place.
    pub(crate) fn in_flight(&self) -> usize {
        let stacks = self.workers.values().chain(self.callers.values());
        let counted = |placed: &&Placed| !matches!(placed.by, Place::Hand { .. });
        self.occupied() + self.callers.len() + stacks.flatten().filter(counted).count()
    }

    /// The tasks at their gates, in order.
    pub(crate) fn at_gates(&self) -> Vec<Id> {
        let stacks = self.workers.iter().chain(&self.callers);
        let mut ids: Vec<Id> = stacks.map(innermost).collect();
        ids.retain(|id| !self.blocked.contains(id));
        ids.sort_unstable();
        ids
    }

    pub(crate) fn is_waiting(&self, id: Id) -> bool {
        self.line.iter().any(|waiter| waiter.id == id)
    }

    /// The end of a spawned task, if it has ended.
    pub(crate) fn end_of(&self, id: Id) -> Option<End> {
        match self.spawns[&id] {
            Stage::Ended(end) => Some(end),
            Stage::Queued | Stage::Started => None,
        }
    }

    /// Whether a join within a task would wait for another worker.
    fn runs(&self, id: Id) -> bool {
        self.spawns[&id] == Stage::Started
    }

    /// Whether a cancel leaves an entry in a queue with levels. Until it is popped, its level
    /// counts as nonempty and is passed over.
    pub(crate) fn leaves_a_tombstone(&self, id: Id) -> bool {
        self.settings.priorities && self.spawns[&id] == Stage::Queued
    }

    pub(crate) fn has_ended(&self) -> bool {
        !self.open && self.live == 0 && self.callers.is_empty()
    }

    pub(crate) fn take_answers(&mut self) -> Vec<(Id, Expected)> {
        std::mem::take(&mut self.answers)
    }

    pub(crate) fn take_joins(&mut self) -> Vec<(Id, End)> {
        std::mem::take(&mut self.joins)
    }

    /// If workers are kept without a time limit, an observer cannot tell when they have parked. So
    /// time is advanced until all others have expired.
    pub(crate) fn is_coarse(&self) -> bool {
        self.settings.min_workers > 0 && self.settings.keep_alive.is_some()
    }

    /// Invariants of every pool at rest.
    pub(crate) fn check(&self) {
        let limit = self.capacity.saturating_add(self.depth);
        assert!(self.line.is_empty() || self.holding_room() >= limit);
        assert!(self.permits.is_empty() || self.live > 0);
        assert!(self.live <= self.capacity.max(self.workers.len()));
        assert!(
            self.queue.is_empty() || self.live > 0,
            "there are queued tasks and no worker"
        );
        assert!(self.paused || self.queue.is_empty() || self.idle.is_empty());
        let ended = self.counts.completed
            + self.counts.panicked
            + self.counts.cancelled
            + self.counts.released
            + self.counts.discarded
            + self.counts.expired;
        assert!(ended <= self.counts.submitted);
    }
}

/// The task that waits at its gate.
pub(super) fn innermost((&outer, nested): (&Id, &Vec<Placed>)) -> Id {
    nested.last().map_or(outer, |placed| placed.id)
}
