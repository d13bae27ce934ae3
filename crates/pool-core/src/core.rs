//! The pool's one core: admission and the starting of workers. `worker.rs` runs tasks, `life.rs`
//! releases, waits and tunes.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_utils::CachePadded;
use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::thread::{Tag, ThreadOptions, as_starter_of, spawn_thread, starter_of};
use sync_shim::{Clock, Parker, fork_count};

use crate::after::{After, NoticeWait};
use crate::cell::Claim;
use crate::config::{Config, WithinWorker};
use crate::decide::{Admission, Manner, OwnWorker, WhenFull};
use crate::error::{BuildError, Reason, SubmitError};
use crate::gauge::Gauge;
use crate::handle::Home;
use crate::idle::WorkerCell;
use crate::line::{Seat, Settled};
use crate::run::{Env, Outcome, Ran};
use crate::shared::{Shared, Whole};
use crate::state::State;
use crate::stats::Stats;
use crate::submit::OnFull;
use crate::tally::Tally;
use crate::worker;

/// What a pool does with its jobs: calls closures, or one function with each argument.
pub trait Runner: Send + Sync + 'static {
    /// What lies in the queue.
    type Job: Send + 'static;
    /// What `release_now` gives back for a task that never ran.
    type Item: Send + 'static;

    #[doc(hidden)]
    fn run(&self, job: Self::Job, env: &Env) -> Ran;
    #[doc(hidden)]
    fn release(&self, job: Self::Job) -> (Ran, Option<Self::Item>);
    /// Asked of each entry in the section that takes it out to be released, which ends the races
    /// for it. `false` if it holds no room any more.
    #[doc(hidden)]
    fn seize(&self, job: &Self::Job) -> bool;
    /// Whether the handle took the task out, so that only its entry is left.
    #[doc(hidden)]
    fn is_tombstone(&self, job: &Self::Job) -> bool;
}

pub(crate) struct Core<R: Runner> {
    pub(crate) state: Shared<R::Job>,
    /// A hint to spinning workers that the queue is not empty. On cache lines of its own, as is the
    /// state: what is only read lies apart.
    pub(crate) work: CachePadded<AtomicBool>,
    /// Refusals of a full pool that took no lock.
    refused: Tally,
    pub(crate) runner: R,
    pub(crate) env: Env,
    pub(crate) config: Config,
    /// Which workers count as the pool's own: a `MultiPool`'s children share one.
    pub(crate) family: u64,
    /// A `MultiPool`'s child shows its figures here, to those without the lock.
    pub(crate) gauge: Option<Arc<Gauge>>,
    /// `fork_count()` where the workers are.
    forks: usize,
}

pub(crate) type Guard<'a, R> = Whole<'a, <R as Runner>::Job>;

/// A job that was not accepted, with the lock under which that was decided.
pub(crate) struct NotAdmitted<'a, R: Runner> {
    // The first field drops first: a job's captures drop when the lock is free.
    pub(crate) guard: Guard<'a, R>,
    pub(crate) job: R::Job,
    pub(crate) why: Closed,
}

/// Why a job is not accepted.
pub(crate) enum Closed {
    Full,
    Released,
    /// There is room, but no worker, and the operating system refused to start the first.
    NoThread(io::Error),
    /// There is room, but no worker yet, and the start that another thread makes takes too long.
    TimedOut,
}

impl<R: Runner> NotAdmitted<'_, R> {
    /// It is refused for good, and counted so.
    pub(crate) fn count(mut self) -> (Reason, R::Job) {
        self.guard.counts.refused += 1;
        let reason = match self.why {
            Closed::Full => Reason::Full,
            Closed::Released => Reason::Released,
            Closed::NoThread(refused) => Reason::NoThread(refused),
            Closed::TimedOut => Reason::TimedOut,
        };
        (reason, self.job)
    }

    /// It comes back uncounted: another pool may take it.
    pub(crate) fn give_back(self) -> SubmitError<R::Job> {
        match self.why {
            Closed::Full => SubmitError::Full(self.job),
            Closed::Released => SubmitError::Released(self.job),
            Closed::NoThread(refused) => SubmitError::NoThread(self.job, refused),
            Closed::TimedOut => SubmitError::TimedOut(self.job),
        }
    }
}

impl<R: Runner> Core<R> {
    pub(crate) fn new(
        runner: R,
        env: Env,
        config: Config,
        family: u64,
        gauge: Option<Arc<Gauge>>,
    ) -> Result<Arc<Self>, BuildError> {
        let mut state = State::new(&config).map_err(BuildError::OutOfMemory)?;
        state.gauge.clone_from(&gauge);
        Ok(Arc::new(Self {
            state: Shared::new(state),
            work: CachePadded::new(AtomicBool::new(false)),
            refused: Tally::new(),
            runner,
            env,
            config,
            family,
            gauge,
            forks: fork_count(),
        }))
    }

