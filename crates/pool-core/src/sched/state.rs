//! The data under the pool's lock; every change to it is one method, called a section.
//!
//! A section runs no user code. Wake-ups, a thread start and drops are deferred to [`Effects`] until the lock
//! is free. The decisions are in `decide.rs`.
//!
//! [`go_on`](State::go_on) is the only section that may run without the inbox's half of the lock (see
//! `shared.rs`). Tasks in the inbox are not counted here until it is drained.
//!
//! # Invariants, whenever the lock is free and the inbox empty
//! 1. `in_flight` is the number of accepted tasks that hold room: the queued ones, and one for each worker that
//!    runs a task. A task that a `release_now` or a handle removed holds no room; until it has ended it is
//!    counted in `disposing`. A handle leaves its entry in the queue as a tombstone. `reserved` is the number of
//!    unused permits, which hold room as well.
//! 2. Submitters wait in the wait queue only while there is no room, so only while some worker is live. Only
//!    a multi-pool's waiters also wait while the system refuses to start the first worker.
//! 3. While the queue holds a task some worker is live. Every live worker checks the queue under the lock before
//!    it parks and before it ends.
//! 4. While a permit is out some worker is live.
//! 5. If the queue holds a task and no worker searches, then no worker is parked, and either the number of
//!    workers is at its maximum, or one is being started, or the system refused to start one.

use std::collections::TryReserveError;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};
use std::time::Instant;

use sync_shim::thread::thread_number;

use crate::config::{Capacity, Config, UNLIMITED};
use crate::error::{Closed, Reason, TuneError};
use crate::sched::decide::{Admission, Demand, MOST_NOTIFIED, Notify, View, Without};
use crate::sched::effects::{Effects, ReleaseListener};
use crate::sched::event::Events;
use crate::sched::load::{Counts, LoadStats, Outcome};
use crate::sched::queue::{Block, TaskQueue};
use crate::sched::ready::{Inlet, OtherLevels, ReadyQueue};
use crate::sched::waiters::{Request, WaitQueue, WaiterEntry};
use crate::sched::workers::{Ending, IdleSet, Slots, WorkerCell};

/// Number of tombstones that are left for the workers to pop, however short the queue is.
// A sweep costs a walk over a block, so a few must pile up before it pays. In a model the number is 1, so that
// one tombstone reaches a worker and the next one is swept.
const FEW_TOMBSTONES: usize = if cfg!(anthill_loom) { 1 } else { 32 };

/// Maximum number of undiscardable tasks that a discard passes over to find a discardable one.
// Bounded, because they are moved under the lock.
const MOST_PASSED_OVER: usize = 32;

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct State<J> {
    /// Index among a multi-pool's members.
    pub(crate) number: usize,
    pub(crate) open: bool,
    /// Whether queued tasks are held back. Never `true` in a released pool.
    pub(crate) paused: bool,
    /// Number of reboots.
    pub(crate) generation: u64,
    /// Whether a `release_now` drops unstarted tasks.
    pub(crate) discards: bool,
    pub(crate) capacity: usize,
    /// Number of blocked workers that another worker compensates for.
    compensating: usize,
    max_compensation: usize,
    pub(crate) depth: usize,
    pub(crate) max_waiting: usize,
    /// Number of workers that do not expire.
    pub(crate) core_workers: usize,

    pub(crate) in_flight: usize,
    /// Number of unused permits.
    pub(crate) reserved: usize,
    /// Tasks removed from the queue by a `release_now` or by their handles that have not ended: their captures are
    /// being dropped, or they run inside another task.
    pub(crate) disposing: usize,
    /// The threads that dispose of these, one element per removal.
    disposers: Vec<usize>,
    pub(crate) queue: ReadyQueue<J>,
    /// Entries whose tasks were removed by their handles. They are in the queue, or in the hands of a worker that
    /// has popped one and is about to take the next.
    pub(crate) tombstones: usize,
    pub(crate) wait_queue: WaitQueue<J>,

    pub(crate) live: usize,
    pub(crate) searching: usize,
    /// Searching workers that were taken out of the idle set and are not awake yet.
    pub(crate) notified: usize,
    pub(crate) leaving: usize,
    pub(crate) idle: IdleSet,
    /// Core workers, which park without a timeout. Some may have been notified since.
    untimed: Vec<Arc<WorkerCell>>,
    pub(crate) starting: bool,
    pub(crate) slots: Slots,
    /// Live workers that run their start hook. Other threads see them as busy.
    entering: usize,
    /// Set while the holder of the lock has just started a worker and may be bringing a task for it. That worker
    /// will check the queue after the lock is released, so the task needs no other notification.
    pub(crate) spoken_for: bool,

    /// Threads of ended workers that may still be dropping their thread-locals.
    pub(crate) ending: Ending,
    /// Whether a wait for the end is joining these threads.
    pub(crate) joining: bool,
    /// Submitters that wait until the first worker has started.
    pub(crate) on_start: Events,
    pub(crate) on_idle: Events,
    pub(crate) on_end: Events,
    /// Listeners to call at the release.
    pub(crate) release_listeners: Vec<Weak<dyn ReleaseListener>>,
    pub(crate) counts: Counts,
    /// Whether workers may take the next task without a decision. Valid until the whole lock is taken again.
    fast_path: bool,
    /// In a multi-pool's member: the figures that are readable without the lock.
    pub(crate) load_stats: Option<Arc<LoadStats>>,
    /// Whether the user's gate has to be asked before a thread is started.
    gated: bool,
    /// Whether a new worker first runs user code: a start hook, or the constructor of its state.
    hooked: bool,
}

