//! The state under the timer's lock. Every change of it is one critical section. Comments refer to the
//! steps of `PROTOCOL.md`.
//!
//! The methods run under the lock and run no user code. They defer other work to [`Effects`], which the
//! caller performs after unlocking.
//!
//! # Invariants, whenever the lock is free
//! 1. The heap holds every schedule that has not ended, under one id for its whole life. A schedule that
//!    is not pending (offered, queued, accepted, running) has the time [`NEVER`] there.
//! 2. While a schedule is pending the timer thread exists, and it is awake, or sleeps until `wakes_at` at
//!    the latest, which is no later than the earliest time in the heap; or it holds a task for which no
//!    worker could be started.
//! 3. `keep` is set until no schedule is accepted any more and the heap is empty. The section in which that
//!    becomes true takes it.

use std::collections::VecDeque;
use std::sync::Arc;

use delay_queue::{DelayHeap, EntryId, NEVER};
use pool_core::internals::{Events, ScheduledTask, WakeList};
use sync_shim::thread::JoinHandle;

use crate::error::ResetError;
use crate::executor::{Executor, QueueTicket};
use crate::stats::Stats;
use crate::unstarted::UnstartedSchedule;

/// Minimum capacity after the heap shrinks.
const MIN_CAPACITY: usize = 1024;

/// Value of `wakes_at` while the timer thread is awake: it checks the heap before it sleeps.
const AWAKE: u64 = 0;

/// Keeps the pool open. Called once, after the last schedule has ended, with whether to release the pool.
/// The caller drops the result last, because its drop may wait for the pool's end.
pub type Keep = Box<dyn FnOnce(bool) -> Kept + Send>;
/// A handle of the pool.
pub type Kept = Box<dyn Send>;

/// A schedule as the timer sees it.
pub(crate) trait Entry: ScheduledTask {
    /// Ends the schedule, now or after the current run. After `Ending::Now` the caller performs `effects`,
    /// then calls `run_user_code`.
    fn end(&self, why: Why, effects: &mut Effects) -> Ending;
    /// Takes the closure of a schedule that ended before its run, so that `run_user_code` does not drop it.
    fn give_back(&self) -> Option<UnstartedSchedule>;
    /// Runs the user code of an end: calls the waker, drops the closure and a detached outcome.
    fn run_user_code(&self);
}

/// Why a schedule ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Cancelled,
    Released,
}

/// Outcome of [`Entry::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The schedule was not running and has ended.
    Now,
    /// The current run is the last.
    AfterThisRun,
    /// The schedule had ended already, or was ending.
    Was,
}

/// Location of a schedule that has not ended.
pub(crate) enum At<T> {
    /// In the heap, under its due time.
    Pending,
    /// The timer thread is offering it to the pool, or holds it because no worker could be started.
    Offered,
    /// In the pool's wait queue, or accepted from there.
    Queued(T),
    /// In the pool's queue, or running.
    Accepted,
}

pub(crate) struct Record<S: Executor> {
    pub(crate) entry: Arc<dyn Entry>,
    pub(crate) at: At<S::Ticket>,
    pub(crate) series: bool,
}

/// A due schedule that the timer thread is about to offer.
pub(crate) struct Due {
    pub(crate) id: EntryId,
    pub(crate) entry: Arc<dyn Entry>,
}

/// Statistics of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    pub(crate) runs: u64,
    pub(crate) panicked: u64,
    pub(crate) missed: u64,
    pub(crate) lateness: u64,
}

/// How a schedule ended, for the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndKind {
    Ended,
    Cancelled,
    Released,
}

/// The series has no further run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoNextRun;

/// Which calls are still accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// New schedules, and due tasks in the pool.
    Open,
    /// Only due tasks in the pool.
    Released,
    /// None: the pool is released as well.
    PoolReleased,
}

