//! What the pool's lock protects, and every change to it as one section.
//!
//! [`go_on`](State::go_on) alone may run without the inbox's half of the lock (see `shared.rs`):
//! what is in the inbox is not counted here yet.
//!
//! A method here runs under the lock, runs no user code, and defers what others are to be woken
//! for, and a thread to start, to the [`Effects`]. The decisions are in `decide.rs`.
//!
//! # Invariants, whenever the lock is free and the inbox empty
//! 1. `in_flight` counts exactly the accepted tasks that hold room: those in the queue, and one for
//!    each worker that runs one. Those that a `release_now` or a handle took out have not ended
//!    either; they hold none and are counted in `disposing`, and a handle's entry is a tombstone.
//!    `reserved` counts the permits that are out, which hold room as well.
//! 2. Waiter entries stand in the wait queue only while there is no room, so only while some worker
//!    is live; or, those of a multi-pool's waiters, while the system refuses to start the first
//!    worker.
//! 3. While the queue holds a task some worker is live, and one that is live looks at the queue
//!    under the lock before it parks and before it is gone.
//! 4. While a permit is out some worker is live.
//! 5. If the queue holds a task and no worker searches, then none is parked, and there are as many
//!    workers as there may be, or one is being started (or the system refused one).

use std::collections::TryReserveError;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};
use std::time::Instant;

use sync_shim::thread::thread_number;

use crate::capacity::{Capacity, UNLIMITED};
use crate::config::Config;
use crate::error::{Closed, Reason, TuneError};
use crate::sched::counts::Counts;
use crate::sched::decide::{Admission, Demand, MOST_NOTIFIED, Notify, View, Without};
use crate::sched::effects::{Effects, ReleaseListener};
use crate::sched::event::Events;
use crate::sched::exits::Ending;
use crate::sched::idle::{IdleSet, WorkerCell};
use crate::sched::load::LoadStats;
use crate::sched::queue::{Block, TaskQueue};
use crate::sched::ready::{Inlet, Levels, ReadyQueue};
use crate::sched::slots::Slots;
use crate::sched::waiters::{Request, WaitQueue, WaiterEntry};
use crate::task::run::Outcome;

/// Tombstones that are left to the workers, however short the queue is. In a model one, so that a
/// worker meets it, and the next is swept.
const FEW_TOMBSTONES: usize = if cfg!(anthill_loom) { 1 } else { 32 };

/// Tasks that must not be discarded, which a discard passes over to find one that may be.
const MOST_PASSED_OVER: usize = 32;

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct State<J> {
    /// Which of a multi-pool's pools it is.
    pub(crate) number: usize,
    pub(crate) open: bool,
    /// No queued task is to start. Never of a released pool.
    pub(crate) paused: bool,
    /// Raised by each reboot.
    pub(crate) generation: u64,
    /// Released by a `release_now`: what has not started is dropped.
    pub(crate) discards: bool,
    pub(crate) capacity: usize,
    /// Workers that block, with another there for each.
    compensating: usize,
    max_compensation: usize,
    pub(crate) depth: usize,
    pub(crate) max_waiting: usize,
    /// Workers that do not expire.
    pub(crate) core_workers: usize,

    pub(crate) in_flight: usize,
    /// Permits that are out.
    pub(crate) reserved: usize,
    /// Taken out of the queue, by a `release_now` or by their handles, and not ended yet: their
    /// captures are being dropped, or they run inside another task.
    pub(crate) disposing: usize,
    /// Threads that took these out, once for each time.
    disposers: Vec<usize>,
    pub(crate) queue: ReadyQueue<J>,
    /// Entries whose tasks their handles took out: in the queue, or just popped by a worker that
    /// is on its way to the next.
    pub(crate) tombstones: usize,
    pub(crate) wait_queue: WaitQueue<J>,

    pub(crate) live: usize,
    pub(crate) searching: usize,
    /// Of those: notified, so out of the idle set, and not awake yet.
    pub(crate) notified: usize,
    pub(crate) leaving: usize,
    pub(crate) idle: IdleSet,
    /// Core workers: parked without a time-out. Some may have been notified since.
    untimed: Vec<Arc<WorkerCell>>,
    pub(crate) starting: bool,
    pub(crate) slots: Slots,
    /// Live, and in their start hook: busy, as far as every other thread knows.
    entering: usize,
    /// The holder of the lock has just started a worker, and perhaps brings a task for it: until
    /// the lock is given back that worker has not looked at the queue yet, and will.
    pub(crate) spoken_for: bool,

    /// Threads of workers that have ended, and may still drop their thread-locals.
    pub(crate) ending: Ending,
    /// A wait for the end joins all of them at this moment.
    pub(crate) joining: bool,
    /// Submitters that wait for the start of the first worker.
    pub(crate) on_start: Events,
    pub(crate) on_idle: Events,
    pub(crate) on_end: Events,
    /// To be called at the release.
    pub(crate) release_listeners: Vec<Weak<dyn ReleaseListener>>,
    pub(crate) counts: Counts,
    /// Until the whole lock is taken again, a worker may go on to the next task undecided.
    fast_path: bool,
    /// Of a multi-pool's member: where the figures are shown to those without the lock.
    pub(crate) load_stats: Option<Arc<LoadStats>>,
    /// Starting a thread asks the user's gate first.
    gated: bool,
    /// A worker that has started runs the user's hook first, or makes its state.
    hooked: bool,
}

