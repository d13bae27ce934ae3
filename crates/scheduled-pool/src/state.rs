//! What the timer's lock protects, and every change to it as one section.
//!
//! A method here runs under the lock, runs no user code, and leaves what is owed to others in
//! the [`Effects`].
//!
//! # Invariants, whenever the lock is free
//! 1. The heap holds every schedule that has not ended, under one id for its whole life. One that
//!    is not pending (offered, in the wait queue, accepted, running) is there with the time
//!    [`NEVER`].
//! 2. While something is pending the timer thread runs, and it is awake, or sleeps no longer than
//!    until `wakes_at`, which is no later than the earliest time in the heap; or it holds a task
//!    that the pool had no thread for.
//! 3. What keeps the pool open is there until nothing is accepted any more and the heap is empty;
//!    whoever brings that about takes it out.

use std::collections::VecDeque;
use std::sync::Arc;

use delay_queue::{DelayHeap, EntryId, NEVER};
use pool_core::internals::{Event, ScheduledTask, WakeList};
use sync_shim::thread::JoinHandle;

use crate::sink::{Place, Sink};
use crate::stats::Stats;

/// For so many schedules memory is kept, however few are left.
const KEPT: usize = 1024;

/// The timer thread is awake: it looks at the heap before it sleeps.
const AWAKE: u64 = 0;

/// Keeps the pool open. Told whether to release it when it need not be kept any more. What comes
/// back is dropped last of all: it may wait for the pool's end.
pub type Keep = Box<dyn FnOnce(bool) -> Kept + Send>;
/// A handle of the pool.
pub type Kept = Box<dyn Send>;

/// A schedule as the timer sees it.
pub(crate) trait Entry: ScheduledTask {
    /// Ends it, or has it end after the present run. After `Ending::Now` what `effects` says is to
    /// be performed, then `pay` called.
    fn end(&self, why: Why, effects: &mut Effects) -> Ending;
    /// Calls and drops what is user code, and left over from the end.
    fn pay(&self);
}

/// Why a schedule ends that could have gone on.
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
    /// The timer offers it to the pool at this moment, or holds it for want of a thread.
    Offered,
    /// In the wait queue for room, or accepted since.
    Waiting(T),
    /// With the pool.
    Accepted,
}

pub(crate) struct Record<S: Sink> {
    pub(crate) entry: Arc<dyn Entry>,
    pub(crate) at: At<S::Ticket>,
    pub(crate) series: bool,
}

/// A schedule whose time has come, in the timer thread's hands.
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

/// How a schedule has ended, as counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tally {
    Ended,
    Cancelled,
    Released,
}

/// The next run of a series would never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vain;

/// What is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Schedules, and by the pool what is due.
    Open,
    /// No more schedules.
    Released,
    /// The pool was released, too: nothing.
    PoolReleased,
}

pub(crate) struct State<S: Sink> {
    life: Life,
    /// Whether the pool is released once it need not be kept open.
    pub(crate) releases: bool,
    pub(crate) heap: DelayHeap<Record<S>>,
    /// Schedules that ended since memory was last given back.
    ended_since_trim: usize,
    /// And how many were left then.
    left_at_trim: usize,
    /// The timer thread, once it has been started and until it is joined.
    pub(crate) thread: Option<JoinHandle>,
    /// Somebody joins it at this moment.
    pub(crate) joining: bool,
    wakes_at: u64,
    keep: Option<Keep>,
    /// Those who wait for the end.
    pub(crate) on_end: Vec<Arc<Event>>,
    pub(crate) stats: Stats,
    max_lateness: u64,
}

/// What a section defers until the lock is free.
#[must_use]
pub(crate) struct Effects {
    /// The timer thread is to look again.
    pub(crate) wake_timer: bool,
    pub(crate) wakes: WakeList,
    pub(crate) keep: Option<(Keep, bool)>,
}

impl Effects {
    pub(crate) fn new() -> Self {
        Self {
            wake_timer: false,
            wakes: WakeList::EMPTY,
            keep: None,
        }
    }
}

