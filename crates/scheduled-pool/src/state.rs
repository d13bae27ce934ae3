//! What the timer's lock protects, and every change to it as one section. The steps that the comments
//! name are those of `PROTOCOL.md`.
//!
//! A method here runs under the lock and runs no user code. What is to be done when the lock is free
//! it adds to the deferred [`Effects`].
//!
//! # Invariants, whenever the lock is free
//! 1. The heap holds every schedule that has not ended, under one id for its whole life. One that
//!    is not pending (offered, queued, accepted, running) is there with the time [`NEVER`].
//! 2. While something is pending the timer thread runs, and it is awake, or sleeps no longer than
//!    until `wakes_at`, which is no later than the earliest time in the heap; or it holds a task
//!    for which no worker could be started.
//! 3. `keep` is there until nothing is accepted any more and the heap is empty; the section that
//!    brings that about takes it out.

use std::collections::VecDeque;
use std::sync::Arc;

use delay_queue::{DelayHeap, EntryId, NEVER};
use pool_core::internals::{Events, ScheduledTask, WakeList};
use sync_shim::thread::JoinHandle;

use crate::error::ResetError;
use crate::executor::{Executor, QueueTicket};
use crate::stats::Stats;
use crate::unstarted::UnstartedSchedule;

/// The heap's capacity does not shrink below this.
const MIN_CAPACITY: usize = 1024;

/// The timer thread is awake: it looks at the heap before it sleeps.
const AWAKE: u64 = 0;

/// Keeps the pool open. Called once, when it need not be kept any more, with whether to release it.
/// The result is dropped last of all: its drop may wait for the pool's end.
pub type Keep = Box<dyn FnOnce(bool) -> Kept + Send>;
/// A handle of the pool.
pub type Kept = Box<dyn Send>;

/// A schedule as the timer sees it.
pub(crate) trait Entry: ScheduledTask {
    /// Ends it, or has it end after the present run. After `Ending::Now` the caller performs
    /// `effects`, then calls `run_user_code`.
    fn end(&self, why: Why, effects: &mut Effects) -> Ending;
    /// The closure of one that has ended, which then is not dropped with it.
    fn give_back(&self) -> Option<UnstartedSchedule>;
    /// The user code of an end: calls the waker, drops the closure and a detached outcome.
    fn run_user_code(&self);
}

/// Why a schedule ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Cancelled,
    Released,
}

/// What came of ending a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It has ended; it was not running.
    Now,
    /// The present run is its last.
    AfterThisRun,
    /// It had ended, or was about to.
    Was,
}

/// Where an unended schedule is.
pub(crate) enum At<T> {
    /// In the heap, under its time.
    Pending,
    /// The timer thread offers it to the pool at this moment, or holds it because no worker could be
    /// started.
    Offered,
    /// In the pool's wait queue, or accepted since.
    Queued(T),
    /// In the pool's queue, or running.
    Accepted,
}

pub(crate) struct Record<S: Executor> {
    pub(crate) entry: Arc<dyn Entry>,
    pub(crate) at: At<S::Ticket>,
    pub(crate) series: bool,
}

/// A due schedule that the timer thread has taken out, to offer it.
pub(crate) struct Due {
    pub(crate) id: EntryId,
    pub(crate) entry: Arc<dyn Entry>,
}

/// What a run adds to the figures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    pub(crate) runs: u64,
    pub(crate) panicked: u64,
    pub(crate) missed: u64,
    pub(crate) lateness: u64,
}

/// How a schedule has ended, for the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndKind {
    Ended,
    Cancelled,
    Released,
}

/// The series cannot have another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoNextRun;

/// What is still accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Schedules; and due tasks, by the pool.
    Open,
    /// Due tasks only.
    Released,
    /// Nothing: the pool was released, too.
    PoolReleased,
}

pub(crate) struct State<S: Executor> {
    life: Life,
    /// Whether the pool is released when `keep` goes.
    pub(crate) releases: bool,
    pub(crate) heap: DelayHeap<Record<S>>,
    /// Schedules that ended since memory was last given back.
    ended_since_trim: usize,
    /// And how many were left then.
    left_at_trim: usize,
    /// The timer thread, once it has been started and until it is joined.
    pub(crate) thread: Option<JoinHandle>,
    /// A waiter for the end joins the timer thread at this moment.
    pub(crate) joining: bool,
    wakes_at: u64,
    keep: Option<Keep>,
    /// The events of the threads that wait for the end.
    pub(crate) end_waiters: Events,
    /// Of those that wait until nothing that is due is left to end.
    pub(crate) quiet_waiters: Events,
    pub(crate) stats: Stats,
    max_lateness: u64,
}

