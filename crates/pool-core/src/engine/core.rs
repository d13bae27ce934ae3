//! The pool's one core: admission and the starting of workers. `worker.rs` runs tasks, `life.rs`
//! releases, waits and tunes.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_utils::CachePadded;
use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::thread::{
    Tag, ThreadOptions, as_starter_of, spawn_thread, starter_of, with_last_act,
};
use sync_shim::{Clock, Parker, Process, ThreadParker};

use crate::config::{Config, OnFull, WithinWorker};
use crate::engine::discard::Discards;
use crate::engine::runner::Runner;
use crate::engine::worker;
use crate::error::{BuildError, Closed, Reason, SubmitError};
use crate::sched::decide::{Admission, Caller, OwnWorker, WhenFull};
use crate::sched::effects::Effects;
use crate::sched::event::EventWait;
use crate::sched::exits::Gone;
use crate::sched::idle::WorkerCell;
use crate::sched::load::LoadStats;
use crate::sched::ready::Levels;
use crate::sched::shared::{Place, Shared};
use crate::sched::state::State;
use crate::sched::striped::StripedCounter;
use crate::sched::waiters::{Request, WaitResult, WaiterEntry};
use crate::stats::Stats;
use crate::task::cancel::CancelToken;
use crate::task::handle::PoolRef;
use crate::task::options::WaitLimits;
use crate::task::run::{Outcome, Resolver, TaskContext};

/// What admits and runs a pool's tasks.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct Core<R: Runner> {
    pub(crate) state: Shared<R::Job>,
    /// A hint to spinning workers that the queue is not empty. On cache lines of its own, as is the
    /// state: what is only read lies apart.
    pub(crate) work: CachePadded<AtomicBool>,
    /// Refusals of a full pool that took no lock.
    refused: StripedCounter,
    pub(crate) runner: R,
    pub(crate) context: TaskContext,
    pub(crate) config: Config,
    /// Which workers count as the pool's own: the members of a `MultiPool` share one.
    pub(crate) group: u64,
    /// A member of a `MultiPool` shows its figures here, to readers without the lock.
    pub(crate) load_stats: Option<Arc<LoadStats>>,
    /// Where the workers are.
    process: Process,
    /// The same; none where each task has a record. So one comparison tells a plain call that it
    /// may go on.
    pub(crate) plain_process: Process,
}

/// The time limit of a call was up.
pub(crate) struct Late;

/// A job that asks to be let in, or a caller that asks for a permit (then `Q` is nothing). The job
/// stays where it lies until that is decided: to hand it from section to section would cost as much
/// as a section.
struct Applicant<Q, E, F, T> {
    /// The job, what is done with it in the section that finds room, and what its caller does in
    /// the section that does not.
    asking: Option<(Q, E, F)>,
    /// What came of that.
    refused: Option<T>,
}

/// What comes next for an [`Applicant`].
enum Step {
    Over,
    /// There is room and no worker. The start of the first is reserved for the caller.
    StartFirst,
    /// Another thread starts the first.
    AwaitStart(EventWait),
}

/// What a submit does that met a full pool.
enum AtFull<J> {
    GiveBack(Reason, J),
    RunInPlace(J),
    RunInCaller(J),
    Discard(Discards<J>),
    Wait(Arc<WaiterEntry<J>>, u64, ThreadParker),
}

impl<R: Runner> Core<R> {
    pub(crate) fn new(
        runner: R,
        context: TaskContext,
        config: Config,
        group: u64,
        member: Option<(usize, Arc<LoadStats>)>,
    ) -> Result<Arc<Self>, BuildError> {
        let levels = config.priorities.then_some(Levels {
            priority_of: R::priority_of,
            is_tombstone: R::is_tombstone,
        });
        let mut state = State::new(&config, levels).map_err(BuildError::OutOfMemory)?;
        let load_stats = member.map(|(number, load_stats)| {
            state.number = number;
            state.load_stats = Some(Arc::clone(&load_stats));
            load_stats
        });
        let process = Process::current();
        let plain_process = if context.records_all() {
            Process::NONE
        } else {
            process
        };
        Ok(Arc::new(Self {
            state: Shared::new(state),
            work: CachePadded::new(AtomicBool::new(false)),
            refused: StripedCounter::new(),
            runner,
            context,
            config,
            group,
            load_stats,
            process,
            plain_process,
        }))
    }

