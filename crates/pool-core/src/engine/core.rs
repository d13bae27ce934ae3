//! The core of a pool: admission and the start of workers. `worker.rs` runs tasks; `life.rs` releases, waits and
//! changes the capacity.

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

use crate::cancel::CancelToken;
use crate::config::{Config, OnFull, WithinWorker};
use crate::engine::life::{Discarding, Discards};
use crate::engine::worker;
use crate::engine::worker_state::WorkerState;
use crate::error::{BuildError, Closed, Reason, SubmitError};
use crate::sched::decide::{Admission, Caller, OwnWorker, WhenFull};
use crate::sched::effects::Effects;
use crate::sched::event::EventWait;
use crate::sched::load::{LoadStats, Outcome, Striped, StripedCounters};
use crate::sched::ready::{Levels, OtherLevels};
use crate::sched::shared::{Credit, Place, Shared};
use crate::sched::state::State;
use crate::sched::waiters::{Request, WaitResult, WaiterEntry};
use crate::sched::workers::{Gone, WorkerCell};
use crate::stats::Stats;
use crate::task::erased::Task;
use crate::task::handle::PoolRef;
use crate::task::options::{TaskRecord, WaitLimits};
use crate::task::run::{Resolver, TaskContext};

/// The pool that a task goes to.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct Target<'a>(pub(crate) &'a Core);

/// The shared state of a pool: it admits and runs tasks.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct Core {
    pub(crate) state: Shared<Task>,
    /// A hint to spinning workers that the queue is not empty.
    // On its own cache line, like the state, so that read-only fields are not on a line that others write.
    pub(crate) work: CachePadded<AtomicBool>,
    /// Number of refusals by the full flag, without the lock.
    striped: StripedCounters,
    pub(crate) context: TaskContext,
    pub(crate) config: Config,
    pub(crate) installed: Installed,
    /// Identifies the pool's own workers. Members of a `MultiPool` share one group.
    pub(crate) group: u64,
    /// The figures that a `MultiPool` reads without the lock.
    pub(crate) load_stats: Option<Arc<LoadStats>>,
    /// The process in which the workers exist.
    process: Process,
    /// The same, or `NONE` if each task has a record. One comparison thus tells a plain call that neither applies.
    pub(crate) plain_process: Process,
}

/// Creates the queues of the priorities.
pub(crate) type NewLevels = fn() -> Box<dyn OtherLevels<Task>>;

/// The last part of the section that counts a started worker, or the system's refusal.
type OnStart<'a> = &'a mut dyn FnMut(&mut State<Task>, &mut Effects<Task>, io::Result<()>);

/// Code that a builder's setter installs. A program does not contain that of the setters that it does not call.
#[derive(Clone)]
pub(crate) struct Installed {
    /// Per-worker state of a [`FuncPool`](crate::FuncPool).
    pub(crate) worker_state: Option<Arc<dyn WorkerState>>,
    /// Creates the queues of the priorities.
    pub(crate) levels: Option<NewLevels>,
    /// Adds a record to a submitted task, if each task has one.
    pub(crate) add_record: Option<fn(Task, TaskRecord) -> Task>,
    /// Ends the pool as its last handle is dropped. Does not unwind.
    pub(crate) end: fn(&Arc<Core>),
    /// Starts the number of workers that a new pool has.
    pub(crate) start_ahead: fn(&Arc<Core>, usize) -> io::Result<()>,
    /// Runs a worker until its end. Does not unwind.
    pub(crate) live: fn(&Arc<Core>, &Arc<WorkerCell>),
    /// What a full pool does with a task that it discards, and with the one that takes its place.
    pub(crate) discarding: Option<&'static Discarding>,
}

impl Installed {
    pub(crate) const fn new() -> Self {
        Self {
            levels: None,
            add_record: None,
            worker_state: None,
            end: Core::drain,
            start_ahead: |_, _| Ok(()),
            live: worker::live,
            discarding: None,
        }
    }
}