/// What a worker does after a section.
pub(crate) enum Next<J> {
    Run(J),
    /// Look for work, counted as searching.
    Search,
    /// Sleep, in the idle set: only of a worker that [searched](State::find).
    Park(Rest),
    /// Go, counted as leaving.
    Leave,
    /// Run the deferred user code, counted as busy and without a task, and then
    /// [`go`](State::go) on.
    RunUserCode,
}

/// How a worker parks.
pub(crate) struct Rest {
    /// Since when it is idle, where that is noted.
    pub(crate) since: Option<Instant>,
    /// It may expire: it is not a core worker.
    pub(crate) timed: bool,
}

impl<J> State<J> {
    #[inline]
    pub(crate) fn view(&self) -> View {
        View {
            open: self.open,
            paused: self.paused,
            in_flight: self.in_flight,
            reserved: self.reserved,
            disposing: self.disposing,
            queued: self.queued(),
            waiting: self.wait_queue.counted(),
            max_waiting: self.max_waiting,
            capacity: self.workers(),
            depth: self.depth,
            live: self.live,
            searching: self.searching,
            notified: self.notified,
            parked: self.idle.len(),
            leaving: self.leaving,
            starting: self.starting,
        }
    }

    /// What the workers are wanted for, beside what asks.
    pub(crate) fn demand(&self) -> Demand {
        if !self.open {
            Demand::Released
        } else if self.paused || self.queued() > 0 || self.wait_queue.len() > 0 {
            Demand::Others
        } else {
            Demand::None
        }
    }

    /// Whether a worker that runs a task is wanted for another, or is to go: none that searches or
    /// is being started will see to it.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        let view = self.view();
        let on_their_way = view.searching + usize::from(view.starting);
        self.paused || view.queued > on_their_way || self.wait_queue.len() > 0 || view.excess() > 0
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
    pub(crate) fn accept(&mut self, job: J, effects: &mut Effects<J>) {
        self.enqueue(job, effects);
        if !self.spoken_for {
            self.notify_workers(effects);
        }
    }

    /// Accepts the first of these jobs, for as long as there is room and a live worker, and decides
    /// whom to notify for all of them.
    pub(crate) fn accept_all(&mut self, jobs: &mut TaskQueue<J>, effects: &mut Effects<J>) {
        let mut accepted = 0;
        while self.view().admission() == Admission::Room
            && let Some(job) = jobs.pop()
        {
            self.enqueue(job, effects);
            accepted += 1;
        }
        // One start, or as many wake-ups as there may be at a time: the policy says when it is
        // enough.
        for _ in 0..accepted.min(MOST_NOTIFIED) {
            self.notify_workers(effects);
        }
    }

    #[inline]
    fn enqueue(&mut self, job: J, effects: &mut Effects<J>) {
        self.push(job, effects);
        if let Some(load_stats) = &self.load_stats {
            load_stats.enter();
        }
    }

