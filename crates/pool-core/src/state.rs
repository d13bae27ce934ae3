//! What the pool's lock protects, and every change to it as one section.
//!
//! [`go_on`](State::go_on) alone runs without the inbox's half of the lock (see `shared.rs`): what
//! is in the inbox is not counted here yet.
//!
//! A method here runs under the lock, runs no foreign code, and leaves what is owed to others
//! (wake-ups, a thread to start) in an [`After`]. The decisions are in `decide.rs`.
//!
//! # Invariants, whenever the lock is free and the inbox empty
//! 1. `in_flight` counts exactly the accepted tasks that hold room: those in the queue, and one for
//!    each worker that runs one. Those that a `release_now` or a handle took out have not ended
//!    either; they hold none and are counted in `disposing`, and a handle's entry is a tombstone.
//! 2. Seats stand in the line only while there is no room, so only while some worker is live; or,
//!    those of a multi-pool's waiters, while the system refuses to start the first worker.
//! 3. While the queue holds a task some worker is live, and one that is live looks at the queue
//!    under the lock before it parks and before it is gone.
//! 4. If the queue holds a task and nobody searches, then nobody is parked, and there are as many
//!    workers as there may be, or one is being started (or the system refused one).

use std::collections::{TryReserveError, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use sync_shim::thread::thread_number;

use crate::after::{After, Notice};
use crate::config::Config;
use crate::decide::{Rouse, View, Without};
use crate::ending::Ending;
use crate::errand::Watch;
use crate::gauge::Gauge;
use crate::idle::{IdleSet, WorkerCell};
use crate::line::{Line, Seat};
use crate::queue::TaskQueue;
use crate::run::Outcome;
use crate::stats::Counts;

/// Tombstones that are left to the workers, however short the queue is. In a model one, so that a
/// worker meets it, and the next is swept.
const FEW_TOMBSTONES: usize = if cfg!(anthill_loom) { 1 } else { 32 };

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct State<J> {
    pub(crate) open: bool,
    /// Raised by each reboot.
    pub(crate) generation: u64,
    pub(crate) capacity: usize,
    pub(crate) depth: usize,
    pub(crate) max_waiting: usize,
    /// Workers that do not expire.
    pub(crate) kept: usize,

    pub(crate) in_flight: usize,
    /// Taken out of the queue, by a `release_now` or by their handles, and not ended yet: their
    /// captures are being dropped, or they run inside another task.
    pub(crate) disposing: usize,
    /// Threads that took these out, once for each time.
    disposers: Vec<usize>,
    pub(crate) queue: TaskQueue<J>,
    /// Entries whose tasks their handles took out: in the queue, or just popped by a worker that
    /// is on its way to the next.
    pub(crate) tombstones: usize,
    pub(crate) line: Line<J>,

    pub(crate) live: usize,
    pub(crate) searching: usize,
    /// Of those: called out of the idle set, and not there yet.
    pub(crate) called: usize,
    pub(crate) leaving: usize,
    pub(crate) idle: IdleSet,
    /// Parked without a time-out, as those that are kept. Some may have been called since.
    untimed: Vec<Arc<WorkerCell>>,
    pub(crate) starting: bool,
    /// Live, and in their start hook: busy, as far as everybody else knows.
    entering: usize,
    /// The holder of the lock has just started a worker, and perhaps brings a task for it: until the
    /// lock is given back that worker has not looked at the queue yet, and will.
    pub(crate) spoken_for: bool,

    /// Threads of workers that have ended, and may still drop their thread-locals.
    pub(crate) ending: Ending,
    /// Somebody joins all of them at this moment.
    pub(crate) joining: bool,
    /// Submitters that wait for the start of the first worker.
    pub(crate) on_start: Vec<Arc<Notice>>,
    pub(crate) on_idle: Vec<Arc<Notice>>,
    pub(crate) on_end: Vec<Arc<Notice>>,
    /// Those that want to know of the release.
    pub(crate) watches: Vec<Weak<dyn Watch>>,
    pub(crate) counts: Counts,
    /// Until the whole lock is taken again, a worker may go on to the next task undecided.
    calm: bool,
    /// Of a multi-pool's child: where the figures are shown to those without the lock.
    pub(crate) gauge: Option<Arc<Gauge>>,
    /// Starting a thread asks the user's gate first.
    gated: bool,
    /// A worker that has started runs the user's hook first.
    hooked: bool,
}

/// What a worker does after a section.
pub(crate) enum Next<J> {
    Run(J),
    /// Look for work, counted as searching.
    Search,
    /// Go, counted as leaving.
    Leave,
    /// Run the user code that is owed, counted as busy and without a task, and then
    /// [`go`](State::go) on.
    CallOut,
}

/// What a worker does that searched under the lock.
pub(crate) enum Found<J> {
    /// Found work, or the time to go.
    Next(Next<J>),
    Park(Rest),
}

/// How a worker parks.
pub(crate) struct Rest {
    /// Since when it is idle, where that is noted.
    pub(crate) since: Option<Instant>,
    /// Its time may come: it is not one of those that are kept.
    pub(crate) timed: bool,
}

impl<J> State<J> {
    #[inline]
    pub(crate) fn view(&self) -> View {
        View {
            open: self.open,
            in_flight: self.in_flight,
            disposing: self.disposing,
            queued: self.queued(),
            waiting: self.line.counted(),
            max_waiting: self.max_waiting,
            capacity: self.capacity,
            depth: self.depth,
            live: self.live,
            searching: self.searching,
            called: self.called,
            parked: self.idle.len(),
            leaving: self.leaving,
            starting: self.starting,
        }
    }

    /// Accepted tasks that have not started.
    ///
    /// One too few while a worker has a tombstone in its hands. It does nothing else before its
    /// next look at the queue, so it is on its way to the one that is not counted.
    #[inline]
    pub(crate) fn queued(&self) -> usize {
        self.queue.len().saturating_sub(self.tombstones)
    }

    /// Accepts a task for which there is room and a live worker.
    #[inline]
    pub(crate) fn accept(&mut self, job: J, after: &mut After<J>) {
        self.enqueue(job, after);
        if !self.spoken_for {
            self.rouse(after);
        }
    }

    #[inline]
    fn enqueue(&mut self, job: J, after: &mut After<J>) {
        self.in_flight += 1;
        self.counts.submitted += 1;
        self.queue.push(job);
        after.searchers |= self.searching > 0;
        if let Some(gauge) = &self.gauge {
            gauge.enter();
        }
    }

    /// There are other numbers of workers: shows them to those that do not take the lock.
    fn show_size(&self) {
        if let Some(gauge) = &self.gauge {
            gauge.size(self.live, self.capacity);
        }
    }

    /// Room goes to the line's heads, as long as there is any of either, and a worker.
    #[inline]
    pub(crate) fn admit_heads(&mut self, after: &mut After<J>) {
        while self.line.len() > 0 && self.live > 0 && self.view().has_room() {
            let Some(seat) = self.line.pop() else { break };
            // A seat that another pool served, or that its owner is leaving, is empty.
            if let Some(job) = seat.claim() {
                self.enqueue(job, after);
                after.ring(seat);
            } else {
                after.drop_later(seat);
            }
        }
    }

    /// Sees to it that somebody looks at the queue.
    #[inline]
    pub(crate) fn rouse(&mut self, after: &mut After<J>) {
        match self.view().rouse() {
            Rouse::Nobody => {}
            Rouse::Parked => {
                if let Some(cell) = self.idle.pop() {
                    self.searching += 1;
                    self.called += 1;
                    after.unpark(cell);
                }
            }
            Rouse::Start => {
                self.starting = true;
                after.start = true;
            }
        }
    }

    /// A worker that was called for work is awake, and goes on searching.
    pub(crate) fn arrive(&mut self) {
        self.called -= 1;
    }

    /// A task that held room has ended.
    #[inline]
    fn end(&mut self, outcome: Outcome) {
        if outcome == Outcome::Withdrawn {
            self.tombstones -= 1; // All else was done when it was withdrawn.
            return;
        }
        self.counts.count(outcome);
        self.in_flight -= 1;
        if let Some(gauge) = &self.gauge {
            gauge.leave(1);
        }
    }

    /// A task has ended: its worker takes the next, if nothing else is to be decided.
    #[inline]
    pub(crate) fn go_on(&mut self, outcome: Outcome) -> Option<J> {
        if !self.calm {
            return None;
        }
        let next = self.queue.pop()?;
        self.end(outcome);
        Some(next)
    }

    /// Tasks that entered through the inbox are counted, and join the queue.
    #[inline]
    pub(crate) fn take_over(&mut self, entered: &mut TaskQueue<J>) {
        self.in_flight += entered.len();
        self.counts.submitted += entered.len() as u64;
        self.queue.append(entered);
    }

    /// Asked when the lock is given back. How many tasks may enter until it is taken again.
    #[inline]
    pub(crate) fn settle(&mut self) -> usize {
        self.spoken_for = false;
        let view = self.view();
        self.calm = self.line.len() == 0 && view.is_calm();
        view.quick_room()
    }

    /// Whoever does not want to wait is refused, whatever else is to be decided.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.open && !self.view().has_room()
    }

    /// A task has ended: one section frees its room and finds the next. Unless user code is owed:
    /// to its handle (`calls_out`), or to the line.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        outcome: Outcome,
        calls_out: bool,
        after: &mut After<J>,
    ) -> Next<J> {
        self.end(outcome);
        self.admit_heads(after);
        self.tell_if_idle(after);
        if calls_out || after.calls_out() {
            self.rouse(after); // Others do what is there to be done meanwhile.
            return Next::CallOut;
        }
        self.go(true, after)
    }

    /// A worker that is busy with nothing any more goes on. `may_start`: not if it has just been
    /// refused a thread, or it would ask for ever.
    #[inline]
    pub(crate) fn go(&mut self, may_start: bool, after: &mut After<J>) -> Next<J> {
        if self.view().surplus() > 0 {
            // Somebody may be parked all the same: the surplus one was being started when the
            // capacity shrank.
            self.leaving += 1;
            self.rouse(after);
            return Next::Leave;
        }
        if let Some(job) = self.queue.pop() {
            self.take(job, may_start, after)
        } else if self.open {
            self.searching += 1;
            Next::Search
        } else {
            self.leaving += 1;
            Next::Leave
        }
    }

    /// A busy worker has popped a task. It keeps it, unless it is to ask the user's gate first.
    #[inline]
    fn take(&mut self, job: J, may_start: bool, after: &mut After<J>) -> Next<J> {
        if may_start || self.idle.len() > 0 {
            self.rouse(after);
        }
        if after.start && self.gated {
            self.queue.unpop(job);
            return Next::CallOut;
        }
        Next::Run(job)
    }

    /// A worker has to call a waker that came as it went on already: it is busy again, and what
    /// it was about to do is left to others.
    #[cold]
    pub(crate) fn put_off(&mut self, next: Next<J>, after: &mut After<J>) {
        match next {
            Next::Run(job) => self.queue.unpop(job),
            Next::Search => self.searching -= 1,
            Next::Leave => {
                self.leaving -= 1;
                self.time_the_kept(after);
            }
            Next::CallOut => {}
        }
        self.rouse(after);
    }

    #[inline]
    fn tell_if_idle(&mut self, after: &mut After<J>) {
        if self.unfinished() == 0 && !self.on_idle.is_empty() {
            after.tell(&mut self.on_idle);
        }
    }

    /// Accepted tasks that have not ended.
    pub(crate) fn unfinished(&self) -> usize {
        self.in_flight + self.disposing
    }

    /// A searching worker looks at the queue; the last look before it parks or leaves.
    pub(crate) fn find(
        &mut self,
        cell: &Arc<WorkerCell>,
        now: Option<Instant>,
        after: &mut After<J>,
    ) -> Found<J> {
        self.searching -= 1;
        if self.view().surplus() == 0
            && let Some(job) = self.queue.pop()
        {
            return Found::Next(self.take(job, true, after));
        }
        match self.view().without_work(self.kept) {
            Without::Leave => {
                self.leaving += 1;
                self.rouse(after); // As in `go`.
                Found::Next(Next::Leave)
            }
            Without::ParkTimed => Found::Park(Rest {
                since: self.idle.push(cell, now),
                timed: true,
            }),
            Without::Park => {
                let since = self.idle.push(cell, now);
                self.keep(cell, since);
                Found::Park(Rest {
                    since,
                    timed: false,
                })
            }
        }
    }

    /// Nothing is accepted any more: waiters get their tasks back, idle workers go.
    pub(crate) fn release(&mut self, after: &mut After<J>) {
        self.open = false;
        for seat in self.line.take_all() {
            // A seat that another pool served, or that its owner is leaving, is empty.
            if seat.give_back() {
                self.counts.refused += 1;
                after.ring(seat);
            } else {
                after.drop_later(seat);
            }
        }
        for watch in self.watches.drain(..) {
            after.tell_watch(watch);
        }
        let idle = self.idle.retire_oldest(self.idle.len());
        self.dismiss(idle, after);
        self.tell_if_ended(after);
    }

    /// A released pool's queue is emptied by a `release_now`. The tasks stay unfinished until
    /// their captures are dropped, which is foreign code.
    pub(crate) fn take_unstarted(
        &mut self,
        seize: &dyn Fn(&J) -> bool,
    ) -> impl Iterator<Item = J> + use<J> {
        let unstarted = self.queue.iter().filter(|job| seize(job)).count();
        self.tombstones -= self.queue.len() - unstarted;
        self.disposers.push(thread_number());
        self.in_flight -= unstarted;
        self.disposing += unstarted;
        if let Some(gauge) = &self.gauge {
            gauge.leave(unstarted);
        }
        self.queue.take_all()
    }

    /// What the calling thread took out has ended.
    pub(crate) fn end_disposal(&mut self) {
        let us = thread_number();
        if let Some(at) = self.disposers.iter().rposition(|&thread| thread == us) {
            self.disposers.swap_remove(at);
        }
    }

    /// Whether the calling thread has taken out what has not ended: then it cannot wait for that.
    pub(crate) fn is_disposed_of_here(&self) -> bool {
        self.disposers.contains(&thread_number())
    }

    /// A handle has just claimed a task whose entry is in the queue, or was popped by a worker
    /// that now finds it a tombstone. The task holds no room any more; the rest of it is the
    /// handle's affair, which says when it is [`disposed`](State::disposed) of.
    ///
    /// Tombstones that are too many are swept out, to be dropped when the lock is free; their block
    /// may [come back](TaskQueue::give_back).
    pub(crate) fn withdraw(
        &mut self,
        is_tombstone: &dyn Fn(&J) -> bool,
        after: &mut After<J>,
    ) -> Option<VecDeque<J>> {
        self.tombstones += 1;
        self.in_flight -= 1;
        self.disposing += 1;
        self.disposers.push(thread_number());
        if let Some(gauge) = &self.gauge {
            gauge.leave(1);
        }
        self.admit_heads(after);
        self.rouse(after);
        (self.tombstones > self.queue.len() / 2 + FEW_TOMBSTONES).then(|| {
            let swept = self.queue.sweep(is_tombstone);
            self.tombstones -= swept.len();
            swept
        })
    }

    /// One of those that were taken out has been disposed of, or has ended.
    pub(crate) fn disposed(&mut self, outcome: Outcome, after: &mut After<J>) {
        self.disposing -= 1;
        self.counts.count(outcome);
        self.tell_if_idle(after);
        self.tell_if_ended(after);
    }

    /// Another number of workers from now on. Nothing has changed if there is no memory for it.
    pub(crate) fn tune(
        &mut self,
        capacity: usize,
        after: &mut After<J>,
    ) -> Result<(), TryReserveError> {
        if capacity > self.capacity {
            self.idle.resize(capacity)?;
            self.capacity = capacity;
        } else {
            self.capacity = capacity;
            self.retire_surplus(after);
            // Without memory for fewer slots the ring keeps those it has.
            let _ = self.idle.resize(capacity);
        }
        self.show_size();
        self.admit_heads(after);
        self.rouse(after);
        Ok(())
    }

    /// Open again. Whoever waited for the end is told, and finds another generation.
    pub(crate) fn reboot(&mut self, after: &mut After<J>) {
        self.open = true;
        self.generation += 1;
        after.tell(&mut self.on_end);
    }

    /// A waiter's seat joins the line.
    pub(crate) fn enrol(&mut self, seat: Arc<Seat<J>>) -> u64 {
        self.line.join(seat)
    }
}

impl<J> State<J> {
    pub(crate) fn new(config: &Config) -> Result<Self, TryReserveError> {
        Ok(Self {
            open: true,
            generation: 0,
            capacity: config.capacity,
            depth: config.depth,
            max_waiting: config.max_waiting,
            kept: config.min_workers,
            in_flight: 0,
            disposing: 0,
            disposers: Vec::new(),
            queue: TaskQueue::new(),
            tombstones: 0,
            line: Line::new(),
            live: 0,
            searching: 0,
            called: 0,
            leaving: 0,
            idle: if config.preallocate {
                IdleSet::ring(config.capacity)?
            } else {
                IdleSet::stack()
            },
            untimed: Vec::new(),
            starting: false,
            entering: 0,
            spoken_for: false,
            ending: Ending::default(),
            joining: false,
            on_start: Vec::new(),
            on_idle: Vec::new(),
            on_end: Vec::new(),
            watches: Vec::new(),
            counts: Counts::default(),
            calm: false,
            gauge: None,
            gated: config.thread_gate.is_some(),
            hooked: config.start_hook.is_some(),
        })
    }
}

mod staff;
#[cfg(all(test, not(anthill_loom)))]
mod tests;