/// Creates the queues of the priorities of tasks.
pub(crate) fn levels() -> Box<dyn OtherLevels<Task>> {
    let levels = Levels {
        priority_of: Task::priority,
        is_tombstone: Task::is_tombstone,
    };
    levels.queues()
}

/// Error: the time limit of a call has passed.
pub(crate) struct Late;

/// A job that asks for admission, or a caller that asks for a permit (then `Q` is `()`).
// The job stays here until it is decided, because passing it from section to section costs as much as a section.
struct Applicant<Q, E, F, T> {
    /// The job, the change of the section that finds room, and that of the section that does not.
    asking: Option<(Q, E, F)>,
    /// The result of the latter.
    refused: Option<T>,
}

/// Next step for an [`Applicant`].
enum Step {
    Over,
    /// There is room but no worker. The caller has reserved the start of the first one.
    StartFirst,
    /// Another thread is starting the first worker.
    AwaitStart(EventWait),
}

/// The next step of a submit that met a full pool.
enum AtFull<J> {
    GiveBack(Reason, J),
    RunInPlace(J),
    RunInCaller(J),
    Discard(Discards<J>),
    Wait(Arc<WaiterEntry<J>>, u64, ThreadParker),
}

impl Core {
    pub(crate) fn new(
        context: TaskContext,
        config: Config,
        installed: Installed,
        group: u64,
        member: Option<(usize, Arc<LoadStats>)>,
    ) -> Result<Arc<Self>, BuildError> {
        let levels = installed.levels.map(|levels| levels());
        // Before the core exists, because a ring that cannot be allocated must fail the build of the pool.
        let mut state = State::new(&config, levels).map_err(BuildError::OutOfMemory)?;
        let load_stats = member.map(|(number, load_stats)| {
            state.number = number;
            state.load_stats = Some(Arc::clone(&load_stats));
            load_stats
        });
        let process = Process::current();
        // So that a plain call compares one number to learn that it is neither in a forked child nor needs a record.
        let plain_process = if context.records_all() {
            Process::NONE
        } else {
            process
        };
        Ok(Arc::new(Self {
            state: Shared::new(state),
            work: CachePadded::new(AtomicBool::new(false)),
            striped: StripedCounters::new(),
            context,
            config,
            installed,
            group,
            load_stats,
            process,
            plain_process,
        }))
    }

    /// Step S1: whether a call that does not wait is refused without the lock. If so, the refusal has been counted.
    #[inline]
    pub(crate) fn refuses_full(&self, on_full: OnFull) -> bool {
        let refuses = matches!(on_full, OnFull::Refuse) && self.state.is_full();
        if refuses {
            self.count_refused();
        }
        refuses
    }

    /// Adds the record that a submitted task without options needs.
    pub(crate) fn recorded(&self, job: Task) -> Task {
        match (self.installed.add_record, self.context.recorder) {
            (Some(add), Some(record)) => add(job, record(&self.context)),
            _ => job,
        }
    }

    /// Whether each task has a record.
    pub(crate) fn records_all(&self) -> bool {
        self.plain_process == Process::NONE
    }

    /// Counts a refusal without taking the lock.
    #[inline(never)]
    pub(crate) fn count_refused(&self) {
        self.striped.add_one(Striped::Refused);
    }