pub(crate) struct State<S: Executor> {
    life: Life,
    /// Whether the end of the last schedule releases the pool.
    pub(crate) releases: bool,
    pub(crate) heap: DelayHeap<Record<S>>,
    /// Number of schedules that ended since the last `trim`.
    ended_since_trim: usize,
    /// Number of schedules left at the last `trim`.
    left_at_trim: usize,
    /// The timer thread, from its start until it is joined.
    pub(crate) thread: Option<JoinHandle>,
    /// A waiter for the end is joining the timer thread.
    pub(crate) joining: bool,
    wakes_at: u64,
    keep: Option<Keep>,
    /// Waiters for the end of the last schedule.
    pub(crate) end_waiters: Events,
    /// Waiters for an instant without due schedules.
    pub(crate) quiet_waiters: Events,
    pub(crate) stats: Stats,
    max_lateness: u64,
}

/// Work that a section defers until the lock is free.
#[must_use]
pub(crate) struct Effects {
    /// Wake the timer thread.
    pub(crate) wake_timer: bool,
    pub(crate) wakes: WakeList,
    pub(crate) keep: Option<(Keep, bool)>,
}

impl Effects {
    pub(crate) fn new() -> Self {
        Self {
            wake_timer: false,
            wakes: WakeList::new(),
            keep: None,
        }
    }
}

impl<S: Executor> State<S> {
    pub(crate) fn new(keep: Keep) -> Self {
        Self {
            life: Life::Open,
            releases: false,
            heap: DelayHeap::new(),
            ended_since_trim: 0,
            left_at_trim: 0,
            thread: None,
            joining: false,
            wakes_at: AWAKE,
            keep: Some(keep),
            end_waiters: Events::new(),
            quiet_waiters: Events::new(),
            stats: Stats::default(),
            max_lateness: 0,
        }
    }

    /// Returns whether schedules are accepted.
    pub(crate) fn is_open(&self) -> bool {
        self.life == Life::Open
    }