    /// A task enters the queue with room that it has, or gets from its permit.
    #[inline]
    fn push(&mut self, job: J, effects: &mut Effects<J>) {
        self.in_flight += 1;
        self.counts.submitted += 1;
        self.queue.push(job);
        effects.searchers |= self.searching > 0;
    }

    /// There are other numbers of workers: shows them to those that do not take the lock.
    fn show_size(&self) {
        if let Some(load_stats) = &self.load_stats {
            load_stats.size(self.live, self.workers());
        }
    }

    /// Step Q2: room goes to the wait queue's heads, as long as there is any of either, and a
    /// worker.
    #[inline]
    pub(crate) fn admit_heads(&mut self, effects: &mut Effects<J>) {
        if self.wait_queue.len() > 0 {
            self.admit_while_room(effects);
        }
    }

    fn admit_while_room(&mut self, effects: &mut Effects<J>) {
        while self.live > 0 && self.view().has_room() {
            let Some(entry) = self.wait_queue.pop() else {
                break;
            };
            // A waiter entry that another pool served, or that its owner is leaving, is empty.
            if let Some((request, waiter)) = entry.claim(self.number) {
                match request {
                    Request::Task(job) => self.enqueue(job, effects),
                    Request::Permit => self.reserve(),
                }
                effects.wake(waiter);
            } else {
                effects.drop_later(entry);
            }
        }
    }

    /// A call is refused for good, and counted so.
    pub(crate) fn refuse<L>(&mut self, why: Closed<L>) -> Reason {
        self.counts.refused += 1;
        why.reason()
    }

    /// A worker has been started. Where it is a pool's first, a multi-pool's waiters may stand in
    /// the wait queue, though there is room: they go before the caller, in the section that counts
    /// the worker.
    pub(crate) fn admit_waiters(&mut self, effects: &mut Effects<J>) {
        if self.wait_queue.len() > 0 {
            let before = self.in_flight;
            // The new worker notifies others if it finds more than one task. A task of the caller's
            // is one more.
            self.admit_heads(effects);
            self.spoken_for &= self.in_flight == before;
        }
    }

    /// Steps N1, N2, N4: asks the wake policy, and takes a parked worker out of the idle set, or
    /// reserves a start.
    #[inline]
    pub(crate) fn notify_workers(&mut self, effects: &mut Effects<J>) {
        match self.view().wake_policy() {
            Notify::Nothing => {}
            Notify::Parked => {
                if let Some(cell) = self.idle.pop() {
                    // Step N2, in this same section.
                    self.searching += 1;
                    self.notified += 1;
                    effects.wake_worker(&cell);
                }
            }
            Notify::Start => {
                self.starting = true;
                effects.start = true;
            }
        }
    }

    /// Step W4: a notified worker is awake, and goes on searching.
    pub(crate) fn worker_woke(&mut self) {
        self.notified -= 1;
    }