/// Next step of a worker after a section.
pub(crate) enum Next<J> {
    Run(J),
    /// Look for work. The worker is counted as searching.
    Search,
    /// Sleep in the idle set. Only [`find`](State::find) returns this.
    Park(Rest),
    /// End. The worker is counted as leaving.
    Leave,
    /// Run the deferred user code, then call [`go`](State::go). The worker is counted as busy and has no task.
    RunUserCode,
}

/// How a worker parks.
pub(crate) struct Rest {
    /// When the worker became idle, if a keep-alive is set.
    pub(crate) since: Option<Instant>,
    /// Whether the worker may expire. Core workers do not.
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
            // Without tombstones, because a worker that was woken for one would find nothing to run.
            queued: self.queued(),
            waiting: self.wait_queue.counted(),
            max_waiting: self.max_waiting,
            // With compensation, so that every decision treats it like a change of the capacity.
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

    /// Returns the demand for workers other than the caller.
    pub(crate) fn demand(&self) -> Demand {
        if !self.open {
            Demand::Released
        } else if self.paused {
            Demand::Paused
        } else if self.queued() > 0 || self.wait_queue.len() > 0 {
            Demand::Others
        } else {
            Demand::None
        }
    }

    /// Whether a busy worker is needed for another task or has to end, because no searching or starting worker
    /// will take care of it.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        // Workers on their way to the queue take one task each; only the tasks beyond these need a busy worker.
        let view = self.view();
        let on_their_way = view.searching + usize::from(view.starting);
        self.paused || view.queued > on_their_way || self.wait_queue.len() > 0 || view.excess() > 0
    }

    /// Whether a task waits for a busy worker: in the wait queue, or in the queue because fewer workers are idle, on their
    /// way to the queue, or can be started than tasks are queued.
    pub(crate) fn is_saturated(&self) -> bool {
        let view = self.view();
        let startable = view.capacity.saturating_sub(view.live);
        let free = (view.parked + view.searching).saturating_add(startable);
        view.paused || view.queued > free || self.wait_queue.len() > 0
    }

    /// Number of accepted tasks that have not started.
    #[inline]
    pub(crate) fn queued(&self) -> usize {
        // While a worker holds a popped tombstone the result is one too low. That is safe: the worker checks the
        // queue next and does nothing before that, so it is already on its way to the task that is not counted.
        self.queue.len().saturating_sub(self.tombstones)
    }

    /// Accepts a task. The caller has checked that there are room and a live worker.
    #[inline]
    pub(crate) fn accept(&mut self, job: J, effects: &mut Effects<J>) {
        self.enqueue(job, effects);
        // A worker that was just started takes this task, so a second one would find nothing.
        if !self.spoken_for {
            self.notify_workers(effects);
        }
    }

    /// Accepts tasks from the front of `jobs` while there is room and a live worker, then notifies workers for all
    /// of them.
    pub(crate) fn accept_all(&mut self, jobs: &mut TaskQueue<J>, effects: &mut Effects<J>) {
        let mut accepted = 0;
        while self.view().admission() == Admission::Room
            && let Some(job) = jobs.pop()
        {
            self.enqueue(job, effects);
            accepted += 1;
        }
        // Asked once per accepted task, because each call wakes at most one worker. The policy itself stops after
        // one start or `MOST_NOTIFIED` wake-ups.
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

    /// Queues a task that already has room, or takes its permit's.
    #[inline]
    fn push(&mut self, job: J, effects: &mut Effects<J>) {
        self.in_flight += 1;
        self.counts.submitted += 1;
        self.queue.push(job);
        // A spinning worker looks without the lock, so it must be shown the task by a hint.
        effects.searchers |= self.searching > 0;
    }

    /// Publishes the number of workers in the load statistics.
    fn show_size(&self) {
        if let Some(load_stats) = &self.load_stats {
            load_stats.size(self.live, self.workers());
        }
    }

    /// Step Q2: admits waiting submitters from the head of the wait queue while there are room and a worker.
    #[inline]
    pub(crate) fn admit_heads(&mut self, effects: &mut Effects<J>) {
        if self.wait_queue.len() > 0 {
            self.admit_while_room(effects);
        }
    }

    fn admit_while_room(&mut self, effects: &mut Effects<J>) {
        // Without a worker nobody would run an admitted task: the submitter that starts the first one calls again.
        while self.live > 0 && self.view().has_room() {
            let Some(entry) = self.wait_queue.pop() else {
                break;
            };
            // A request that was served by another pool, or that its owner is withdrawing, has left its entry.
            if let Some((request, waiter)) = entry.claim(self.number) {
                match request {
                    Request::Task(job) => self.enqueue(job, effects),
                    Request::Permit => self.reserve(),
                }
                // Deferred: its owner would meet the lock that is held here.
                effects.wake(waiter);
            } else {
                // The entry may hold the last reference to a waker, whose drop is user code: it must wait until after
                // the section.
                effects.drop_later(entry);
            }
        }
    }

    /// Counts a refused call and returns the reason.
    pub(crate) fn refuse<L>(&mut self, why: Closed<L>) -> Reason {
        self.counts.refused += 1;
        why.reason()
    }

    /// Admits waiting submitters after a worker start, in the section that counts the worker.
    ///
    /// A multi-pool's waiters may wait even though there is room, if this is the pool's first worker. They
    /// precede the caller.
    pub(crate) fn admit_waiters(&mut self, effects: &mut Effects<J>) {
        if self.wait_queue.len() > 0 {
            // A waiter of this pool alone cannot be there: it would have needed a full pool, which has a worker.
            let before = self.in_flight;
            // The new worker notifies others if it finds more than one task. If a waiter's task is already
            // queued, the caller's would be the second one, so it must notify somebody itself.
            self.admit_heads(effects);
            self.spoken_for &= self.in_flight == before;
        }
    }

    /// Steps N1, N2 and N4: asks the wake policy, then takes a parked worker out of the idle set or reserves a
    /// start.
    #[inline]
    pub(crate) fn notify_workers(&mut self, effects: &mut Effects<J>) {
        match self.view().wake_policy() {
            Notify::Nothing => {}
            Notify::Parked => {
                if let Some(cell) = self.idle.pop() {
                    // Step N2. In the section that popped it: otherwise the worker would be neither parked nor
                    // searching in between, and a submit would notify a second one for the same task.
                    self.searching += 1;
                    // Counted until it is awake, so that a burst knows how many wake-ups are under way.
                    self.notified += 1;
                    effects.wake_worker(&cell);
                }
            }
            Notify::Start => {
                // Reserved under the lock, carried out after it: starting a thread is a system call.
                self.starting = true;
                effects.start = true;
            }
        }
    }

    /// Step W4: a notified worker is awake and keeps searching.
    pub(crate) fn worker_woke(&mut self) {
        self.notified -= 1;
    }

    /// Counts the end of a task and frees its room.
    #[inline]
    fn end(&mut self, outcome: Outcome) {
        // Its room was freed and its end counted by the handle, in `withdraw` and `disposed`. The worker
        // uncounts the tombstone only now, so that `queued` never counts it as a task.
        if outcome == Outcome::Withdrawn {
            self.tombstones -= 1; // All else was done when it was withdrawn.
            return;
        }
        if outcome == Outcome::Requeued {
            return; // Its other job is in flight in its place.
        }
        self.counts.count(outcome);
        self.in_flight -= 1;
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(1);
        }
    }

    /// Whether a worker whose task has ended takes the next one without a decision.
    #[inline]
    pub(crate) fn may_go_on(&self) -> bool {
        self.fast_path && self.queue.len_only() > 0
    }

    /// The same for a queue with priorities.
    // Not one function with the case distinction inside: it is on the path of every task of a busy pool.
    pub(crate) fn may_go_on_by_level(&self) -> bool {
        self.fast_path && self.queue.has_next()
    }

    /// Step W6: counts the end of a task and pops the worker's next one, if it [may go on](State::may_go_on).
    #[inline]
    pub(crate) fn go_on(&mut self, outcome: Outcome) -> Option<J> {
        self.end(outcome);
        // Last, because code after the pop would make the compiler move the job once more.
        self.queue.pop_only()
    }

    /// The same for a queue with priorities.
    pub(crate) fn go_on_by_level(&mut self, outcome: Outcome) -> Option<J> {
        self.end(outcome);
        self.queue.pop()
    }

    /// Counts the tasks that entered through the inbox and appends them to the queue.
    #[inline]
    pub(crate) fn drain_inbox(&mut self, entered: &mut TaskQueue<J>, inlet: Option<&mut Inlet<J>>) {
        let count = entered.len() + inlet.as_ref().map_or(0, |inlet| inlet.len());
        // Nobody is notified: the credits that these tasks used stand for exactly that.
        self.in_flight += count;
        self.counts.submitted += count as u64;
        // Behind the queue's own tasks, because all of these were accepted before the inbox was opened again.
        self.queue.append(entered, inlet);
    }

    /// Steps U1 and U2, before the lock is released: returns how many tasks may enter until it is taken again, and
    /// decides whether workers may take their next task without a decision.
    #[inline]
    pub(crate) fn grant_credits(&mut self) -> usize {
        // Only for this hold of the lock: afterwards the new worker may have taken its task.
        self.spoken_for = false;
        let view = self.view();
        // A waiting submitter needs a decision at each end of a task, because the freed room is its own.
        self.fast_path = self.wait_queue.len() == 0 && view.fast_path_enabled();
        view.credits()
    }

    /// Whether a call that does not wait may be refused without the lock.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.open && !self.view().has_room()
    }

    /// Step W7: counts the end of a task, frees its room and returns the worker's next step, in one section. If
    /// user code is deferred, a waker of the task's handle (`runs_user_code`) or of the wait queue, the worker runs
    /// that first.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        outcome: Outcome,
        runs_user_code: bool,
        effects: &mut Effects<J>,
    ) -> Next<J> {
        self.end(outcome);
        // Before the worker's next task is chosen: the freed room belongs to the head of the wait queue, so that no
        // later submit takes it.
        self.admit_heads(effects);
        // After waiters were admitted, since the pool is not idle if one of them had a task.
        self.set_if_idle(effects);
        if runs_user_code || effects.has_user_code() {
            // Step W8. User code may take its time, so other workers must take the queued tasks meanwhile.
            self.notify_workers(effects);
            return Next::RunUserCode;
        }
        self.go(true, effects)
    }

    /// Chooses the next step of a worker that is counted as busy and has no task. `may_start` is false after the
    /// system has refused the worker a thread: otherwise it would ask again without end.
    #[inline]
    pub(crate) fn go(&mut self, may_start: bool, effects: &mut Effects<J>) -> Next<J> {
        if self.view().excess() > 0 {
            // A worker may be parked although there are too many: the excess one was being started when the
            // capacity shrank. It must be notified, since this one leaves without a look at the queue.
            self.leaving += 1;
            self.notify_workers(effects);
            return Next::Leave;
        }
        if !self.paused
            && let Some(job) = self.queue.pop()
        {
            self.take(job, may_start, effects)
        } else if self.open || self.view().is_last_for_permits() {
            // Counted before the lock is released, so that a submit that follows relies on this worker's look.
            self.searching += 1;
            Next::Search
        } else {
            self.leaving += 1;
            Next::Leave
        }
    }

    /// Gives a popped task to a busy worker, unless the worker must ask the user's gate first.
    #[inline]
    fn take(&mut self, job: J, may_start: bool, effects: &mut Effects<J>) -> Next<J> {
        // Nothing here unwinds. If something might, the compiler would read the job for its destructor and move it
        // in two parts, which would stall the processor.
        let job = ManuallyDrop::new(job);
        // Waking a parked worker needs no thread, so it is not affected by a refused start.
        if may_start || self.idle.len() > 0 {
            self.notify_workers(effects);
        }
        let job = ManuallyDrop::into_inner(job);
        if effects.start && self.gated {
            // The gate is user code, which must not run while the worker holds a task that others could do.
            self.queue.unpop(job);
            return Next::RunUserCode;
        }
        Next::Run(job)
    }

    /// Step W9: undoes a worker's next step, because it first has to call a waker that was registered meanwhile.
    /// The worker is busy again; the step is left to others.
    #[cold]
    pub(crate) fn put_off(&mut self, next: Next<J>, effects: &mut Effects<J>) {
        match next {
            Next::Run(job) => self.queue.unpop(job),
            // Undone so that no submit relies on a look that comes only after the waker has returned.
            Next::Search => self.searching -= 1,
            Next::Leave => {
                self.leaving -= 1;
                // One more worker stays, so a parked core worker may be the one that has to expire.
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

    /// Number of accepted tasks that have not ended.
    pub(crate) fn unfinished(&self) -> usize {
        self.in_flight + self.disposing
    }

    /// Checks the queue for a searching worker: the last check before it parks or leaves. If it `lingers` and no other
    /// worker searches, it goes on searching instead of parking.
    pub(crate) fn find(
        &mut self,
        cell: &Arc<WorkerCell>,
        now: Option<Instant>,
        lingers: bool,
        effects: &mut Effects<J>,
    ) -> Next<J> {
        // In every case: the worker takes a task, parks or leaves, and none of these is searching.
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
                // As in `go`: a parked worker must not miss the task that this one leaves behind.
                self.notify_workers(effects);
                Next::Leave
            }
            // One at a time, because each takes a core.
            _ if lingers && self.searching == 0 => {
                self.searching += 1;
                Next::Search
            }
            // Step W2. In the section that found the queue empty: a task that comes after it finds the worker
            // among the parked ones, so no wake-up is lost.
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

    /// Step R1: stops accepting tasks, returns the requests of waiting submitters and dismisses idle workers.
    /// Returns whether the pool was open, and the generation that ends.
    pub(crate) fn release(&mut self, effects: &mut Effects<J>) -> (bool, u64) {
        let was_open = std::mem::replace(&mut self.open, false);
        if was_open {
            self.stop_accepting(effects);
        }
        (was_open, self.generation)
    }

    fn stop_accepting(&mut self, effects: &mut Effects<J>) {
        // First, because a released pool is never paused: its tasks run, or are dropped by a `release_now`.
        self.resume(effects);
        for entry in self.wait_queue.take_all() {
            // A task that continues a running one is part of it. It may take the place of one more than the pool has room for.
            if entry.is_continuation() {
                if let Some((Request::Task(job), _)) = entry.claim(self.number) {
                    self.accept(job, effects);
                }
                continue;
            }
            // A request that was served by another pool, or that its owner is withdrawing, has left its entry.
            let (given_back, waiter) = entry.give_back();
            self.counts.refused += u64::from(given_back);
            effects.wake(waiter);
            // Its owner may be gone. Then the last reference, with a task or a waker, must not be dropped here.
            effects.drop_later(entry);
        }
        // Called after the section, because a listener is another crate's code and may take locks of its own.
        for listener in self.release_listeners.drain(..) {
            effects.call_later(move || {
                if let Some(listener) = listener.upgrade() {
                    listener.released();
                }
            });
        }
        // A parked worker would sleep for ever otherwise: nothing is submitted any more that would wake it.
        self.dismiss_idle(effects);
        // A pool without workers has ended at once: no worker would report it.
        self.set_if_ended(effects);
    }

    /// Empties the queue for a `release_now`. The tasks count as unfinished until their captures, which are user
    /// data, are dropped.
    pub(crate) fn take_unstarted(
        &mut self,
        seize: &dyn Fn(&J) -> bool,
    ) -> impl Iterator<Item = J> + use<J> {
        // For tasks that are not in the queue but in a lane: their worker finds the flag at its next end of a task.
        self.discards = true;
        // A handle may claim a task at the same time. `seize` decides the race per task; the losers are tombstones.
        let unstarted = self.queue.iter().filter(|job| seize(job)).count();
        self.tombstones -= self.queue.len() - unstarted;
        // Recorded, so that a destructor that waits for its own disposal is refused and does not hang.
        self.disposers.push(thread_number());
        self.in_flight -= unstarted;
        self.disposing += unstarted;
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(unstarted);
        }
        // Dropped by the caller: destructors of captures are user code.
        self.queue.take_all()
    }

    /// Accepts a task into a full pool without room, for a caller that runs or drops it itself. The caller reports
    /// the end with [`disposed`](State::disposed).
    pub(crate) fn begin_disposal(&mut self) {
        self.counts.submitted += 1;
        // Not in flight, because it would exceed the limit, but unfinished, so that waits for an idle pool include it.
        self.disposing += 1;
        self.disposers.push(thread_number());
    }

    /// Removes the oldest discardable task from a full pool, for a new task that takes its room. The caller
    /// disposes of it and reports the end with [`disposed`](State::disposed). Also returns the tombstones that
    /// preceded it.
    pub(crate) fn take_oldest(
        &mut self,
        may_discard: &dyn Fn(&J) -> bool,
        seize: &dyn Fn(&J) -> bool,
    ) -> (Option<J>, Vec<J>) {
        let (mut taken, mut tombstones, mut passed_over) = (None, Vec::new(), Vec::new());
        // From the lowest priority up. Tombstones are dropped by the caller, because their drop is user code.
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
        // Newest first, so that each one gets its old place in the order.
        for job in passed_over.into_iter().rev() {
            self.queue.unpop_lowest(job);
        }
        (taken, tombstones)
    }

    /// Queues the task that takes a discarded one's room. The number of queued tasks does not change, so neither
    /// waiting submitters nor the wake policy are asked.
    pub(crate) fn replace(&mut self, job: J) {
        // The removed task and the new one change places: one is being disposed of, the other holds the room.
        self.begin_disposal();
        self.queue.push(job);
    }

    /// The calling thread has finished one of its disposals.
    pub(crate) fn end_disposal(&mut self) {
        let us = thread_number();
        // From the back, since the disposals of a thread nest and the last one ends first.
        if let Some(at) = self.disposers.iter().rposition(|&thread| thread == us) {
            self.disposers.swap_remove(at);
        }
    }

    /// Whether the calling thread is disposing of tasks. If so it must not wait for their end.
    pub(crate) fn is_disposed_of_here(&self) -> bool {
        self.disposers.contains(&thread_number())
    }

    /// Step C1: removes a task that its handle has claimed. Its entry is in the queue, or was popped by a worker
    /// that finds it a tombstone. The task holds no room any more; the handle runs or drops it, and reports the
    /// end with [`disposed`](State::disposed).
    ///
    /// If there are too many tombstones some are swept out, for the caller to drop after unlocking. Their block
    /// can be [given back](TaskQueue::give_back).
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
        // The task's room is free from here on, although its captures may live for longer.
        self.admit_heads(effects);
        // A waiting submitter's task may have been admitted in place of the claimed one.
        self.notify_workers(effects);
        // Proportional to the queue, so that the cost of sweeps is paid for by the claims since the last one.
        (self.tombstones > self.queue.len() / 2 + FEW_TOMBSTONES).then(|| {
            let swept = self.queue.sweep(is_tombstone);
            self.tombstones -= swept.len();
            swept
        })
    }

    /// Step C3: counts the end of a removed task.
    pub(crate) fn disposed(&mut self, outcome: Outcome, effects: &mut Effects<J>) {
        self.disposing -= 1;
        self.counts.count(outcome);
        // Only now: a wait for the end must not return before the captures are dropped.
        self.set_if_idle(effects);
        self.set_if_ended(effects);
    }

    /// Changes the capacity. An error leaves everything as it was.
    pub(crate) fn tune(
        &mut self,
        capacity: Capacity,
        effects: &mut Effects<J>,
    ) -> Result<(), TuneError> {
        let capacity = capacity.bound();
        // A pool without workers would accept tasks that nobody runs.
        if capacity == 0 {
            return Err(TuneError::ZeroCapacity);
        }
        if capacity == UNLIMITED && self.idle.is_ring() {
            return Err(TuneError::PreallocateUnlimited);
        }
        // A ring has a slot for each worker that may park, compensating ones included.
        let slots = capacity.saturating_add(self.max_compensation);
        // Growing may fail for want of memory, so the ring comes first; shrinking needs the excess retired first.
        if capacity > self.capacity {
            // Before the capacity changes, so that a failed allocation leaves the old one in force.
            self.idle.resize(slots).map_err(TuneError::OutOfMemory)?;
            self.capacity = capacity;
        } else {
            self.capacity = capacity;
            // Before the ring shrinks: it must not have more parked workers than slots.
            self.retire_excess(effects);
            // A failed allocation is harmless: the ring keeps its larger memory, and the slots are not used.
            let _ = self.idle.resize(slots);
        }
        self.show_size();
        // Waiters first: the wake policy must see the tasks that the new room admits.
        self.admit_heads(effects);
        self.notify_workers(effects);
        Ok(())
    }

    /// Opens a released pool again and wakes the waits for its end, which see a new generation. Returns `false` if
    /// the pool was open.
    pub(crate) fn reboot(&mut self, effects: &mut Effects<J>) -> bool {
        let was_released = !std::mem::replace(&mut self.open, true);
        if was_released {
            self.discards = false;
            // The number tells a woken wait that its own release is over, even if the pool is in use again.
            self.generation += 1;
            effects.set_all(&mut self.on_end);
        }
        was_released
    }

    /// Step Q1: appends a waiting submitter to the wait queue and returns its ticket.
    pub(crate) fn enqueue_waiter(&mut self, entry: Arc<WaiterEntry<J>>) -> u64 {
        self.wait_queue.push(entry)
    }
}