    /// Runs one section: takes the lock, changes the state, unlocks and runs the deferred effects.
    #[inline]
    pub(crate) fn section<T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut State<Task>, &mut Effects<Task>) -> T,
    ) -> T {
        let mut effects = Effects::new();
        let result = self.state.section(|state| change(state, &mut effects));
        self.run(&mut effects);
        result
    }

    /// Accepts the job if there is room, after starting the first worker if there is none. Threads, futures,
    /// multi-pools and schedulers all enter here. If the job is not accepted, `refused` decides about it, in the
    /// section that found no room.
    #[inline]
    pub(crate) fn admit<T>(
        self: &Arc<Self>,
        job: Task,
        refused: impl FnOnce(&mut State<Task>, Closed, Task) -> T,
    ) -> Result<(), T> {
        let mut job = Some(job);
        // Before the section: a busy pool's submitters must not contend with its workers.
        if self.enter(|| take(&mut job)) {
            return Ok(());
        }
        self.admit_decided(take(&mut job), State::accept, refused, |start| {
            start.wait();
            Ok(())
        })
    }

    /// The fast path of [`admit`](Self::admit), step S2: a slot in a busy pool with room.
    ///
    /// # Safety
    /// The caller must write a job to the slot and then call [`filled`](Self::filled).
    #[inline]
    pub(crate) unsafe fn place(&self) -> Option<Place<'_, Task>> {
        // One comparison for both a fork and records. Either must take the slower path.
        if !self.plain_process.is_current() {
            return None;
        }
        let credit = self.credit()?;
        // SAFETY: the caller promises what `Credit::place` asks for.
        Some(unsafe { credit.place() })
    }

    /// Completes the insertion of a job.
    ///
    /// # Safety
    /// The job must have been written to the slot.
    #[inline]
    pub(crate) unsafe fn filled(&self, place: Place<'_, Task>) {
        // SAFETY: the caller has written the job.
        let searchers = unsafe { place.filled() };
        self.entered(searchers);
    }

    /// See [`Shared::credit`].
    #[inline]
    pub(crate) fn credit(&self) -> Option<Credit<'_, Task>> {
        if self.state.is_full() {
            return None; // Without the lock: a full pool grants no credits.
        }
        self.state.credit(|| self.is_own_worker())
    }

    /// See [`Shared::try_reserve`].
    #[inline]
    pub(crate) fn try_reserve(&self) -> bool {
        self.state.try_reserve(|| self.is_own_worker())
    }

    /// Accepts the job if the pool is busy and has room. `take` moves the job out, and is not called otherwise.
    #[inline]
    fn enter(&self, take: impl FnOnce() -> Task) -> bool {
        let Some(credit) = self.credit() else {
            return false;
        };
        let searchers = credit.enter(take());
        self.entered(searchers);
        true
    }

    /// Step S2, after the inbox's lock was released: shows the task to spinning workers, or, if there are none, to
    /// busy ones.
    #[inline]
    pub(crate) fn entered(&self, searchers: bool) {
        if searchers {
            self.hint();
        } else {
            self.state.show_wanted();
        }
    }

    /// Like [`admit`](Self::admit), for a caller without a job. On success it holds a permit.
    pub(crate) fn admit_permit<L, T>(
        self: &Arc<Self>,
        refused: impl FnOnce(&mut State<Task>, Closed<L>) -> T,
        wait: impl Fn(&EventWait) -> Result<(), L>,
    ) -> Result<(), T> {
        // Without a decision if none is needed, as a task.
        if self.try_reserve() {
            return Ok(());
        }
        let reserve = |state: &mut State<Task>, (), _: &mut _| state.reserve();
        self.admit_decided((), reserve, |state, why, ()| refused(state, why), wait)
    }

    #[inline(never)]
    fn admit_decided<Q, L, T>(
        self: &Arc<Self>,
        asked: Q,
        enter: impl FnOnce(&mut State<Task>, Q, &mut Effects<Task>),
        refused: impl FnOnce(&mut State<Task>, Closed<L>, Q) -> T,
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
                // Decided in the section that counts the worker: it might expire before another one, and a task
                // must not be accepted without a live worker.
                Step::StartFirst => self.start_reserved(|state, effects, started| match started {
                    Ok(()) => self.decide(state, effects, &mut applicant),
                    Err(refused) => applicant.refuse(state, Closed::NoThread(refused)),
                }),
                Step::AwaitStart(start) => {
                    // With no lock held. The wait is user code if the clock is the user's.
                    let waited = wait(&start);
                    self.section(|state, effects| match waited {
                        // The start may have finished between the timeout and the lock.
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
        state: &mut State<Task>,
        effects: &mut Effects<Task>,
        applicant: &mut Applicant<Q, E, F, T>,
    ) -> Step
    where
        E: FnOnce(&mut State<Task>, Q, &mut Effects<Task>),
        F: FnOnce(&mut State<Task>, Closed<L>, Q) -> T,
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
                // Set in the section that found no worker, so that exactly one submitter starts the first one.
                state.starting = true;
                Step::StartFirst
            }
            Admission::FirstWorker if starter_of() == self.number() => {
                // The thread gate of that start is submitting to its own pool, and would wait for itself.
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

    /// Accepts the job, or waits for room as `on_full` and `limits` say. A refused job stays in `job`. The caller has
    /// asked [`refuses`](crate::engine::admit::Admit::refuses) before.
    #[inline]
    pub(crate) fn submit(
        self: &Arc<Self>,
        job: &mut Option<Task>,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
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

    /// Like [`submit`](Self::submit), without the fast path.
    #[inline(never)]
    fn submit_decided(
        self: &Arc<Self>,
        job: Task,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<(), (Reason, Task)> {
        // Step S1. A tree of tasks in a full pool runs nearly all of them in place, and its workers must not contend.
        if self.state.is_full() && self.asked(on_full) == WhenFull::RunInPlace {
            return self.submit_refused(AtFull::RunInPlace(job), None, limits);
        }
        // Computed only here, because the fast path must not read the clock.
        let deadline = WaitLimits::deadline(limits, on_full);
        let refused = |state: &mut State<Task>, why: Closed<Late>, job| match why {
            Closed::Full => self.at_full(state, job, on_full),
            // A pool whose policy runs tasks in their callers needs no thread.
            Closed::NoThread(_) if self.runs_in_caller(state, on_full) => {
                state.begin_disposal();
                AtFull::RunInCaller(job)
            }
            other => AtFull::GiveBack(state.refuse(other), job),
        };
        let wait = |start: &EventWait| {
            let came = start.wait_until(self.clock(), deadline);
            came.then_some(()).ok_or(Late)
        };
        match self.admit_decided(job, State::accept, refused, wait) {
            Ok(()) => Ok(()),
            Err(refused) => self.submit_refused(refused, deadline, limits),
        }
    }

    /// Whether the task of a call with this policy runs in the caller if no thread can run it.
    fn runs_in_caller(&self, state: &State<Task>, on_full: OnFull) -> bool {
        state.view().when_full(self.asked(on_full)) == WhenFull::RunInCaller
    }

    /// Applies the policy for a full pool, in the critical section that found the pool full.
    fn at_full(&self, state: &mut State<Task>, job: Task, on_full: OnFull) -> AtFull<Task> {
        match state.view().when_full(self.asked(on_full)) {
            WhenFull::Refuse => AtFull::GiveBack(state.refuse(Closed::<Late>::Full), job),
            WhenFull::RunInPlace => AtFull::RunInPlace(job),
            WhenFull::RunInCaller => {
                state.begin_disposal();
                AtFull::RunInCaller(job)
            }
            WhenFull::DiscardOldest => {
                AtFull::Discard((self.discarding().replace_oldest)(state, job))
            }
            WhenFull::DiscardNewest => {
                AtFull::Discard((self.discarding().discard_newest)(state, job))
            }
            WhenFull::Enqueue => {
                // The thread's own parker, so that a wait allocates none.
                let parker = Parker::of_thread();
                let entry = WaiterEntry::of_thread(Request::Task(job), parker.clone());
                // Step Q1. In the section that found no room, so that room freed later finds the entry.
                let ticket = state.enqueue_waiter(Arc::clone(&entry));
                AtFull::Wait(entry, ticket, parker)
            }
        }
    }

    #[cold]
    fn submit_refused(
        self: &Arc<Self>,
        refused: AtFull<Task>,
        deadline: Option<Instant>,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<(), (Reason, Task)> {
        match refused {
            AtFull::GiveBack(reason, job) => Err((reason, job)),
            AtFull::RunInPlace(job) => {
                WaitLimits::begin_in_place(limits);
                self.run_in_place(job);
                Ok(())
            }
            AtFull::RunInCaller(job) => {
                WaitLimits::begin_in_place(limits);
                self.run_in_caller(job);
                Ok(())
            }
            AtFull::Discard(discards) => {
                (self.discarding().discard)(self, discards);
                Ok(())
            }
            AtFull::Wait(entry, ticket, parker) => {
                let token = WaitLimits::token(limits);
                let waited = self.wait_for_room(&entry, ticket, &parker, deadline, token);
                waited.map_err(|(reason, request)| (reason, request.into_task()))
            }
        }
    }

    /// Another one for each pool that lives.
    fn number(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Waits until the entry's request is served or returned, the deadline passes or the token is cancelled.
    pub(crate) fn wait_for_room(
        &self,
        entry: &Arc<WaiterEntry<Task>>,
        ticket: u64,
        parker: &Parker,
        deadline: Option<Instant>,
        token: Option<&CancelToken>,
    ) -> WaitResult<Request<Task>> {
        loop {
            if let Some(result) = entry.wait(parker, self.clock(), deadline, token) {
                return result.map(|_| ());
            }
            // If the request is gone it was served just now, so the next round reports that.
            if let Some(request) = self.leave_wait_queue(entry, ticket) {
                return Err((Reason::gave_up(token), request));
            }
        }
    }

    /// Step Q4: withdraws a waiting request. Returns `None` if it has just been served or returned.
    pub(crate) fn leave_wait_queue(
        &self,
        entry: &WaiterEntry<Task>,
        ticket: u64,
    ) -> Option<Request<Task>> {
        self.leave_wait_queue_as(entry, ticket, true)
    }

    /// The same. A call that is not refused runs its task in place.
    pub(crate) fn leave_wait_queue_as(
        &self,
        entry: &WaiterEntry<Task>,
        ticket: u64,
        is_refused: bool,
    ) -> Option<Request<Task>> {
        let (request, left) = self.state.section(|state| {
            // Both in one section: no other one may find the entry in the queue after its request was withdrawn.
            let left = state.wait_queue.remove(ticket);
            let request = entry.withdraw();
            // A scheduler withdraws a task that was cancelled, which is not a call.
            if is_refused && request.is_some() && !entry.is_task() {
                state.counts.refused += 1;
            }
            (request, left)
        });
        drop(left); // After the section, because its waker is user code.
        request
    }

    /// Step S4: runs the deferred effects: thread wake-ups, then a reserved start, then user code.
    #[inline]
    pub(crate) fn run(self: &Arc<Self>, effects: &mut Effects<Task>) {
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
        // Relaxed, because a worker that misses the hint checks the queue under the lock before it parks.
        self.work.store(true, Relaxed);
    }

    fn run_deferred(self: &Arc<Self>, effects: &mut Effects<Task>) {
        // User code last: it may take its time, and nobody may have to wait for it to be woken or started.
        effects.wake_threads(); // Steps N3, Q3.
        self.start_if_reserved(effects.start); // Step N4.
        effects.run_user_code();
    }

    /// The part of [`run`](Core::run) that only wakes threads.
    #[inline]
    pub(crate) fn wake_threads(&self, effects: &mut Effects<Task>) {
        if effects.searchers {
            self.hint();
        }
        effects.wake_threads();
    }

    /// Starts a worker if a start was reserved. Returns `false` if the system refused it.
    // A refusal strands no task: the live workers still look after the queue, and each later submit and each end of a
    // task tries again.
    #[inline]
    pub(crate) fn start_if_reserved(self: &Arc<Self>, reserved: bool) -> bool {
        !reserved || self.start_one(|_| {})
    }

    /// Like [`start_if_reserved`](Core::start_if_reserved), for a worker without other deferred effects. It counts as
    /// searching again in the section that counts the new worker.
    // Two workers then look at the queue, so the new one must not start a third if it looks first.
    #[cold]
    pub(crate) fn start_and_search(self: &Arc<Self>) -> bool {
        self.start_one(|state| state.searching += 1)
    }

    /// Starts the reserved worker, and further ones if they are needed. `then` runs in the last section.
    #[cold]
    fn start_one(self: &Arc<Self>, then: fn(&mut State<Task>)) -> bool {
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

    /// Starts a worker whose start was reserved with `starting`. `then` runs in the section that counts the worker, or
    /// the system's refusal.
    pub(crate) fn start_reserved<T>(
        self: &Arc<Self>,
        then: impl FnOnce(&mut State<Task>, &mut Effects<Task>, io::Result<()>) -> T,
    ) -> T {
        let (mut then, mut result) = (Some(then), None);
        self.start_counted(&mut |state, effects, started| {
            let then = then.take();
            result = then.map(|then| then(state, effects, started));
        });
        result.expect("`start_counted` calls the closure once")
    }

    fn start_counted(self: &Arc<Self>, then: OnStart<'_>) {
        // The slot is taken before the thread exists, because its name may contain the slot.
        let (number, slot, gone) = self.state.section(|state| {
            let slot = state.slots.take();
            (state.counts.started, slot, state.ending.gone())
        });
        // With no lock held: starting a thread is a system call, and the gate and the name are user code.
        let cell = WorkerCell::new(slot);
        let started = self.spawn_worker(number, &cell, gone);
        // Step N5.
        self.section(|state, effects| {
            state.started(started.is_ok(), effects);
            if started.is_err() {
                state.slots.give_back(slot);
            }
            // Also after a refusal, since the waiting submitters must try on their own.
            effects.set_all(&mut state.on_start);
            // A pool that was released during a refused start ends here: no worker would report it.
            state.set_if_ended(effects);
            if started.is_ok() {
                // Only now, because a worker that is not counted yet must not look at the queue.
                effects.wake_worker(&cell);
                state.admit_waiters(effects);
            }
            then(state, effects, started);
        });
    }

    /// Spawns a worker's thread. It waits until the worker is counted.
    fn spawn_worker(
        self: &Arc<Self>,
        number: u64,
        cell: &Arc<WorkerCell>,
        gone: Arc<Gone>,
    ) -> io::Result<()> {
        // A closure, so that the name is computed where panics of user code are caught.
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
            crate::foreign::discard(p); // The panic of user code: the gate or the thread's name.
            Err(io::Error::other(
                "the thread gate or the thread name callback panicked",
            ))
        });
        started.map(|thread| *cell.thread.lock() = Some(thread))
    }

    /// Runs the job inside the task that the calling worker runs. It needs no room of its own, so it is counted as
    /// submitted but not as in flight; without the lock, because in a full pool nearly all tasks of a tree run so.
    pub(crate) fn run_in_place(&self, job: Task) {
        self.striped.add_one(Striped::BegunInPlace);
        let (outcome, handle) = self.run_nested(job);
        match outcome {
            Outcome::Completed => self.striped.add_one(Striped::CompletedInPlace),
            other => self.state.section(|state| state.counts.count(other)),
        }
        if let Some(handle) = handle {
            // After the count, so that a caller who sees the task ended finds it counted.
            handle.resolve();
        }
    }

    /// Like [`run_in_place`](Self::run_in_place), for a caller that is not a worker. The task is counted as
    /// [being disposed of](State::disposed) until it has ended.
    pub(crate) fn run_in_caller(self: &Arc<Self>, job: Task) {
        let (outcome, handle) = self.run_nested(job);
        self.section(|state, effects| {
            state.disposed(outcome, effects);
            state.end_disposal();
        });
        if let Some(handle) = handle {
            handle.resolve();
        }
    }

    fn run_nested(&self, job: Task) -> (Outcome, Option<Resolver>) {
        let mut job = Some(job);
        let mut resolve = None;
        let outcome = self.nested(&mut || {
            let job = job.take().expect("it is run once");
            let ran = Task::run(ManuallyDrop::new(job), &self.context);
            resolve = ran.resolve;
            match ran.outcome {
                // Cancelled by its group. The job was not in the queue, so no section has counted its end.
                Outcome::Withdrawn => Outcome::Cancelled,
                outcome => outcome,
            }
        });
        (outcome, resolve)
    }

    /// Returns the answer that a full pool gives to a call with this policy.
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
        stats.refused += self.striped.sum(Striped::Refused);
        // In this order, so that no more tasks have ended than were submitted.
        stats.completed += self.striped.sum(Striped::CompletedInPlace);
        stats.submitted += self.striped.sum(Striped::BegunInPlace);
        // Both, so that a pool at rest has as many ended tasks as submitted ones.
        let pieces = self.context.piece_panics.load(Relaxed);
        stats.submitted += pieces;
        stats.panicked += pieces;
        stats
    }
}

impl PoolRef for Core {
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
        // Saved and restored, because runs in place nest to any depth below the limit.
        let outer = Tag::get();
        Tag {
            depth: outer.depth + 1,
            ..outer
        }
        .set();
        // Does not unwind, because `TaskContext::execute` catches panics: the tag is always restored.
        let outcome = run();
        outer.set();
        outcome
    }

    fn withdraw(
        self: Arc<Self>,
        claim: &mut dyn FnMut() -> bool,
        end: &mut dyn FnMut() -> Outcome,
    ) -> bool {
        let swept = self.section(|state, effects| {
            // Step C1. Claimed in the section that counts the tombstone: a worker that finds it must find it counted.
            claim().then(|| state.withdraw(&Task::is_tombstone, effects))
        });
        let Some(mut swept) = swept else {
            return false;
        };
        if let Some(entries) = &mut swept {
            // After the section: these may be the last references to tasks, whose drop is user code.
            entries.clear();
        }
        // Slow user code comes last, so that only the waits for this task's end, or for all tasks, wait for it.
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

/// Takes the job out of a caller's slot.
#[inline]
fn take<J>(job: &mut Option<J>) -> J {
    job.take().expect("a job is accepted once")
}

impl<Q, E, F, T> Applicant<Q, E, F, T> {
    #[inline]
    fn take(&mut self) -> (Q, E, F) {
        self.asking.take().expect("it is decided on once")
    }

    /// Ends the application without admission.
    fn refuse<J, L>(&mut self, state: &mut State<J>, why: Closed<L>) -> Step
    where
        F: FnOnce(&mut State<J>, Closed<L>, Q) -> T,
    {
        let (asked, _, refused) = self.take();
        self.refused = Some(refused(state, why, asked));
        Step::Over
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use testkit::Gate;

    use crate::Pool;

    #[testkit::test]
    fn a_worker_of_a_full_pool_runs_its_tasks_without_the_lock() {
        let pool = Pool::builder().capacity(1).build().expect("it has one");
        let [locked, done] = [Gate::new(), Gate::new()];
        let (inner, begins, ended) = (pool.clone(), locked.clone(), done.clone());
        let outer = pool.spawn(move || {
            begins.wait();
            inner.submit(|| ()).expect("it runs in place");
            ended.open();
        });
        locked.wait_for_arrivals(1);
        let held = pool.core().state.lock();
        locked.open();
        done.wait();
        drop(held);
        outer.expect("there is room").join().expect("it returns");
    }
}