    /// A task that held room has ended.
    #[inline]
    fn end(&mut self, outcome: Outcome) {
        if outcome == Outcome::Withdrawn {
            self.tombstones -= 1; // All else was done when it was withdrawn.
            return;
        }
        if outcome == Outcome::PassedOn {
            return; // All was done when it was passed on.
        }
        self.counts.count(outcome);
        self.in_flight -= 1;
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(1);
        }
    }

    /// Whether a worker whose task has ended takes the next, with nothing else to be decided.
    #[inline]
    pub(crate) fn may_go_on(&self) -> bool {
        self.fast_path && self.queue.len_only() > 0
    }

    /// The same in a queue with levels.
    pub(crate) fn may_go_on_by_level(&self) -> bool {
        self.fast_path && self.queue.has_next()
    }

    /// Step W6: a task has ended; its worker takes the next, if there is one and it [may go
    /// on](State::may_go_on). What is done after it was popped would move it once more.
    #[inline]
    pub(crate) fn go_on(&mut self, outcome: Outcome) -> Option<J> {
        self.end(outcome);
        self.queue.pop_only()
    }

    /// The same in a queue with levels.
    pub(crate) fn go_on_by_level(&mut self, outcome: Outcome) -> Option<J> {
        self.end(outcome);
        self.queue.pop()
    }

    /// Tasks that entered through the inbox are counted, and join the queue.
    #[inline]
    pub(crate) fn drain_inbox(&mut self, entered: &mut TaskQueue<J>, inlet: Option<&mut Inlet<J>>) {
        let count = entered.len() + inlet.as_ref().map_or(0, |inlet| inlet.len());
        self.in_flight += count;
        self.counts.submitted += count as u64;
        self.queue.append(entered, inlet);
    }

    /// Steps U1 and U2, as the lock is released: how many tasks may enter until it is taken again,
    /// and whether workers may go on undecided.
    #[inline]
    pub(crate) fn grant_credits(&mut self) -> usize {
        self.spoken_for = false;
        let view = self.view();
        self.fast_path = self.wait_queue.len() == 0 && view.fast_path_enabled();
        view.credits()
    }

    /// The full flag: whether a call that does not wait is refused without the lock.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.open && !self.view().has_room()
    }

    /// Step W7: a task has ended; one section frees its room and finds the next. Unless user code
    /// is deferred: its handle's waker (`runs_user_code`), or one of the wait queue.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        outcome: Outcome,
        runs_user_code: bool,
        effects: &mut Effects<J>,
    ) -> Next<J> {
        self.end(outcome);
        self.admit_heads(effects);
        self.set_if_idle(effects);
        if runs_user_code || effects.has_user_code() {
            // Step W8.
            self.notify_workers(effects); // Others do what is there to be done meanwhile.
            return Next::RunUserCode;
        }
        self.go(true, effects)
    }

    /// A worker that is busy with nothing any more goes on. `may_start`: not if it has just been
    /// refused a thread, or it would ask for ever.
    #[inline]
    pub(crate) fn go(&mut self, may_start: bool, effects: &mut Effects<J>) -> Next<J> {
        if self.view().excess() > 0 {
            // A worker may be parked all the same: the excess one was being started when the
            // capacity shrank.
            self.leaving += 1;
            self.notify_workers(effects);
            return Next::Leave;
        }
        if !self.paused
            && let Some(job) = self.queue.pop()
        {
            self.take(job, may_start, effects)
        } else if self.open || self.view().is_last_for_permits() {
            self.searching += 1;
            Next::Search
        } else {
            self.leaving += 1;
            Next::Leave
        }
    }

    /// A busy worker has popped a task. It keeps it, unless it is to ask the user's gate first.
    #[inline]
    fn take(&mut self, job: J, may_start: bool, effects: &mut Effects<J>) -> Next<J> {
        // Nothing here unwinds; where something might, the compiler would look into the job for its
        // destructor, and move it in two parts, which stalls the processor.
        let job = ManuallyDrop::new(job);
        if may_start || self.idle.len() > 0 {
            self.notify_workers(effects);
        }
        let job = ManuallyDrop::into_inner(job);
        if effects.start && self.gated {
            self.queue.unpop(job);
            return Next::RunUserCode;
        }
        Next::Run(job)
    }

    /// Step W9: a worker has to call a waker that came as it went on already: it is busy again, and
    /// what it was about to do is left to others.
    #[cold]
    pub(crate) fn put_off(&mut self, next: Next<J>, effects: &mut Effects<J>) {
        match next {
            Next::Run(job) => self.queue.unpop(job),
            Next::Search => self.searching -= 1,
            Next::Leave => {
                self.leaving -= 1;
                self.time_core_workers(effects);
            }
            Next::Park(_) => unreachable!("a busy worker searches before it parks"),
            Next::RunUserCode => {}
        }
        self.notify_workers(effects);
    }

    #[inline]
    fn set_if_idle(&mut self, effects: &mut Effects<J>) {
        if self.unfinished() == 0 && !self.on_idle.is_empty() {
            effects.set_all(&mut self.on_idle);
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
        effects: &mut Effects<J>,
    ) -> Next<J> {
        self.searching -= 1;
        if self.view().excess() == 0
            && !self.paused
            && let Some(job) = self.queue.pop()
        {
            // Step W1.
            return self.take(job, true, effects);
        }
        match self.view().without_work(self.core_workers) {
            Without::Leave => {
                self.leaving += 1;
                self.notify_workers(effects); // As in `go`.
                Next::Leave
            }
            // Step W2: in the section that found the queue empty.
            Without::ParkTimed => Next::Park(Rest {
                since: self.idle.push(cell, now),
                timed: true,
            }),
            Without::Park => {
                let since = self.idle.push(cell, now);
                self.keep(cell, since);
                Next::Park(Rest {
                    since,
                    timed: false,
                })
            }
        }
    }

    /// Step R1: nothing is accepted any more; waiters get their tasks back, idle workers go.
    /// Whether it was open, and which generation ends.
    pub(crate) fn release(&mut self, effects: &mut Effects<J>) -> (bool, u64) {
        let was_open = std::mem::replace(&mut self.open, false);
        if was_open {
            self.stop_accepting(effects);
        }
        (was_open, self.generation)
    }

    fn stop_accepting(&mut self, effects: &mut Effects<J>) {
        self.resume(effects);
        for entry in self.wait_queue.take_all() {
            // A waiter entry that another pool served, or that its owner is leaving, is empty.
            let (given_back, waiter) = entry.give_back();
            self.counts.refused += u64::from(given_back);
            effects.wake(waiter);
            effects.drop_later(entry); // Its owner may be gone, and leave us its task or its waker.
        }
        for listener in self.release_listeners.drain(..) {
            effects.push_released(listener);
        }
        self.dismiss_idle(effects);
        self.set_if_ended(effects);
    }

    /// A released pool's queue is emptied by a `release_now`. The tasks stay unfinished until
    /// their captures are dropped, which is user code.
    pub(crate) fn take_unstarted(
        &mut self,
        seize: &dyn Fn(&J) -> bool,
    ) -> impl Iterator<Item = J> + use<J> {
        self.discards = true;
        let unstarted = self.queue.iter().filter(|job| seize(job)).count();
        self.tombstones -= self.queue.len() - unstarted;
        self.disposers.push(thread_number());
        self.in_flight -= unstarted;
        self.disposing += unstarted;
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(unstarted);
        }
        self.queue.take_all()
    }

    /// A full pool accepts a task that holds no room: the calling thread runs it, or drops it, and
    /// says when it is [`disposed`](State::disposed) of.
    pub(crate) fn begin_disposal(&mut self) {
        self.counts.submitted += 1;
        self.disposing += 1;
        self.disposers.push(thread_number());
    }

    /// A full pool gives up the oldest of its queued tasks that it may, for one that takes its
    /// place: it is to be [`disposed`](State::disposed) of. Beside it the tombstones that lay before
    /// it.
    pub(crate) fn take_oldest(
        &mut self,
        may_discard: &dyn Fn(&J) -> bool,
        seize: &dyn Fn(&J) -> bool,
    ) -> (Option<J>, Vec<J>) {
        let (mut taken, mut tombstones, mut passed_over) = (None, Vec::new(), Vec::new());
        while taken.is_none()
            && passed_over.len() < MOST_PASSED_OVER
            && let Some(oldest) = self.queue.pop_lowest()
        {
            if !may_discard(&oldest) {
                passed_over.push(oldest);
            } else if seize(&oldest) {
                taken = Some(oldest);
            } else {
                self.tombstones -= 1;
                tombstones.push(oldest);
            }
        }
        for job in passed_over.into_iter().rev() {
            self.queue.unpop_lowest(job);
        }
        (taken, tombstones)
    }

    /// The task that takes its place: one comes for one, so nothing changes for those that wait for
    /// room, nor for the wake policy.
    pub(crate) fn replace(&mut self, job: J) {
        self.begin_disposal();
        self.queue.push(job);
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

    /// Step C1: a handle has just claimed a task whose entry is in the queue, or was popped by a
    /// worker that now finds it a tombstone. The task holds no room any more; the rest of it is the
    /// handle's affair, which says when it is [`disposed`](State::disposed) of.
    ///
    /// Tombstones that are too many are swept out, to be dropped when the lock is free; their block
    /// may [come back](TaskQueue::give_back).
    pub(crate) fn withdraw(
        &mut self,
        is_tombstone: &dyn Fn(&J) -> bool,
        effects: &mut Effects<J>,
    ) -> Option<Block<J>> {
        self.tombstones += 1;
        self.in_flight -= 1;
        self.disposing += 1;
        self.disposers.push(thread_number());
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(1);
        }
        self.admit_heads(effects);
        self.notify_workers(effects);
        (self.tombstones > self.queue.len() / 2 + FEW_TOMBSTONES).then(|| {
            let swept = self.queue.sweep(is_tombstone);
            self.tombstones -= swept.len();
            swept
        })
    }

    /// Step C3: one of those that were taken out has been disposed of, or has ended.
    pub(crate) fn disposed(&mut self, outcome: Outcome, effects: &mut Effects<J>) {
        self.disposing -= 1;
        self.counts.count(outcome);
        self.set_if_idle(effects);
        self.set_if_ended(effects);
    }

    /// Another number of workers from now on. Nothing has changed if that is refused.
    pub(crate) fn tune(
        &mut self,
        capacity: Capacity,
        effects: &mut Effects<J>,
    ) -> Result<(), TuneError> {
        let capacity = capacity.bound();
        if capacity == 0 {
            return Err(TuneError::ZeroCapacity);
        }
        if capacity == UNLIMITED && self.idle.is_ring() {
            return Err(TuneError::PreallocateUnlimited);
        }
        let slots = capacity.saturating_add(self.max_compensation);
        if capacity > self.capacity {
            self.idle.resize(slots).map_err(TuneError::OutOfMemory)?;
            self.capacity = capacity;
        } else {
            self.capacity = capacity;
            self.retire_excess(effects);
            // Without memory for fewer slots the ring keeps those it has.
            let _ = self.idle.resize(slots);
        }
        self.show_size();
        self.admit_heads(effects);
        self.notify_workers(effects);
        Ok(())
    }

    /// Open again. Waits for the end are woken, and find another generation. `false` if it was
    /// open.
    pub(crate) fn reboot(&mut self, effects: &mut Effects<J>) -> bool {
        let was_released = !std::mem::replace(&mut self.open, true);
        if was_released {
            self.discards = false;
            self.generation += 1;
            effects.set_all(&mut self.on_end);
        }
        was_released
    }

    /// Step Q1: a waiter's entry joins the wait queue.
    pub(crate) fn enqueue_waiter(&mut self, entry: Arc<WaiterEntry<J>>) -> u64 {
        self.wait_queue.push(entry)
    }
}