impl<S: Sink> State<S> {
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
            on_end: Vec::new(),
            stats: Stats::default(),
            max_lateness: 0,
        }
    }

    /// Takes schedules.
    pub(crate) fn is_open(&self) -> bool {
        self.life == Life::Open
    }

    /// Nothing is accepted any more, and everything has ended.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_open() && self.heap.is_empty()
    }

    fn shut(&mut self) {
        if self.is_open() {
            self.life = Life::Released;
        }
    }

    /// One more schedule.
    pub(crate) fn schedule(
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

    /// The timer thread has to look at the heap by then.
    fn wake_by(&mut self, due: u64, effects: &mut Effects) {
        if due < self.wakes_at {
            self.wakes_at = due; // Whoever is not earlier than that need not wake it as well.
            effects.wake_timer = true;
        }
    }

    /// The timer thread is awake; takes up to `most` of what is due.
    pub(crate) fn take_due(&mut self, now: u64, most: usize, taken: &mut VecDeque<Due>) {
        while taken.len() < most {
            let Some(head) = self.heap.peek() else { return };
            if head.due > now || head.due == NEVER {
                return;
            }
            let id = head.id;
            let entry = Arc::clone(&head.value.entry);
            self.heap.reset(id, NEVER);
            if let Some(record) = self.heap.get_mut(id) {
                record.at = At::Offered;
            }
            self.stats.pending -= 1;
            taken.push_back(Due { id, entry });
        }
    }

    /// The timer thread is up.
    pub(crate) fn awake(&mut self) {
        self.wakes_at = AWAKE;
    }

    /// The timer thread goes to sleep until the earliest time, which is the answer.
    pub(crate) fn sleep(&mut self) -> u64 {
        self.wakes_at = self.heap.peek_due().unwrap_or(NEVER);
        self.wakes_at
    }

    /// Whether the timer thread still has to offer it.
    pub(crate) fn is_offered(&self, id: EntryId) -> bool {
        matches!(self.heap.get(id), Some(record) if matches!(record.at, At::Offered))
    }

    /// What became of an offer. A ticket comes back if nobody needs it: to be dropped.
    pub(crate) fn placed(&mut self, id: EntryId, at: At<S::Ticket>) -> Option<At<S::Ticket>> {
        match self.heap.get_mut(id) {
            // It may have been run, and be pending again, before we came here.
            Some(record) if matches!(record.at, At::Offered) => {
                record.at = at;
                None
            }
            _ => Some(at),
        }
    }

    /// A run has ended, and the series goes on. The ticket of that run comes back: to be dropped.
    pub(crate) fn again(
        &mut self,
        id: EntryId,
        due: u64,
        report: Report,
        effects: &mut Effects,
    ) -> Result<Option<At<S::Ticket>>, Vain> {
        self.count(report);
        // It cannot come any more: a release waits for what can.
        let vain = !self.is_open() && due == NEVER;
        if vain || self.life == Life::PoolReleased {
            return Err(Vain);
        }
        let Some(record) = self.heap.get_mut(id) else {
            return Ok(None); // Ended since.
        };
        let was = std::mem::replace(&mut record.at, At::Pending);
        self.heap.reset(id, due);
        self.stats.pending += 1;
        self.wake_by(due, effects);
        Ok(Some(was))
    }

    /// A schedule has ended, and `publish` makes its outcome visible. It comes back: to be dropped.
    pub(crate) fn remove(
        &mut self,
        id: EntryId,
        tally: Tally,
        report: Report,
        effects: &mut Effects,
        publish: impl FnOnce(),
    ) -> Option<Record<S>> {
        publish(); // Whoever finds that nothing is left finds every handle told.
        let record = self.heap.remove(id)?.value;
        self.stats.pending -= usize::from(matches!(record.at, At::Pending));
        *match tally {
            Tally::Ended => &mut self.stats.ended,
            Tally::Cancelled => &mut self.stats.cancelled,
            Tally::Released => &mut self.stats.released,
        } += 1;
        self.count(report);
        self.trim();
        self.settle(effects);
        Some(record)
    }

    /// Gives memory back if little of it is in use. Paid for by those that have ended since the
    /// last time. What lies before one that stays cannot be given back, so a try that was in vain
    /// is made again when a quarter of them is left.
    fn trim(&mut self) {
        self.ended_since_trim += 1;
        let (left, room) = (self.heap.len(), self.heap.capacity());
        let quartered = left < self.left_at_trim && left <= self.left_at_trim.div_ceil(4);
        let is_paid_for = self.ended_since_trim >= room / 4 || quartered;
        if room > KEPT && left < room / 4 && is_paid_for {
            self.ended_since_trim = 0;
            self.left_at_trim = left;
            self.heap.shrink_to(KEPT.max(2 * left));
        }
    }

    fn count(&mut self, report: Report) {
        self.stats.runs += report.runs;
        self.stats.panicked += report.panicked;
        self.stats.missed = self.stats.missed.saturating_add(report.missed);
        self.max_lateness = self.max_lateness.max(report.lateness);
    }

    /// Asked after every section that may have been the last: lets the pool and the timer thread
    /// go.
    pub(crate) fn settle(&mut self, effects: &mut Effects) {
        if self.is_over() {
            effects.wake_timer = true;
            if let Some(keep) = self.keep.take() {
                effects.keep = Some((keep, self.releases));
            }
            effects.wakes.set_all(&mut self.on_end);
        }
    }

    /// A release: takes no more, and says which schedules end by it.
    pub(crate) fn close(&mut self, spare: Spare, now: u64) -> Vec<Arc<dyn Entry>> {
        self.shut();
        self.select(|record, due| match record.at {
            // One that can never fall due would be waited for in vain.
            At::Pending if due == NEVER => true,
            _ if record.series => !spare.series,
            At::Pending => !spare.pending && due > now,
            _ => false,
        })
    }

    /// The pool was released: nothing can come any more. What it has accepted runs.
    pub(crate) fn pool_released(&mut self) -> Vec<Arc<dyn Entry>> {
        self.life = Life::PoolReleased;
        self.select(|record, _| match &record.at {
            At::Pending | At::Offered => true,
            At::Waiting(ticket) => ticket.is_returned(),
            At::Accepted => false,
        })
    }

    /// Everything that has not ended, and no more is taken.
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

/// What a release lets live.
#[derive(Clone, Copy, Debug)]
pub struct Spare {
    /// Pending one-shots come at their time.
    pub pending: bool,
    /// Series go on.
    pub series: bool,
}