impl<J> State<J> {
    /// Creates the state of a new pool, with `levels` if tasks have priorities.
    pub(crate) fn new(
        config: &Config,
        levels: Option<Box<dyn OtherLevels<J>>>,
    ) -> Result<Self, TryReserveError> {
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
            hooked: config.has_entry_code,
        })
    }
}

mod staff;

// Sections that pause and resume a pool. `decide.rs` decides what a paused pool does.
//
// # Invariants
// 1. Between the section that pauses and the one that resumes, no task leaves the queue to be started. A task
//    that a worker had taken before may still start.
// 2. A released pool is not paused: its accepted tasks are run, or dropped by a `release_now`.
// 3. While tasks are queued some worker is live, paused or not. Additional workers may expire.

impl<J> State<J> {
    /// Pauses the pool. Returns `false` if it was paused already, or has been released.
    pub(crate) fn pause(&mut self) -> bool {
        let pauses = self.open && !self.paused;
        self.paused |= pauses;
        pauses
    }

    /// Resumes the pool and notifies workers as for a burst of tasks. Returns `false` if it was not paused.
    pub(crate) fn resume(&mut self, effects: &mut Effects<J>) -> bool {
        let was_paused = std::mem::replace(&mut self.paused, false);
        if was_paused {
            // Each call wakes at most one worker.
            for _ in 0..self.queued().min(MOST_NOTIFIED) {
                self.notify_workers(effects);
            }
            // While the pool was paused a worker may have been kept for the queue, which would now be one too many.
            self.time_core_workers(effects);
        }
        was_paused
    }
}

