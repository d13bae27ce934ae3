//! Every decision of the pool, as arithmetic over one view of its counters.
//!
//! Nothing here locks, waits or touches memory: the caller holds the pool's lock, asks, and acts
//! after unlocking. The property tests ask the same functions, and `PROTOCOL.md` says why the
//! answers leave no task stranded.

use crate::capacity::{UNLIMITED, limit};
use crate::config::OnFull;

/// Workers that are woken at the same time, each by a call to the system. A burst of tasks is not
/// to wait for one after the other to wake up; nor are all of a thousand to be woken for tasks that
/// a few can do meanwhile.
pub(crate) const MOST_NOTIFIED: usize = 4;

/// The pool's counters at one instant, under its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// Not released.
    pub(crate) open: bool,
    /// No queued task is to start. Never of a released pool.
    pub(crate) paused: bool,
    /// Accepted and unfinished: these hold room.
    pub(crate) in_flight: usize,
    /// Permits that are out: these hold room, too.
    pub(crate) reserved: usize,
    /// Taken out unstarted, and not ended yet: these do not.
    pub(crate) disposing: usize,
    /// Accepted and not started.
    pub(crate) queued: usize,
    /// Waiter entries in the wait queue that count as ones that wait: a scheduler's do not.
    pub(crate) waiting: usize,
    /// Waiter entries the wait queue may have.
    pub(crate) max_waiting: usize,
    /// Workers there may be: the pool's capacity, and one for each worker that blocks and says so.
    pub(crate) capacity: usize,
    /// Accepted tasks that may wait beyond the capacity.
    pub(crate) depth: usize,
    /// Started workers that have not ended.
    pub(crate) live: usize,
    /// Of those: looking for work and sure to look at the queue again.
    pub(crate) searching: usize,
    /// Of those: woken for work, and not awake yet.
    pub(crate) notified: usize,
    /// Of those: asleep until woken.
    pub(crate) parked: usize,
    /// Of those: on their way out.
    pub(crate) leaving: usize,
    /// Whether one more is being started at this moment.
    pub(crate) starting: bool,
}

/// May one more task be accepted?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Released,
    /// There is room, but no worker yet: no submit returns `Ok` before one exists.
    FirstWorker,
    Room,
    Full,
}

/// What a pool's workers are wanted for, as a drain task asks at the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Nothing.
    None,
    /// Accepted tasks wait for a worker, or callers for room.
    Others,
    /// The pool is released: it is to end.
    Released,
}

/// What a full pool does with a blocking submit of one of its own workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnWorker {
    /// The caller is no worker of this pool, or own workers wait like any other thread.
    Stranger,
    /// Run the task in place.
    RunInPlace,
    /// Refuse it: the policy says so, or the nesting limit is reached.
    Refuse,
}

/// The caller of a full pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) worker: OwnWorker,
    /// Its thread's nesting has room for another task. A task that runs in its caller submits, and so on: there
    /// is an end to that.
    pub(crate) may_nest: bool,
    /// The same for a discard, whose hook submits.
    pub(crate) may_discard: bool,
}

/// What a full pool does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Refuses it.
    Refuse,
    /// Has its task run inside the one that its thread runs.
    RunInPlace,
    /// Has its task run by a thread that is no worker.
    RunInCaller,
    /// Lets it wait for room.
    Enqueue,
    /// Discards the oldest task for its own.
    DiscardOldest,
    /// Discards its task.
    DiscardNewest,
}

impl WhenFull {
    /// What the policy asks for.
    pub(crate) fn asked(on_full: OnFull, caller: Caller) -> Self {
        match (on_full, caller.worker) {
            (OnFull::DiscardOldest, _) if caller.may_discard => Self::DiscardOldest,
            (OnFull::DiscardNewest, _) if caller.may_discard => Self::DiscardNewest,
            (OnFull::Refuse | OnFull::DiscardOldest | OnFull::DiscardNewest, _)
            | (OnFull::Wait(_) | OnFull::RunInCaller, OwnWorker::Refuse) => Self::Refuse,
            (OnFull::Wait(_) | OnFull::RunInCaller, OwnWorker::RunInPlace) => Self::RunInPlace,
            (OnFull::RunInCaller, OwnWorker::Stranger) if caller.may_nest => Self::RunInCaller,
            (OnFull::Wait(_) | OnFull::RunInCaller, OwnWorker::Stranger) => Self::Enqueue,
        }
    }

    /// The same for a permit, which has no task yet to be run or discarded.
    pub(crate) fn asked_by_permit(on_full: OnFull, worker: OwnWorker) -> Self {
        match (on_full, worker) {
            (OnFull::Refuse, _) | (_, OwnWorker::RunInPlace | OwnWorker::Refuse) => Self::Refuse,
            (
                OnFull::Wait(_)
                | OnFull::RunInCaller
                | OnFull::DiscardOldest
                | OnFull::DiscardNewest,
                OwnWorker::Stranger,
            ) => Self::Enqueue,
        }
    }
}

/// Which worker is notified of work in the queue: the wake policy's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notify {
    Nothing,
    Parked,
    Start,
}

/// What a worker that finds the queue empty does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// There are excess workers, or the pool is released.
    Leave,
    /// Sleep, until woken or for the keep-alive.
    ParkTimed,
    /// Sleep until woken: there are no more workers than core workers.
    Park,
}