    /// Returns whether no schedule is accepted any more and all have ended. This state is final.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_open() && self.heap.is_empty()
    }

    /// Returns the next due time if every schedule is pending: none is offered, queued, accepted or running.
    pub(crate) fn next_due_if_all_are_pending(&self) -> Option<u64> {
        let all_are_pending = self.heap.len() == self.stats.pending;
        all_are_pending.then(|| self.heap.peek_due().unwrap_or(NEVER))
    }

    /// Returns whether no schedule is due at `now` and none of the earlier ones is left to end.
    pub(crate) fn is_quiet(&self, now: u64) -> bool {
        let next_due = self.next_due_if_all_are_pending();
        next_due.is_some_and(|due| due > now)
    }

    /// Wakes the waiters for rest. Called in every section that may have ended or postponed the last due
    /// schedule.
    fn quiet(&mut self, effects: &mut Effects) {
        if self.heap.len() == self.stats.pending {
            self.quiet_waiters.set_all(&mut effects.wakes);
        }
    }

    fn shut(&mut self) {
        if self.is_open() {
            self.life = Life::Released;
        }
    }

    /// Step 1.
    pub(crate) fn push(
        &mut self,
        entry: Arc<dyn Entry>,
        series: bool,
        due: u64,
        effects: &mut Effects,
    ) -> Option<EntryId> {
        let at = At::Pending;
        let id = self.heap.try_push(Record { entry, at, series }, due).ok()?;
        self.stats.scheduled += 1;
        self.stats.pending += 1;
        self.wake_by(due, effects);
        Some(id)
    }

    /// Makes the timer thread check the heap at `due` at the latest (steps 1 and 7).
    fn wake_by(&mut self, due: u64, effects: &mut Effects) {
        if due < self.wakes_at {
            self.wakes_at = due; // A later push wakes it again only for a still earlier time.
            effects.wake_timer = true;
        }
    }

    /// Step 2: takes up to `most` due schedules, and marks them offered.
    pub(crate) fn take_due(&mut self, now: u64, most: usize, taken: &mut VecDeque<Due>) {
        while taken.len() < most {
            let Some(head) = self.heap.peek() else { return };
            if head.due > now || head.due == NEVER {
                return;
            }
            let id = head.id;
            // The entry stays in the heap, with the time `NEVER`, so that a cancel finds it by its id.
            let entry = Arc::clone(&head.value.entry);
            self.heap.reset(id, NEVER);
            if let Some(record) = self.heap.get_mut(id) {
                record.at = At::Offered;
            }
            self.stats.pending -= 1;
            taken.push_back(Due { id, entry });
        }
    }

    /// Step 2: the timer thread is awake, so no push wakes it.
    pub(crate) fn woke(&mut self) {
        self.wakes_at = AWAKE;
    }

    /// Step 3: the timer thread goes to sleep. Returns the earliest due time, at which it wakes.
    pub(crate) fn sleep(&mut self) -> u64 {
        self.wakes_at = self.heap.peek_due().unwrap_or(NEVER);
        self.wakes_at
    }

    /// Returns whether the timer thread still has to offer the schedule.
    pub(crate) fn is_offered(&self, id: EntryId) -> bool {
        matches!(self.heap.get(id), Some(record) if matches!(record.at, At::Offered))
    }

    /// Step 5. Returns the ticket, for the caller to drop, if the schedule is no longer offered.
    pub(crate) fn record_offer(&mut self, id: EntryId, at: At<S::Ticket>) -> Option<At<S::Ticket>> {
        match self.heap.get_mut(id) {
            // Only this thread marks entries offered, and it records each offer before the next one, so the
            // mark belongs to this offer. An entry without it has run since, and may be pending again.
            Some(record) if matches!(record.at, At::Offered) => {
                record.at = at;
                None
            }
            _ => Some(at),
        }
    }

    /// Step 7. Returns the ticket of the ended run, for the caller to drop.
    pub(crate) fn reschedule(
        &mut self,
        id: EntryId,
        due: u64,
        report: Report,
        effects: &mut Effects,
    ) -> Result<Option<At<S::Ticket>>, NoNextRun> {
        self.count(report);
        // After a release, a run that is never due would keep the pool open for ever. After the pool's
        // release there is no further run ("A run that was under way then").
        let no_next = !self.is_open() && due == NEVER;
        if no_next || self.life == Life::PoolReleased {
            return Err(NoNextRun);
        }
        let Some(record) = self.heap.get_mut(id) else {
            return Ok(None); // A cancel or a release has claimed the body and removed the entry.
        };
        let was = std::mem::replace(&mut record.at, At::Pending);
        self.heap.reset(id, due);
        self.stats.pending += 1;
        self.wake_by(due, effects);
        self.quiet(effects);
        Ok(Some(was))
    }

    /// Step 11. `set_due` gives the schedule the new time; `false` if a party has claimed its body.
    pub(crate) fn reset(
        &mut self,
        id: EntryId,
        due: u64,
        effects: &mut Effects,
        set_due: impl FnOnce() -> bool,
    ) -> Result<(), ResetError> {
        let record = self.heap.get(id).ok_or(ResetError::Ended)?;
        let is_pending = matches!(record.at, At::Pending);
        if !self.is_open() {
            // A schedule that outlives the release ends when it is due. A later time would keep the pool
            // open for longer, perhaps for ever.
            return Err(ResetError::Released);
        }
        if !is_pending {
            return Err(ResetError::Due);
        }
        if !set_due() {
            return Err(ResetError::Ended); // "Cancel against fire": claimed, and about to be removed.
        }
        self.heap.reset(id, due);
        self.wake_by(due, effects);
        self.quiet(effects);
        Ok(())
    }

    /// Step 8. `publish` makes the outcome visible. Returns the record, for the caller to drop.
    pub(crate) fn remove(
        &mut self,
        id: EntryId,
        kind: EndKind,
        report: Report,
        effects: &mut Effects,
        publish: impl FnOnce(),
    ) -> Option<Record<S>> {
        // "A wait for the end against the last end": in this section, so that a thread that finds the heap
        // empty sees every outcome.
        publish();
        let record = self.heap.remove(id)?.value;
        self.stats.pending -= usize::from(matches!(record.at, At::Pending));
        *match kind {
            EndKind::Ended => &mut self.stats.ended,
            EndKind::Cancelled => &mut self.stats.cancelled,
            EndKind::Released => &mut self.stats.released,
        } += 1;
        self.count(report);
        self.trim();
        self.quiet(effects);
        self.settle(effects);
        Some(record)
    }

    /// Shrinks the heap if little of it is in use. The cost is amortised over the schedules that ended since
    /// the last attempt. The heap cannot shrink past an entry that stays, so after an attempt that freed no
    /// memory the next one is made when a quarter of the schedules is left.
    fn trim(&mut self) {
        self.ended_since_trim += 1;
        let (left, room) = (self.heap.len(), self.heap.capacity());
        let quartered = left < self.left_at_trim && left <= self.left_at_trim.div_ceil(4);
        let is_paid_for = self.ended_since_trim >= room / 4 || quartered;
        if room > MIN_CAPACITY && left < room / 4 && is_paid_for {
            self.ended_since_trim = 0;
            self.left_at_trim = left;
            self.heap.shrink_to(MIN_CAPACITY.max(2 * left));
        }
    }

    fn count(&mut self, report: Report) {
        self.stats.runs += report.runs;
        self.stats.panicked += report.panicked;
        self.stats.missed = self.stats.missed.saturating_add(report.missed);
        self.max_lateness = self.max_lateness.max(report.lateness);
    }

    /// If the last schedule has ended, wakes the timer thread and the waiters for the end, and takes `keep`.
    /// Called in every section that may have ended it.
    pub(crate) fn settle(&mut self, effects: &mut Effects) {
        if self.is_over() {
            effects.wake_timer = true; // "The last one ends while the timer sleeps".
            if let Some(keep) = self.keep.take() {
                effects.keep = Some((keep, self.releases));
            }
            self.end_waiters.set_all(&mut effects.wakes);
        }
    }

    /// Step 9: accepts no more schedules, and lists those that the release ends.
    pub(crate) fn close(&mut self, policy: ReleasePolicy, now: u64) -> Vec<Arc<dyn Entry>> {
        self.shut();
        self.select(|record, due| match record.at {
            // A schedule that is never due would keep the pool open for ever.
            At::Pending if due == NEVER => true,
            _ if record.series => !policy.continue_series,
            At::Pending => !policy.run_pending && due > now,
            _ => false,
        })
    }

    /// Step 10: lists the schedules that the pool has not accepted. The accepted ones still run.
    pub(crate) fn pool_released(&mut self) -> Vec<Arc<dyn Entry>> {
        self.life = Life::PoolReleased;
        self.select(|record, _| match &record.at {
            At::Pending | At::Offered => true,
            At::Queued(ticket) => ticket.is_returned(),
            At::Accepted => false,
        })
    }

    /// Step 9 of `release_now`: lists every schedule that has not ended.
    pub(crate) fn close_now(&mut self) -> Vec<Arc<dyn Entry>> {
        self.shut();
        self.select(|_, _| true)
    }

    fn select(&self, doomed: impl Fn(&Record<S>, u64) -> bool) -> Vec<Arc<dyn Entry>> {
        let entries = self.heap.iter();
        entries
            .filter(|entry| doomed(entry.value, entry.due))
            .map(|entry| Arc::clone(&entry.value.entry))
            .collect()
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            unended: self.heap.len(),
            max_lateness: std::time::Duration::from_nanos(self.max_lateness),
            ..self.stats
        }
    }
}

/// Which schedules continue after a release.
#[derive(Clone, Copy, Debug)]
pub struct ReleasePolicy {
    /// Pending tasks with one run still run.
    pub run_pending: bool,
    /// Series continue.
    pub continue_series: bool,
}