// Sections of declared blocking: for each blocked worker the pool may have an additional one, up to a limit.
//
// All decisions are made with the raised capacity (`State::workers`).
//
// # Invariants
// 1. `compensating` is the number of workers between B1 and B2 that were let in. It is at most
//    `max_compensation`.
// 2. A section that lowers it retires an idle excess worker. An excess worker that is busy or being started
//    retires itself, as after a change of the capacity.

impl<J> State<J> {
    /// Step B1: a worker is about to block, so another one may take its place. Returns `false` if the limit of
    /// compensating workers is reached.
    pub(crate) fn begin_blocking(&mut self, effects: &mut Effects<J>) -> bool {
        if self.compensating >= self.max_compensation {
            return false;
        }
        self.compensating += 1;
        self.show_size();
        // Room grows with the number of workers, so a waiting submitter may be admitted.
        self.admit_heads(effects);
        // Queued tasks may be what the blocked one waits for, so they must not wait for the next submit.
        self.notify_workers(effects);
        true
    }

    /// Step B2: the worker no longer blocks.
    pub(crate) fn end_blocking(&mut self, effects: &mut Effects<J>) {
        self.compensating -= 1;
        // After the count: the excess exists only by the lower number.
        self.retire_excess(effects);
        self.show_size();
    }