    /// Step S1: whether a call that does not wait is refused without the lock. It has been counted.
    #[inline]
    pub(crate) fn refuses_full(&self, on_full: OnFull) -> bool {
        let refuses = matches!(on_full, OnFull::Refuse) && self.state.is_full();
        if refuses {
            self.count_refused();
        }
        refuses
    }

    /// Whether each task has a record.
    pub(crate) fn records_all(&self) -> bool {
        self.plain_process == Process::NONE
    }

    /// Counts a refusal without the lock.
    #[inline(never)]
    pub(crate) fn count_refused(&self) {
        self.refused.add_one();
    }

    /// One section: takes the lock, changes the state, unlocks, and runs the deferred effects.
    #[inline]
    pub(crate) fn section<T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut State<R::Job>, &mut Effects<R::Job>) -> T,
    ) -> T {
        let mut effects = Effects::new();
        let result = self.state.section(|state| change(state, &mut effects));
        self.run(&mut effects);
        result
    }

    /// The one way in, for threads, futures, multi-pools and schedulers: accepts the job if there
    /// is room, having started the first worker if there is none. Where it is not accepted,
    /// `refused` says what becomes of it, in the section that found that out.
    #[inline]
    pub(crate) fn admit<T>(
        self: &Arc<Self>,
        job: R::Job,
        refused: impl FnOnce(&mut State<R::Job>, Closed, R::Job) -> T,
    ) -> Result<(), T> {
        let mut job = Some(job);
        if self.enter(|| take(&mut job)) {
            return Ok(());
        }
        self.admit_decided(take(&mut job), State::accept, refused, |start| {
            start.wait();
            Ok(())
        })
    }

    /// The fast path of it, step S2: a place in a busy pool with room.
    ///
    /// # Safety
    /// The caller writes a job there, and says so by [`filled`](Self::filled).
    #[inline]
    pub(crate) unsafe fn place(&self) -> Option<Place<'_, R::Job>> {
        let credit = self.state.credit()?;
        // SAFETY: the caller's.
        Some(unsafe { credit.place() })
    }

    /// The job has been written.
    ///
    /// # Safety
    /// It has.
    #[inline]
    pub(crate) unsafe fn filled(&self, place: Place<'_, R::Job>) {
        // SAFETY: the caller's.
        let searchers = unsafe { place.filled() };
        self.entered(searchers);
    }

    /// Accepts the job, if the pool is busy and has room. `take` moves it.
    #[inline]
    fn enter(&self, take: impl FnOnce() -> R::Job) -> bool {
        let Some(credit) = self.state.credit() else {
            return false;
        };
        let searchers = credit.enter(take());
        self.entered(searchers);
        true
    }

    /// Step S2, with the inbox's lock given back: shows the task to workers that spin, or, if there
    /// are none, to those that run tasks.
    #[inline]
    pub(crate) fn entered(&self, searchers: bool) {
        if searchers {
            self.hint();
        } else {
            self.state.show_wanted();
        }
    }

    /// As [`admit`](Self::admit), for a caller that brings no job yet: a permit is out afterwards.
    pub(crate) fn admit_permit<L, T>(
        self: &Arc<Self>,
        refused: impl FnOnce(&mut State<R::Job>, Closed<L>) -> T,
        wait: impl Fn(&EventWait) -> Result<(), L>,
    ) -> Result<(), T> {
        let reserve = |state: &mut State<R::Job>, (), _: &mut _| state.reserve();
        self.admit_decided((), reserve, |state, why, ()| refused(state, why), wait)
    }

    #[inline(never)]
    fn admit_decided<Q, L, T>(
        self: &Arc<Self>,
        asked: Q,
        enter: impl FnOnce(&mut State<R::Job>, Q, &mut Effects<R::Job>),
        refused: impl FnOnce(&mut State<R::Job>, Closed<L>, Q) -> T,
        wait: impl Fn(&EventWait) -> Result<(), L>,
    ) -> Result<(), T> {
        let mut applicant = Applicant {
            asking: Some((asked, enter, refused)),
            refused: None,
        };
        // Step S3.
        let mut step = self.section(|state, effects| self.decide(state, effects, &mut applicant));
        loop {
            step = match step {
                Step::Over => return applicant.refused.map_or(Ok(()), Err),
                // Decided in the section that counts the worker: a task is accepted only where one
                // lives.
                Step::StartFirst => self.start_reserved(|state, effects, started| match started {
                    Ok(()) => self.decide(state, effects, &mut applicant),
                    Err(refused) => applicant.refuse(state, Closed::NoThread(refused)),
                }),
                Step::AwaitStart(start) => {
                    let waited = wait(&start);
                    self.section(|state, effects| match waited {
                        // It may have come between the time-out and the lock.
                        Err(late) if !start.leave(&mut state.on_start) => {
                            applicant.refuse(state, Closed::TimedOut(late))
                        }
                        _ => self.decide(state, effects, &mut applicant),
                    })
                }
            };
        }
    }

    #[inline]
    fn decide<Q, L, T, E, F>(
        self: &Arc<Self>,
        state: &mut State<R::Job>,
        effects: &mut Effects<R::Job>,
        applicant: &mut Applicant<Q, E, F, T>,
    ) -> Step
    where
        E: FnOnce(&mut State<R::Job>, Q, &mut Effects<R::Job>),
        F: FnOnce(&mut State<R::Job>, Closed<L>, Q) -> T,
    {
        match state.view().admission() {
            Admission::Room => {
                let (asked, enter, _) = applicant.take();
                enter(state, asked, effects);
                Step::Over
            }
            Admission::Full => applicant.refuse(state, Closed::Full),
            Admission::Released => applicant.refuse(state, Closed::Released),
            Admission::FirstWorker if !state.starting => {
                state.starting = true;
                Step::StartFirst
            }
            Admission::FirstWorker if starter_of() == self.number() => {
                // The gate of that start submits to its own pool: it would wait for itself.
                let refused = io::ErrorKind::Deadlock.into();
                applicant.refuse(state, Closed::NoThread(refused))
            }
            Admission::FirstWorker => {
                let mut start = EventWait::of_thread();
                start.enter(&mut state.on_start);
                Step::AwaitStart(start)
            }
        }
    }

    /// Accepts the job, or waits for room as `on_full` and `limits` say. A refused job is left where
    /// it is. For those that nothing [refuses](crate::engine::admit::Admit::refuses).
    #[inline]
    pub(crate) fn submit(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> Result<(), SubmitError> {
        if self.enter(|| take(job)) {
            return Ok(());
        }
        self.submit_decided(take(job), on_full, limits)
            .map_err(|(reason, refused)| {
                *job = Some(refused);
                reason.with(())
            })
    }

    /// As [`submit`](Self::submit), without the fast path.
    #[inline(never)]
    fn submit_decided(
        self: &Arc<Self>,
        job: R::Job,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> Result<(), (Reason, R::Job)> {
        let deadline = WaitLimits::deadline(limits, on_full);
        let refused = |state: &mut State<R::Job>, why: Closed<Late>, job| match why {
            Closed::Full => self.at_full(state, job, on_full),
            other => AtFull::GiveBack(state.refuse(other), job),
        };
        let wait = |start: &EventWait| {
            let came = start.wait_until(self.clock(), deadline);
            came.then_some(()).ok_or(Late)
        };
        match self.admit_decided(job, State::accept, refused, wait) {
            Ok(()) => Ok(()),
            Err(refused) => self.submit_refused(refused, deadline, WaitLimits::token(limits)),
        }
    }

    /// A submit has met a full pool, and is still in that section.
    fn at_full(&self, state: &mut State<R::Job>, job: R::Job, on_full: OnFull) -> AtFull<R::Job> {
        match state.view().when_full(self.asked(on_full)) {
            WhenFull::Refuse => AtFull::GiveBack(state.refuse(Closed::<Late>::Full), job),
            WhenFull::RunInPlace => {
                state.counts.submitted += 1;
                AtFull::RunInPlace(job)
            }
            WhenFull::RunInCaller => {
                state.begin_disposal();
                AtFull::RunInCaller(job)
            }
            WhenFull::DiscardOldest => AtFull::Discard(self.replace_oldest(state, job)),
            WhenFull::DiscardNewest => AtFull::Discard(self.discard_newest(state, job)),
            WhenFull::Enqueue => {
                let parker = Parker::of_thread();
                let entry = WaiterEntry::of_thread(Request::Task(job), parker.clone());
                // Step Q1.
                let ticket = state.enqueue_waiter(Arc::clone(&entry));
                AtFull::Wait(entry, ticket, parker)
            }
        }
    }

    #[cold]
    fn submit_refused(
        self: &Arc<Self>,
        refused: AtFull<R::Job>,
        deadline: Option<Instant>,
        token: Option<&CancelToken>,
    ) -> Result<(), (Reason, R::Job)> {
        match refused {
            AtFull::GiveBack(reason, job) => Err((reason, job)),
            AtFull::RunInPlace(job) => {
                self.run_in_place(job);
                Ok(())
            }
            AtFull::RunInCaller(job) => {
                self.run_in_caller(job);
                Ok(())
            }
            AtFull::Discard(discards) => {
                self.discard(discards);
                Ok(())
            }
            AtFull::Wait(entry, ticket, parker) => {
                let waited = self.wait_for_room(&entry, ticket, &parker, deadline, token);
                waited.map_err(|(reason, request)| (reason, request.into_task()))
            }
        }
    }

    /// Another one for each pool that lives.
    fn number(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Sleeps at a waiter entry of the wait queue until it is settled, the time is up or the token
    /// is cancelled.
    pub(crate) fn wait_for_room(
        &self,
        entry: &Arc<WaiterEntry<R::Job>>,
        ticket: u64,
        parker: &Parker,
        deadline: Option<Instant>,
        token: Option<&CancelToken>,
    ) -> WaitResult<Request<R::Job>> {
        loop {
            if let Some(result) = entry.wait(parker, self.clock(), deadline, token) {
                return result.map(|_| ());
            }
            if let Some(request) = self.leave_wait_queue(entry, ticket) {
                return Err((Reason::gave_up(token), request));
            }
        }
    }

    /// Step Q4: the owner of a waiter entry gives up. `None` if the request has just been taken, or
    /// given back.
    pub(crate) fn leave_wait_queue(
        &self,
        entry: &WaiterEntry<R::Job>,
        ticket: u64,
    ) -> Option<Request<R::Job>> {
        let (request, left) = self.state.section(|state| {
            let left = state.wait_queue.remove(ticket);
            let request = entry.withdraw();
            // A scheduler takes back what was cancelled: no call was refused.
            let refused = request.is_some() && !entry.is_scheduled_task();
            state.counts.refused += u64::from(refused);
            (request, left)
        });
        drop(left); // Its waker is user code: the lock is free.
        request
    }

    /// Step S4: runs the deferred effects: wakes threads first, then makes the start that was
    /// reserved, then runs user code.
    #[inline]
    pub(crate) fn run(self: &Arc<Self>, effects: &mut Effects<R::Job>) {
        if effects.searchers {
            self.hint();
        }
        if !effects.is_empty() {
            self.run_deferred(effects);
        }
    }

    /// Shows spinning workers that there is work.
    #[inline]
    pub(crate) fn hint(&self) {
        // Relaxed: they look under the lock before they park.
        self.work.store(true, Relaxed);
    }

    fn run_deferred(self: &Arc<Self>, effects: &mut Effects<R::Job>) {
        effects.wake_threads(); // Steps N3, Q3.
        self.start_if_reserved(effects.start); // Step N4.
        effects.run_user_code();
    }

    /// The part of [`run`](Core::run) that only wakes threads.
    #[inline]
    pub(crate) fn wake_threads(&self, effects: &mut Effects<R::Job>) {
        if effects.searchers {
            self.hint();
        }
        effects.wake_threads();
    }

    /// Starts the worker that was reserved, if one was. `false` if it was refused.
    ///
    /// A refusal is counted; the queue is looked after by those that live, and each later submit
    /// and task end tries again.
    #[inline]
    pub(crate) fn start_if_reserved(self: &Arc<Self>, reserved: bool) -> bool {
        !reserved || self.start_one(|_| {})
    }

    /// As [`start_if_reserved`](Core::start_if_reserved), by a worker that has nothing else
    /// deferred. In the section that counts the new worker it counts as searching again: there are
    /// two now to look at the queue, and the new one, if it is first, is not to start a third.
    #[cold]
    pub(crate) fn start_and_search(self: &Arc<Self>) -> bool {
        self.start_one(|state| state.searching += 1)
    }

    /// Starts the worker that was reserved, and those that are needed beside it. `then` is done in
    /// the last section.
    #[cold]
    fn start_one(self: &Arc<Self>, then: impl Fn(&mut State<R::Job>)) -> bool {
        loop {
            let (started, again) = self.start_reserved(|state, _, started| {
                let again = started.is_ok() && state.reserve_another();
                if !again {
                    then(state);
                }
                (started.is_ok(), again)
            });
            if !again {
                return started;
            }
        }
    }

    /// Starts a worker, for which `starting` was set. `then` is done in the section that counts it,
    /// or that finds that the system refused it.
    pub(crate) fn start_reserved<T>(
        self: &Arc<Self>,
        then: impl FnOnce(&mut State<R::Job>, &mut Effects<R::Job>, io::Result<()>) -> T,
    ) -> T {
        let (number, slot, gone) = self.state.section(|state| {
            let slot = state.slots.take();
            (state.counts.started, slot, state.ending.gone())
        });
        let cell = WorkerCell::new(slot);
        let started = self.spawn_worker(number, &cell, gone);
        // Step N5.
        self.section(|state, effects| {
            state.started(started.is_ok(), effects);
            if started.is_err() {
                state.slots.give_back(slot);
            }
            effects.set_all(&mut state.on_start);
            state.set_if_ended(effects);
            if started.is_ok() {
                effects.wake_worker(&cell); // It is counted: it may look.
                state.admit_waiters(effects);
            }
            then(state, effects, started)
        })
    }

    /// A worker's thread, which waits until it is let in.
    fn spawn_worker(
        self: &Arc<Self>,
        number: u64,
        cell: &Arc<WorkerCell>,
        gone: Arc<Gone>,
    ) -> io::Result<()> {
        let name = || match &self.config.thread_name {
            Some(name) => name(cell.slot),
            None => format!("{}-{number}", self.context.name),
        };
        let body = {
            let (core, cell) = (Arc::clone(self), Arc::clone(cell));
            move || with_last_act(|| worker::main(core, &cell), move || gone.report())
        };
        let spawn = || {
            let options = ThreadOptions {
                name: Some(&name()),
                stack_size: self.config.stack_size,
                gate: self.config.thread_gate.as_deref(),
            };
            spawn_thread(options, body)
        };
        let start = || as_starter_of(self.number(), spawn);
        let started = crate::foreign::guarded(start).unwrap_or_else(|p| {
            crate::foreign::discard(p); // Of the user's code: the gate, or what names threads.
            Err(io::Error::other(
                "the thread gate panicked, or the thread's name",
            ))
        });
        started.map(|thread| *cell.thread.lock() = Some(thread))
    }

    pub(crate) fn run_in_place(&self, job: R::Job) {
        let (outcome, handle) = self.run_nested(job);
        self.state.section(|state| state.counts.count(outcome));
        if let Some(handle) = handle {
            handle.resolve();
        }
    }

    /// As [`run_in_place`](Self::run_in_place), by a caller that is no worker: the task is in flight
    /// meanwhile, and [disposed of](State::disposed) by the caller.
    pub(crate) fn run_in_caller(self: &Arc<Self>, job: R::Job) {
        let (outcome, handle) = self.run_nested(job);
        self.section(|state, effects| {
            state.disposed(outcome, effects);
            state.end_disposal();
        });
        if let Some(handle) = handle {
            handle.resolve();
        }
    }

    fn run_nested(&self, job: R::Job) -> (Outcome, Option<Resolver>) {
        let mut job = Some(job);
        let mut resolve = None;
        let outcome = self.nested(&mut || {
            let job = job.take().expect("it is run once");
            let ran = self.runner.run(ManuallyDrop::new(job), &self.context);
            resolve = ran.resolve;
            ran.outcome
        });
        (outcome, resolve)
    }

    /// What a call with that policy asks a full pool for.
    pub(crate) fn asked(&self, on_full: OnFull) -> WhenFull {
        let caller = Caller {
            worker: self.own_worker(),
            may_nest: self.may_nest(),
            may_discard: Tag::get().depth <= self.config.nesting_limit,
        };
        WhenFull::asked(on_full, caller)
    }

    pub(crate) fn own_worker(&self) -> OwnWorker {
        let tag = Tag::get();
        if tag.group != self.group {
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
        let mut stats = guard.stats(self.context.hook_panics.load(Relaxed));
        stats.refused += self.refused.sum();
        stats
    }
}

impl<R: Runner> PoolRef for Core<R> {
    fn context(&self) -> &TaskContext {
        &self.context
    }

    fn clock(&self) -> &dyn Clock {
        &*self.config.clock
    }

    fn is_own_worker(&self) -> bool {
        Tag::get().group == self.group
    }

    fn process(&self) -> Process {
        self.process
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
        let outcome = run(); // Does not unwind: tasks are run by `TaskContext::execute`.
        outer.set();
        outcome
    }

    fn withdraw(
        self: Arc<Self>,
        claim: &mut dyn FnMut() -> bool,
        end: &mut dyn FnMut() -> Outcome,
    ) -> bool {
        let swept = self.section(|state, effects| {
            // Step C1, in the section: the worker that finds a tombstone finds it counted.
            claim().then(|| state.withdraw(&R::is_tombstone, effects))
        });
        let Some(mut swept) = swept else {
            return false;
        };
        if let Some(entries) = &mut swept {
            entries.clear(); // Perhaps the last references to their tasks: the lock is free.
        }
        // What is user code and may take its time comes last: nothing waits for its end but those
        // that wait for this task's, or for all.
        let outcome = end();
        self.section(|state, effects| {
            state.disposed(outcome, effects);
            state.end_disposal();
            if let Some(block) = swept {
                state.queue.give_back(block);
            }
        });
        true
    }
}

/// The job that a caller offers.
#[inline]
fn take<J>(job: &mut Option<J>) -> J {
    job.take().expect("a job is accepted once")
}

impl<Q, E, F, T> Applicant<Q, E, F, T> {
    #[inline]
    fn take(&mut self) -> (Q, E, F) {
        self.asking.take().expect("it is decided on once")
    }

    /// It is not let in.
    fn refuse<J, L>(&mut self, state: &mut State<J>, why: Closed<L>) -> Step
    where
        F: FnOnce(&mut State<J>, Closed<L>, Q) -> T,
    {
        let (asked, _, refused) = self.take();
        self.refused = Some(refused(state, why, asked));
        Step::Over
    }
}