/// What a section defers until the lock is free.
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

    /// Whether schedules are accepted.
    pub(crate) fn is_open(&self) -> bool {
        self.life == Life::Open
    }

    /// Whether nothing is accepted any more and every schedule has ended, which stays so.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_open() && self.heap.is_empty()
    }

    /// When the next schedule is due, if none is beyond that: offered, queued, accepted or running.
    pub(crate) fn next_due_if_all_are_pending(&self) -> Option<u64> {
        let all_are_pending = self.heap.len() == self.stats.pending;
        all_are_pending.then(|| self.heap.peek_due().unwrap_or(NEVER))
    }

    /// Whether nothing that is due at that time is left to end.
    pub(crate) fn is_quiet(&self, now: u64) -> bool {
        let next_due = self.next_due_if_all_are_pending();
        next_due.is_some_and(|due| due > now)
    }

    /// Called in every section that may have ended, or put off, the last that was due: its waiters look
    /// again.
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

    /// The timer thread has to look at the heap by then (steps 1 and 7).
    fn wake_by(&mut self, due: u64, effects: &mut Effects) {
        if due < self.wakes_at {
            self.wakes_at = due; // A later push wakes it again only for a still earlier time.
            effects.wake_timer = true;
        }
    }

    /// Step 2: takes up to `most` of what is due, and marks it offered.
    pub(crate) fn take_due(&mut self, now: u64, most: usize, taken: &mut VecDeque<Due>) {
        while taken.len() < most {
            let Some(head) = self.heap.peek() else { return };
            if head.due > now || head.due == NEVER {
                return;
            }
            let id = head.id;
            // The entry stays in the heap, under "never": a cancel finds it by its id.
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

    /// Step 3: the timer thread goes to sleep until the earliest time, which is the result.
    pub(crate) fn sleep(&mut self) -> u64 {
        self.wakes_at = self.heap.peek_due().unwrap_or(NEVER);
        self.wakes_at
    }

    /// Whether the timer thread still has to offer it.
    pub(crate) fn is_offered(&self, id: EntryId) -> bool {
        matches!(self.heap.get(id), Some(record) if matches!(record.at, At::Offered))
    }

    /// Step 5. The ticket comes back, to be dropped, if the schedule is no longer offered.
    pub(crate) fn record_offer(&mut self, id: EntryId, at: At<S::Ticket>) -> Option<At<S::Ticket>> {
        match self.heap.get_mut(id) {
            // Only this thread marks entries offered, and it records one offer before the next: so
            // this mark is of this offer. An entry without it has run since, and may be pending again.
            Some(record) if matches!(record.at, At::Offered) => {
                record.at = at;
                None
            }
            _ => Some(at),
        }
    }

    /// Step 7. The ticket of the run that has ended comes back, to be dropped.
    pub(crate) fn reschedule(
        &mut self,
        id: EntryId,
        due: u64,
        report: Report,
        effects: &mut Effects,
    ) -> Result<Option<At<S::Ticket>>, NoNextRun> {
        self.count(report);
        // After a release a run that is never due would keep the pool open for ever. After the pool's
        // release no run comes ("A run that was under way then").
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

    /// Step 11. `set_due` says whether the schedule is still there to be given that time.
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
            // What a release has let go on ends when it is due; with a later time the pool would stay
            // open for longer, perhaps for ever.
            return Err(ResetError::Released);
        }
        if !is_pending {
            return Err(ResetError::Due);
        }
        if !set_due() {
            return Err(ResetError::Ended); // "Cancel against fire": it is claimed, and about to go.
        }
        self.heap.reset(id, due);
        self.wake_by(due, effects);
        self.quiet(effects);
        Ok(())
    }

    /// Step 8. `publish` makes the outcome visible. The record comes back, to be dropped.
    pub(crate) fn remove(
        &mut self,
        id: EntryId,
        kind: EndKind,
        report: Report,
        effects: &mut Effects,
        publish: impl FnOnce(),
    ) -> Option<Record<S>> {
        // "A wait for the end against the last end": in this section, so that every outcome is visible
        // once the heap is seen to be empty.
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

    /// Gives memory back if little of it is in use. The cost is amortised over the schedules that have
    /// ended since the last time. The heap cannot shrink past an entry that stays, so after an attempt
    /// that freed nothing the next comes when a quarter of the schedules is left.
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

    /// Called in every section that may have ended the last schedule: then it wakes the timer thread
    /// and the waiters for the end, and takes `keep`.
    pub(crate) fn settle(&mut self, effects: &mut Effects) {
        if self.is_over() {
            effects.wake_timer = true; // "The last one ends while the timer sleeps".
            if let Some(keep) = self.keep.take() {
                effects.keep = Some((keep, self.releases));
            }
            self.end_waiters.set_all(&mut effects.wakes);
        }
    }

    /// Step 9: accepts no more, and lists the schedules that end by it.
    pub(crate) fn close(&mut self, policy: ReleasePolicy, now: u64) -> Vec<Arc<dyn Entry>> {
        self.shut();
        self.select(|record, due| match record.at {
            // One that is never due would keep the pool open for ever.
            At::Pending if due == NEVER => true,
            _ if record.series => !policy.continue_series,
            At::Pending => !policy.run_pending && due > now,
            _ => false,
        })
    }

    /// Step 10: nothing can be offered any more. What the pool has accepted runs.
    pub(crate) fn pool_released(&mut self) -> Vec<Arc<dyn Entry>> {
        self.life = Life::PoolReleased;
        self.select(|record, _| match &record.at {
            At::Pending | At::Offered => true,
            At::Queued(ticket) => ticket.is_returned(),
            At::Accepted => false,
        })
    }

    /// Step 9, of everything that has not ended.
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

/// What goes on after a release.
#[derive(Clone, Copy, Debug)]
pub struct ReleasePolicy {
    /// Tasks that are scheduled once and pending run at their time.
    pub run_pending: bool,
    /// Series go on.
    pub continue_series: bool,
}