    /// Maximum number of workers at this moment.
    #[inline]
    pub(crate) fn workers(&self) -> usize {
        self.capacity.saturating_add(self.compensating)
    }
}

// Sections that reserve, use and return the room of permits.
//
// A waiting permit request is an ordinary entry of the wait queue (`state.rs`), and admission treats it like a
// task (`decide.rs`).
//
// # Invariants
// 1. A permit holds room until it is used or returned. A used permit's room passes to its task.
// 2. While a permit is out some worker is live, also in a released pool. So a permit's task is pushed like any
//    other one and never has to start a thread.

impl<J> State<J> {
    /// Step P1: gives free room to a permit.
    pub(crate) fn reserve(&mut self) {
        debug_assert!(self.live > 0, "a permit is given where a worker lives");
        self.reserved += 1;
        if let Some(load_stats) = &self.load_stats {
            load_stats.enter();
        }
    }

    /// Step P2: queues the permit's task with the permit's room. Never refuses: the pool may be full, tuned down or
    /// released.
    pub(crate) fn redeem(&mut self, job: J, effects: &mut Effects<J>) {
        // In the section that counts the task, so that no other submit sees the room as free in between.
        self.reserved -= 1;
        self.push(job, effects);
        self.notify_workers(effects);
        self.permit_gone(effects);
    }

