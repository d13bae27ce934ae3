//! The pool's one core: admission and the starting of workers. `worker.rs` runs tasks, `life.rs`
//! releases, waits and tunes.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_utils::CachePadded;
use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::thread::{Tag, ThreadOptions, spawn_thread};
use sync_shim::{Clock, Parker, fork_count};

use crate::after::{After, NoticeWait};
use crate::cell::Claim;
use crate::config::{Config, WithinWorker};
use crate::decide::{Admission, Manner, OwnWorker, WhenFull};
use crate::error::{BuildError, Reason};
use crate::gauge::Gauge;
use crate::handle::Home;
use crate::idle::WorkerCell;
use crate::line::{Seat, Settled};
use crate::run::{Env, Outcome, Ran};
use crate::shared::{Shared, Whole};
use crate::state::State;
use crate::stats::Stats;
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

/// How long a call waits for room.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// Not at all.
    None,
    /// Until then, or without a limit.
    Until(Option<Instant>),
}

pub(crate) type Guard<'a, R> = Whole<'a, <R as Runner>::Job>;

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
    pub(crate) fn refuses(&self, patience: Patience) -> Option<Reason> {
        if self.is_forked() {
            Some(Reason::Forked)
        } else if matches!(patience, Patience::None) && self.state.is_full() {
            self.refused.add_one();
            Some(Reason::Full)
        } else {
            None
        }
    }

    /// Accepts the job, waits for room as long as `patience` says, or gives the job back. For those
    /// that nothing [refuses](Self::refuses).
    #[inline]
    pub(crate) fn submit(
        self: &Arc<Self>,
        job: R::Job,
        patience: Patience,
    ) -> Result<(), (Reason, R::Job)> {
        if let Some(vacancy) = self.state.vacancy() {
            if vacancy.enter(job) {
                self.hint();
            }
            return Ok(());
        }
        self.submit_decided(job, patience)
    }

    /// Accepts the job if there is room, and does what a full pool does if there is none.
    #[inline(never)]
    fn submit_decided(
        self: &Arc<Self>,
        job: R::Job,
        patience: Patience,
    ) -> Result<(), (Reason, R::Job)> {
        let (mut guard, admission) = match self.admission() {
            Ok(admitted) => admitted,
            Err((mut guard, refused)) => {
                guard.counts.refused += 1;
                return Err((Reason::NoThread(refused), job));
            }
        };
        match admission {
            Admission::Room => {
                let mut after = After::new();
                guard.accept(job, &mut after);
                drop(guard);
                self.perform(&mut after);
                Ok(())
            }
            Admission::Full => self.submit_full(guard, job, patience),
            Admission::Released | Admission::FirstWorker => {
                guard.counts.refused += 1;
                Err((Reason::Released, job))
            }
        }
    }

    #[cold]
    fn submit_full(
        self: &Arc<Self>,
        mut guard: Guard<'_, R>,
        job: R::Job,
        patience: Patience,
    ) -> Result<(), (Reason, R::Job)> {
        let (manner, deadline) = match patience {
            Patience::None => (Manner::Try, None),
            Patience::Until(deadline) => (Manner::Block(self.own_worker()), deadline),
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

    /// The lock, and whether a task may be accepted. If there is room but no worker, the first
    /// is started (or its start awaited) before the answer, so whoever is told `Room` may push.
    pub(crate) fn admission(
        self: &Arc<Self>,
    ) -> Result<(Guard<'_, R>, Admission), (Guard<'_, R>, io::Error)> {
        let mut guard = self.state.lock();
        loop {
            match guard.view().admission() {
                Admission::FirstWorker if guard.starting => {
                    let notice = NoticeWait::new();
                    guard.on_start.push(notice.notice());
                    drop(guard);
                    notice.wait();
                    guard = self.state.lock();
                }
                Admission::FirstWorker => {
                    guard.starting = true;
                    let result;
                    (guard, result) = self.start_reserved(guard);
                    if let Err(refused) = result {
                        return Err((guard, refused));
                    }
                }
                other => return Ok((guard, other)),
            }
        }
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
                #[cfg(not(anthill_loom))]
                if settled.is_ok() && deadline.is_none() {
                    self.linger();
                }
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
        self.start_owed(after);
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
    pub(crate) fn start_owed(self: &Arc<Self>, after: &After<R::Job>) -> bool {
        !after.start || self.start_one()
    }

    #[cold]
    fn start_one(self: &Arc<Self>) -> bool {
        let guard = self.state.lock();
        let (guard, started) = self.start_reserved(guard);
        drop(guard);
        started.is_ok()
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
        let result = crate::foreign::guarded(|| spawn_thread(options, body)).unwrap_or_else(|p| {
            crate::foreign::discard(p); // Only the user's gate can panic.
            Err(io::Error::other("the thread gate panicked"))
        });
        let mut guard = self.state.lock();
        guard.started(result.is_ok());
        let mut after = After::<R::Job>::new();
        after.tell(&mut guard.on_start);
        guard.tell_if_ended(&mut after);
        after.pay(); // Runs no user code, so it may be under the lock.
        let result = result.map(|thread| {
            *cell.thread.lock() = Some(thread);
            cell.parker.unpark(); // It is registered: it may look.
        });
        (guard, result)
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