impl View {
    /// Room is decided by the exact count alone. Entries wait only at a full pool, so no submit
    /// that finds room overtakes a waiter.
    #[inline]
    pub(crate) fn admission(&self) -> Admission {
        if !self.open {
            Admission::Released
        } else if !self.has_room() {
            Admission::Full
        } else if self.live == 0 {
            Admission::FirstWorker
        } else {
            Admission::Room
        }
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        let limit = limit(self.capacity, self.depth);
        limit == UNLIMITED || self.holding_room() < limit
    }

    /// Tasks and permits that hold room.
    #[inline]
    fn holding_room(&self) -> usize {
        self.in_flight + self.reserved
    }

    /// What comes of what a call [asked](WhenFull::asked) for.
    pub(crate) fn when_full(&self, asked: WhenFull) -> WhenFull {
        match asked {
            WhenFull::RunInCaller if !self.paused => WhenFull::RunInCaller,
            // A paused pool starts nothing.
            WhenFull::Enqueue | WhenFull::RunInCaller => {
                if self.waiting < self.max_waiting {
                    WhenFull::Enqueue
                } else {
                    WhenFull::Refuse
                }
            }
            WhenFull::DiscardOldest if self.queued == 0 => WhenFull::DiscardNewest,
            WhenFull::Refuse
            | WhenFull::RunInPlace
            | WhenFull::DiscardOldest
            | WhenFull::DiscardNewest => asked,
        }
    }

    /// Step N1, after every change that leaves tasks in the queue: a push, a take, a tuning.
    ///
    /// A parked worker is notified only if no worker spins, and if fewer are notified already than
    /// there are tasks, and fewer than [`MOST_NOTIFIED`]. A worker that wakes and finds work asks
    /// again, so the wake-ups form a chain that ends when the work does.
    #[inline]
    pub(crate) fn wake_policy(&self) -> Notify {
        if self.queued == 0 || self.paused {
            Notify::Nothing
        } else if self.parked > 0 {
            // One that is being started does not count as spinning: its start may fail.
            if self.spinning() == 0 && self.notified < self.queued.min(MOST_NOTIFIED) {
                Notify::Parked
            } else {
                Notify::Nothing
            }
        } else if self.searching < self.queued && self.live < self.capacity && !self.starting {
            Notify::Start
        } else {
            Notify::Nothing
        }
    }

    /// Workers that search and are awake: within microseconds they look at the queue.
    #[inline]
    fn spinning(&self) -> usize {
        self.searching - self.notified
    }

    /// How many more tasks may lie in the queue before a worker has to be notified.
    #[inline]
    fn notify_margin(&self) -> usize {
        if self.paused {
            UNLIMITED
        } else if self.parked > 0 {
            if self.spinning() > 0 || self.notified >= MOST_NOTIFIED {
                UNLIMITED
            } else {
                self.notified.saturating_sub(self.queued)
            }
        } else if self.live >= self.capacity || self.starting {
            UNLIMITED
        } else {
            self.searching.saturating_sub(self.queued)
        }
    }

    /// How many tasks may be accepted without asking again, as long as nothing else changes but
    /// that tasks end and their workers take the next: each would find room, and notify no worker.
    #[inline]
    pub(crate) fn credits(&self) -> usize {
        if !self.open || self.live == 0 {
            return 0;
        }
        let limit = limit(self.capacity, self.depth);
        let room = match limit {
            UNLIMITED => UNLIMITED,
            _ => limit.saturating_sub(self.holding_room()),
        };
        room.min(self.notify_margin())
    }

    /// Whether tasks may end and their workers take the next without asking, as long as the wait
    /// queue is empty: no worker is to leave, and none to be notified.
    #[inline]
    pub(crate) fn fast_path_enabled(&self) -> bool {
        !self.paused && self.excess() == 0 && self.wake_policy() == Notify::Nothing
    }

    /// More workers than there may be, those on their way out not counted.
    #[inline]
    pub(crate) fn excess(&self) -> usize {
        self.staying().saturating_sub(self.capacity)
    }

    /// Asked by a worker that holds no task and found the queue empty.
    pub(crate) fn without_work(&self, core_workers: usize) -> Without {
        if self.excess() > 0 || !(self.open || self.is_last_for_permits()) {
            Without::Leave
        } else if self.staying() > self.kept(core_workers) {
            Without::ParkTimed
        } else {
            Without::Park
        }
    }

    /// Live workers that are not on their way out.
    #[inline]
    fn staying(&self) -> usize {
        self.live - self.leaving
    }

    /// Workers that a permit keeps, for its task to find one: it is handed over without a thread
    /// to be started, which the system may refuse. So does a paused pool's queue.
    #[inline]
    pub(crate) fn kept_for_permits(&self) -> usize {
        usize::from(self.reserved > 0 || self.paused && self.queued > 0)
    }

    /// Workers that do not expire.
    pub(crate) fn kept(&self, core_workers: usize) -> usize {
        core_workers.max(self.kept_for_permits())
    }

    /// Asked by a worker that stays so far: is it the one that a permit keeps?
    #[inline]
    pub(crate) fn is_last_for_permits(&self) -> bool {
        self.staying() <= self.kept_for_permits()
    }

    /// Asked by a worker on its way out, which is still counted in `leaving`: is there work that
    /// it must not leave behind, or a permit that none else would be there for? An excess one
    /// leaves enough others to do it.
    pub(crate) fn must_stay(&self) -> bool {
        !self.paused && self.queued > 0 && self.staying() < self.capacity
            || self.staying() < self.kept_for_permits()
    }

    /// Released, no worker is live or being started, and nothing is being disposed of.
    pub(crate) fn ended(&self) -> bool {
        !self.open && self.live == 0 && !self.starting && self.disposing == 0
    }
}

#[cfg(test)]
mod tests;