    /// Step P3: returns the room of an unused permit to the head of the wait queue.
    pub(crate) fn give_back_room(&mut self, effects: &mut Effects<J>) {
        self.reserved -= 1;
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(1);
        }
        // Waiters first, so that the freed room cannot be taken by a later submit.
        self.admit_heads(effects);
        self.notify_workers(effects);
        self.permit_gone(effects);
    }

    /// Step P5: ends a task that ran with a permit's room inside another task, and frees the room. Like
    /// [`go_on`](State::go_on) it makes no decision: it returns `false`, without a change, if one is needed.
    #[inline]
    pub(crate) fn try_end_permitted(&mut self, outcome: Outcome) -> bool {
        // The last permit may be what keeps a worker (P4), and its return must be decided.
        let keeps_none = self.reserved > 1 || self.open && self.untimed.is_empty();
        // After a `release_now` the other task must not start one after the other, so it must look for that.
        let is_decided =
            self.may_end_permitted() && self.reserved > 0 && keeps_none && !self.discards;
        if is_decided {
            self.count_permitted(outcome);
            self.reserved -= 1;
            if let Some(load_stats) = &self.load_stats {
                load_stats.leave(1);
            }
        }
        is_decided
    }

    /// Whether the fast path is open to [`try_end_permitted`](State::try_end_permitted).
    #[inline]
    pub(crate) fn may_end_permitted(&self) -> bool {
        self.fast_path && !self.queue.has_levels()
    }

    /// Step P6: the same, with a decision.
    pub(crate) fn end_permitted(&mut self, outcome: Outcome, effects: &mut Effects<J>) {
        self.count_permitted(outcome);
        self.give_back_room(effects);
    }

    fn count_permitted(&mut self, outcome: Outcome) {
        self.counts.submitted += 1;
        self.counts.count(outcome);
    }

    /// Step P4: lets the worker go that was kept for the last permit.
    pub(super) fn permit_gone(&mut self, effects: &mut Effects<J>) {
        // The other permits still need a worker: a released pool starts none.
        if self.reserved > 0 {
            return;
        }
        if self.open {
            self.time_core_workers(effects);
        } else {
            self.dismiss_idle(effects);
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::sync::Arc;

    use sync_shim::Parker;

    use super::*;
    use crate::config::Capacity;
    use crate::sched::event::EventWait;
    use crate::sched::load::LoadStats;
    use crate::{Builder, Closures, Pool};

    fn builder(capacity: usize, depth: usize) -> Builder<Closures> {
        Pool::builder().capacity(capacity).queue_depth(depth)
    }

    /// An open state without workers.
    fn state_of(builder: Builder<Closures>) -> State<u32> {
        let pool = builder.build().expect("the settings are sound");
        State::new(&pool.core().config, None).expect("there is memory")
    }

    /// An open state with that many busy workers, each with a task.
    fn busy(workers: usize, depth: usize) -> State<u32> {
        let mut state = state_of(builder(workers, depth));
        (state.live, state.in_flight) = (workers, workers);
        state
    }

    /// Runs a section and its effects. Also returns whether these included user code.
    fn section<T>(run: impl FnOnce(&mut Effects<u32>) -> T) -> (T, bool) {
        let mut effects = Effects::new();
        let made = run(&mut effects);
        let has_user_code = effects.has_user_code();
        effects.wake_threads();
        effects.run_user_code();
        (made, has_user_code)
    }

    fn thread_entry(job: u32) -> Arc<WaiterEntry<u32>> {
        WaiterEntry::of_thread(Request::Task(job), Parker::new())
    }

    #[test]
    fn waits_for_an_idle_pool_end_only_after_removed_and_admitted_tasks() {
        let mut event = EventWait::of_thread();
        let finish = |state: &mut State<u32>| {
            section(|effects| state.finish(Outcome::Completed, false, effects))
        };

        // The tasks that a `release_now` removed are not dropped yet when the last running task ends.
        let mut state = busy(1, 1);
        state.disposing = 1;
        event.enter(&mut state.on_idle);
        finish(&mut state);
        assert!(!event.is_set());
        section(|effects| state.disposed(Outcome::Released, effects));
        assert!(event.is_set());

        // A task runs when the last of those has been dropped.
        let mut event = EventWait::of_thread();
        let mut state = busy(1, 1);
        state.disposing = 1;
        event.enter(&mut state.on_idle);
        section(|effects| state.disposed(Outcome::Released, effects));
        assert!(!event.is_set());
        finish(&mut state);
        assert!(event.is_set());

        // The wait queue's head is admitted by the end of the last task.
        let mut event = EventWait::of_thread();
        let mut state = busy(1, 0);
        event.enter(&mut state.on_idle);
        state.enqueue_waiter(thread_entry(5));
        let (next, _) = finish(&mut state);
        assert!(matches!(next, Next::Run(5)) && !event.is_set());
        finish(&mut state);
        assert!(event.is_set());
    }

    #[test]
    fn an_empty_waiter_entry_takes_no_room_and_is_dropped_as_user_code() {
        let mut state = busy(1, 0);
        let [gone, waits] = [thread_entry(5), thread_entry(6)];
        state.enqueue_waiter(Arc::clone(&gone));
        state.enqueue_waiter(Arc::clone(&waits));
        assert!(gone.claim(1).is_some(), "another pool had room");
        let (next, runs_user_code) =
            section(|effects| state.finish(Outcome::Completed, false, effects));
        assert!(matches!(next, Next::RunUserCode) && runs_user_code);
        assert_eq!(
            (state.in_flight, state.queue.len(), state.wait_queue.len()),
            (1, 1, 0)
        );
        assert!(waits.is_done());
        let (next, runs_user_code) = section(|effects| state.go(true, effects));
        assert!(matches!(next, Next::Run(6)) && !runs_user_code);
    }

    #[test]
    fn a_worker_takes_no_task_in_a_section_that_defers_user_code() {
        // Neither to its handle nor to the wait queue: it goes on.
        let mut state = busy(1, 4);
        state.queue.push(7);
        state.in_flight += 1;
        let (next, _) = section(|effects| state.finish(Outcome::Completed, false, effects));
        assert!(matches!(next, Next::Run(7)));

        // To its handle.
        state.queue.push(8);
        state.in_flight += 1;
        let (next, runs_user_code) =
            section(|effects| state.finish(Outcome::Completed, true, effects));
        assert!(matches!(next, Next::RunUserCode) && !runs_user_code);
        assert_eq!(
            (state.queue.len(), state.searching, state.leaving),
            (1, 0, 0)
        );

        // To a future in the wait queue.
        let mut state = busy(1, 0);
        let entry = WaiterEntry::of_future(Request::Task(9));
        assert!(entry.poll(std::task::Waker::noop()).is_none());
        state.enqueue_waiter(entry);
        let (next, runs_user_code) =
            section(|effects| state.finish(Outcome::Completed, false, effects));
        assert!(matches!(next, Next::RunUserCode) && runs_user_code);
        assert_eq!(state.queue.len(), 1);
    }

    #[test]
    fn a_step_that_is_put_off_is_undone_and_other_workers_are_notified() {
        let mut state = busy(1, 4);
        let cell = WorkerCell::new(0);
        state.live = 2;
        state.idle.push(&cell, None);
        state.queue.push(8);
        section(|effects| state.put_off(Next::Run(7), effects));
        assert_eq!(
            (state.searching, state.notified, state.idle.len()),
            (1, 1, 0)
        );
        assert_eq!([state.queue.pop(), state.queue.pop()], [Some(7), Some(8)]);

        let mut state = busy(1, 4);
        state.searching = 1;
        section(|effects| state.put_off(Next::Search, effects));
        assert_eq!(state.searching, 0);
        state.leaving = 1;
        section(|effects| state.put_off(Next::Leave, effects));
        assert_eq!(state.leaving, 0);
    }

    #[test]
    fn a_worker_that_was_refused_a_thread_takes_the_task_and_does_not_ask_again() {
        let mut state = state_of(builder(4, 4).thread_gate(|| Ok(())));
        state.live = 1;
        (state.in_flight, state.open) = (2, true);
        state.queue.push(7);
        state.queue.push(8);
        let mut effects = Effects::new();
        assert!(matches!(state.go(true, &mut effects), Next::RunUserCode) && effects.start);
        assert_eq!(state.queue.len(), 2, "it asks with no task in its hand");
        state.started(false, &mut effects);
        let mut effects = Effects::new();
        assert!(matches!(state.go(false, &mut effects), Next::Run(7)) && !effects.start);
    }

    #[test]
    fn each_figure_of_the_stats_shows_its_own_counter() {
        let mut state = busy(20, 30);
        let cells = [0, 1, 2].map(WorkerCell::new);
        for cell in &cells {
            state.idle.push(cell, None);
        }
        (state.searching, state.leaving) = (5, 4);
        (state.in_flight, state.disposing) = (11, 2);
        (0..6).for_each(|task| state.queue.push(task));
        (0..7).for_each(|task| _ = state.enqueue_waiter(thread_entry(task)));
        state.counts = Counts {
            submitted: 101,
            completed: 102,
            panicked: 103,
            expired: 112,
            cancelled: 104,
            released: 105,
            refused: 106,
            started: 107,
            retired: 108,
            start_failures: 109,
            peak_live: 110,
            discarded: 113,
        };
        let shown = state.stats(111);
        assert_eq!((shown.capacity, shown.live), (Capacity::Limited(20), 20));
        assert_eq!((shown.busy, shown.idle, shown.ending), (8, 12, 0));
        assert_eq!((shown.in_flight, shown.queued, shown.waiting), (13, 6, 7));
        assert_eq!((shown.submitted, shown.completed), (101, 102));
        assert_eq!(
            (shown.panicked, shown.cancelled, shown.released),
            (103, 104, 105)
        );
        assert_eq!((shown.refused, shown.threads_started), (106, 107));
        assert_eq!((shown.threads_retired, shown.thread_failures), (108, 109));
        assert_eq!((shown.peak_live, shown.hook_panics), (110, 111));
        assert_eq!(shown.expired, 112);
        assert_eq!(shown.discarded, 113);
    }

    #[test]
    fn a_worker_that_ends_the_last_task_of_a_released_pool_searches_on_for_a_permit() {
        for (workers, reserved, searches) in
            [(1, 0, false), (1, 1, true), (2, 1, false), (2, 5, false)]
        {
            let mut state = busy(workers, 9);
            (state.open, state.reserved) = (false, reserved);
            let (next, _) = section(|effects| state.finish(Outcome::Completed, false, effects));
            assert_eq!(matches!(next, Next::Search), searches);
            assert_eq!(matches!(next, Next::Leave), !searches);
        }
    }

    /// The sections that end the last permit.
    type Goes = fn(&mut State<u32>, &mut Effects<u32>);
    const PERMIT_GOES: [(&str, Goes); 3] = [
        ("used", |state, effects| state.redeem(7, effects)),
        ("dropped", State::give_back_room),
        ("used inside another task", |state, effects| {
            state.end_permitted(Outcome::Completed, effects);
        }),
    ];

    #[test]
    fn a_worker_kept_by_a_permit_is_timed_again_in_the_section_of_the_last_one() {
        for (how, goes) in PERMIT_GOES {
            let mut state = state_of(builder(1, 9));
            let (cell, since) = (WorkerCell::new(0), Some(Instant::now()));
            (state.live, state.reserved) = (1, 2);
            state.idle.push(&cell, since);
            state.keep(&cell, since);
            state.reserved -= 1; // Another permit has gone: this one keeps the worker.
            assert!(!state.is_timed(&cell, since), "{how}");
            let mut effects = Effects::new();
            goes(&mut state, &mut effects);
            assert!(state.untimed.is_empty() && !effects.is_empty(), "{how}");
            effects.wake_threads();
        }
    }

    #[test]
    fn a_members_load_falls_with_each_permit_that_is_not_used() {
        for (how, goes) in PERMIT_GOES {
            let mut state = busy(1, 9);
            let load_stats = Arc::new(LoadStats::new(1, 9));
            state.load_stats = Some(Arc::clone(&load_stats));
            load_stats.enter(); // The running task.
            state.reserve();
            assert_eq!(load_stats.in_flight(), 2, "{how}");
            let ((), _) = section(|effects| goes(&mut state, effects));
            let left = state.in_flight + state.reserved;
            assert_eq!(load_stats.in_flight(), left, "{how}");
        }
    }
}