impl<J> State<J> {
    /// With `levels` if the pool goes by priorities.
    pub(crate) fn new(config: &Config, levels: Option<Levels<J>>) -> Result<Self, TryReserveError> {
        Ok(Self {
            number: 0,
            open: true,
            paused: config.start_paused,
            generation: 0,
            discards: false,
            capacity: config.capacity,
            compensating: 0,
            max_compensation: config.max_compensation,
            depth: config.depth,
            max_waiting: config.max_waiting,
            core_workers: config.min_workers,
            in_flight: 0,
            reserved: 0,
            disposing: 0,
            disposers: Vec::new(),
            queue: ReadyQueue::new(levels),
            tombstones: 0,
            wait_queue: WaitQueue::new(),
            live: 0,
            searching: 0,
            notified: 0,
            leaving: 0,
            idle: if config.preallocate {
                IdleSet::ring(config.capacity.saturating_add(config.max_compensation))?
            } else {
                IdleSet::stack()
            },
            untimed: Vec::new(),
            starting: false,
            slots: Slots::default(),
            entering: 0,
            spoken_for: false,
            ending: Ending::default(),
            joining: false,
            on_start: Events::new(),
            on_idle: Events::new(),
            on_end: Events::new(),
            release_listeners: Vec::new(),
            counts: Counts::default(),
            fast_path: false,
            load_stats: None,
            gated: config.thread_gate.is_some(),
            hooked: config.has_entry_code(),
        })
    }
}

mod blocking;
mod keys;
mod pause;
mod permits;
mod staff;
#[cfg(all(test, not(anthill_loom)))]
mod tests;