    /// What refuses a task before anything is made of it, without the lock. It has been counted.
    #[inline]
    pub(crate) fn refuses(&self, on_full: OnFull) -> Option<Reason> {
        if self.is_forked() {
            Some(Reason::Forked)
        } else if matches!(on_full, OnFull::Refuse) && self.state.is_full() {
            self.refused.add_one();
            Some(Reason::Full)
        } else {
            None
        }
    }

    /// The one way in, for threads, futures, multi-pools and schedulers: accepts the job if there is
    /// room, having started the first worker if there is none.
    #[inline]
    pub(crate) fn admit(self: &Arc<Self>, job: R::Job) -> Result<(), NotAdmitted<'_, R>> {
        self.admit_until(job, None)
    }

    /// As [`admit`](Self::admit), but awaits a start that another thread makes no longer than that.
    #[inline]
    fn admit_until(
        self: &Arc<Self>,
        job: R::Job,
        deadline: Option<Instant>,
    ) -> Result<(), NotAdmitted<'_, R>> {
        if let Some(vacancy) = self.state.vacancy() {
            if vacancy.enter(job) {
                self.hint();
            }
            return Ok(());
        }
        self.admit_decided(job, deadline)
    }

    #[inline(never)]
    fn admit_decided(
        self: &Arc<Self>,
        job: R::Job,
        deadline: Option<Instant>,
    ) -> Result<(), NotAdmitted<'_, R>> {
        let mut guard = self.state.lock();
        let why = loop {
            match guard.view().admission() {
                Admission::Room => {
                    let mut after = After::new();
                    guard.accept(job, &mut after);
                    drop(guard);
                    self.perform(&mut after);
                    return Ok(());
                }
                Admission::Full => break Closed::Full,
                Admission::Released => break Closed::Released,
                Admission::FirstWorker => {
                    let started;
                    (guard, started) = self.start_first(guard, deadline);
                    if let Err(closed) = started {
                        break closed;
                    }
                }
            }
        };
        Err(NotAdmitted { guard, job, why })
    }

    /// There is room but no worker: starts the first, or waits for the start of it by another
    /// thread. The caller decides anew, so a task is accepted only where a worker lives.
    #[cold]
    fn start_first<'a>(
        self: &'a Arc<Self>,
        mut guard: Guard<'a, R>,
        deadline: Option<Instant>,
    ) -> (Guard<'a, R>, Result<(), Closed>) {
        if !guard.starting {
            guard.starting = true;
            let (guard, started) = self.start_reserved(guard);
            return (guard, started.map_err(Closed::NoThread));
        }
        if starter_of() == self.number() {
            // The gate of that start submits to its own pool: it would wait for itself.
            return (guard, Err(Closed::NoThread(io::ErrorKind::Deadlock.into())));
        }
        let notice = NoticeWait::new();
        guard.on_start.push(notice.notice());
        drop(guard);
        let mut started = notice.wait_until(self.clock(), deadline);
        let mut guard = self.state.lock();
        if !started {
            notice.leave(&mut guard.on_start);
            started = notice.is_given(); // Given between the time-out and the lock.
        }
        (
            guard,
            if started {
                Ok(())
            } else {
                Err(Closed::TimedOut)
            },
        )
    }

    /// Accepts the job, waits for room as long as `on_full` says, or gives the job back. For those
    /// that nothing [refuses](Self::refuses).
    #[inline]
    pub(crate) fn submit(
        self: &Arc<Self>,
        job: R::Job,
        on_full: OnFull,
    ) -> Result<(), (Reason, R::Job)> {
        let deadline = match on_full {
            OnFull::Refuse => None,
            OnFull::Wait(deadline) => deadline,
        };
        match self.admit_until(job, deadline) {
            Ok(()) => Ok(()),
            Err(refused) => self.submit_refused(refused, on_full),
        }
    }

    #[cold]
    fn submit_refused(
        self: &Arc<Self>,
        refused: NotAdmitted<'_, R>,
        on_full: OnFull,
    ) -> Result<(), (Reason, R::Job)> {
        match refused.why {
            Closed::Full => self.submit_full(refused.guard, refused.job, on_full),
            _ => Err(refused.count()),
        }
    }

    #[cold]
    fn submit_full(
        self: &Arc<Self>,
        mut guard: Guard<'_, R>,
        job: R::Job,
        on_full: OnFull,
    ) -> Result<(), (Reason, R::Job)> {
        let (manner, deadline) = match on_full {
            OnFull::Refuse => (Manner::Try, None),
            OnFull::Wait(deadline) => (Manner::Block(self.own_worker()), deadline),
        };
        match guard.view().when_full(manner) {
            WhenFull::Refuse => {
                guard.counts.refused += 1;
                Err((Reason::Full, job))
            }
            WhenFull::RunInPlace => {
                guard.counts.submitted += 1;
                drop(guard);
                self.run_in_place(job);
                Ok(())
            }
            WhenFull::Enrol => {
                let parker = Parker::of_thread();
                let seat = Seat::of_thread(job, parker.clone());
                let ticket = guard.enrol(Arc::clone(&seat));
                drop(guard);
                self.wait_for_room(&seat, ticket, &parker, deadline)
            }
        }
    }

    /// Another one for each pool that lives.
    fn number(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Sleeps at a seat of the line until it is settled or the time is up.
    fn wait_for_room(
        &self,
        seat: &Arc<Seat<R::Job>>,
        ticket: u64,
        parker: &Parker,
        deadline: Option<Instant>,
    ) -> Settled<R::Job> {
        loop {
            if let Some(settled) = seat.wait(parker, self.clock(), deadline) {
                return settled;
            }
            if let Some(job) = self.leave_line(seat, ticket) {
                return Err((Reason::TimedOut, job));
            }
        }
    }

    /// The owner of a seat gives up. `None` if the task has just been taken, or given back.
    pub(crate) fn leave_line(&self, seat: &Seat<R::Job>, ticket: u64) -> Option<R::Job> {
        let mut guard = self.state.lock();
        let left = guard.line.leave(ticket);
        let job = seat.withdraw();
        // A scheduler takes back what was cancelled: no call was refused.
        guard.counts.refused += u64::from(job.is_some() && !seat.is_of_errand());
        drop(guard);
        drop(left);
        job
    }

    /// Pays what is owed: first to threads that wait, then the start that was reserved, then user
    /// code.
    #[inline]
    pub(crate) fn perform(self: &Arc<Self>, after: &mut After<R::Job>) {
        if after.searchers {
            self.hint();
        }
        if !after.is_paid() {
            self.perform_owed(after);
        }
    }

    /// Tells spinning workers of work.
    #[inline]
    fn hint(&self) {
        // Relaxed: they look under the lock before they park.
        self.work.store(true, Relaxed);
    }

    fn perform_owed(self: &Arc<Self>, after: &mut After<R::Job>) {
        after.pay();
        self.start_owed(after.start);
        after.call_out();
    }

    /// The part of [`perform`](Core::perform) that only tells threads.
    pub(crate) fn pay(&self, after: &mut After<R::Job>) {
        if after.searchers {
            self.hint();
        }
        after.pay();
    }

    /// Starts the worker that was reserved, if one was. `false` if it was refused.
    ///
    /// A refusal is counted; the queue is looked after by those that live, and each later submit
    /// and task end tries again.
    #[inline]
    pub(crate) fn start_owed(self: &Arc<Self>, owed: bool) -> bool {
        !owed || self.start_one().1
    }

    /// As [`start_owed`](Core::start_owed), by a worker that owes nothing else. In the section that
    /// counts the new worker it counts as searching again: there are two now to look at the queue,
    /// and the new one, if it is first, is not to start a third.
    #[cold]
    pub(crate) fn start_and_search(self: &Arc<Self>) -> bool {
        let (mut guard, started) = self.start_one();
        guard.searching += 1;
        started
    }

    #[cold]
    fn start_one(self: &Arc<Self>) -> (Guard<'_, R>, bool) {
        let mut guard = self.state.lock();
        loop {
            let started;
            (guard, started) = self.start_reserved(guard);
            if started.is_err() || !guard.reserve_another() {
                return (guard, started.is_ok());
            }
        }
    }

    /// Starts a worker. `starting` was set by the caller; it is reset when the lock is back.
    pub(crate) fn start_reserved<'a>(
        self: &'a Arc<Self>,
        guard: Guard<'a, R>,
    ) -> (Guard<'a, R>, io::Result<()>) {
        let number = guard.counts.started;
        drop(guard);
        let cell = WorkerCell::new();
        let name = format!("{}-{number}", self.env.name);
        let options = ThreadOptions {
            name: Some(&name),
            stack_size: self.config.stack_size,
            gate: self.config.thread_gate.as_deref(),
        };
        let body = {
            let (core, cell) = (Arc::clone(self), Arc::clone(&cell));
            move || worker::main(core, &cell)
        };
        let start = || as_starter_of(self.number(), || spawn_thread(options, body));
        let result = crate::foreign::guarded(start).unwrap_or_else(|p| {
            crate::foreign::discard(p); // Only the user's gate can panic.
            Err(io::Error::other("the thread gate panicked"))
        });
        let mut after = After::<R::Job>::new();
        let mut guard = self.state.lock();
        guard.started(result.is_ok(), &mut after);
        after.tell(&mut guard.on_start);
        guard.tell_if_ended(&mut after);
        after.pay(); // Runs no user code, so it may be under the lock.
        let result = result.map(|thread| {
            *cell.thread.lock() = Some(thread);
            cell.parker.unpark(); // It is registered: it may look.
        });
        if guard.line.len() > 0 && result.is_ok() {
            guard = self.admit_line(guard);
        }
        (guard, result)
    }

    /// A worker has been started. Where it is a pool's first, a multi-pool's waiters may stand in the
    /// line, though there is room: they go before the caller, in the section that counts the worker.
    #[cold]
    fn admit_line<'a>(self: &'a Arc<Self>, mut guard: Guard<'a, R>) -> Guard<'a, R> {
        let mut after = After::new();
        guard.admit_heads(&mut after); // The new worker rouses others if it finds more than one task.
        if after.is_paid() {
            return guard;
        }
        drop(guard);
        self.perform(&mut after); // Wakers are foreign code.
        self.state.lock()
    }

    pub(crate) fn run_in_place(&self, job: R::Job) {
        let mut job = Some(job);
        let mut resolve = None;
        let outcome = self.nested(&mut || {
            let job = job.take().expect("it is run once");
            let ran = self.runner.run(job, &self.env);
            resolve = ran.resolve;
            ran.outcome
        });
        self.state.lock().counts.count(outcome);
        if let Some(handle) = resolve {
            handle.resolve();
        }
    }

    /// Ends a task whose entry, in whichever pool it lies, holds its room until it is popped.
    fn withdraw_blindly(&self, purpose: Claim, end: &mut dyn FnMut() -> Outcome) -> bool {
        let outcome = end();
        if purpose == Claim::Join {
            self.state.lock().counts.count(outcome); // A cancelled one is counted when popped.
        }
        true
    }

    pub(crate) fn own_worker(&self) -> OwnWorker {
        let tag = Tag::get();
        if tag.family != self.family {
            return OwnWorker::Stranger;
        }
        match self.config.within_worker {
            WithinWorker::Block => OwnWorker::Stranger,
            WithinWorker::RunInPlace if tag.depth < self.config.nesting_limit => {
                OwnWorker::RunInPlace
            }
            WithinWorker::RunInPlace | WithinWorker::Refuse => OwnWorker::Refuse,
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let guard = self.state.lock();
        let mut stats = guard.stats(self.env.hook_panics.load(Relaxed));
        stats.refused += self.refused.sum();
        stats
    }
}

impl<R: Runner> Home for Core<R> {
    fn env(&self) -> &Env {
        &self.env
    }

    fn clock(&self) -> &dyn Clock {
        &*self.config.clock
    }

    fn is_own_worker(&self) -> bool {
        Tag::get().family == self.family
    }

    fn is_forked(&self) -> bool {
        fork_count() != self.forks
    }

    fn may_nest(&self) -> bool {
        Tag::get().depth < self.config.nesting_limit
    }

    fn is_disposing(&self) -> bool {
        self.state.lock().is_disposed_of_here()
    }

    fn nested(&self, run: &mut dyn FnMut() -> Outcome) -> Outcome {
        let outer = Tag::get();
        Tag {
            depth: outer.depth + 1,
            ..outer
        }
        .set();
        let outcome = run(); // Does not unwind: tasks are run by `Env::execute`.
        outer.set();
        outcome
    }

    fn withdraw(
        self: Arc<Self>,
        purpose: Claim,
        claim: &mut dyn FnMut(Claim) -> bool,
        end: &mut dyn FnMut() -> Outcome,
    ) -> bool {
        if self.gauge.is_some() {
            // A handle of a multi-pool does not know which of the pools has the entry.
            return claim(purpose) && self.withdraw_blindly(purpose, end);
        }
        let mut after = After::new();
        let mut guard = self.state.lock();
        if !claim(Claim::Handle) {
            return false;
        }
        let mut swept = guard.withdraw(&|job| self.runner.is_tombstone(job), &mut after);
        drop(guard);
        if let Some(entries) = &mut swept {
            entries.clear(); // Perhaps the last references to their tasks: the lock is free.
        }
        self.perform(&mut after);
        // What is foreign and may take its time comes last: nobody waits for its end but those
        // that wait for this task's, or for all.
        let outcome = end();
        let mut after = After::new();
        let mut guard = self.state.lock();
        guard.disposed(outcome, &mut after);
        guard.end_disposal();
        if let Some(block) = swept {
            guard.queue.give_back(block);
        }
        drop(guard);
        self.perform(&mut after);
        true
    }
}
