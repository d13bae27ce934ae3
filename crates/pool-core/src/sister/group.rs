//! Interface for a multi-pool.
//!
//! Each call is one section of one pool. A multi-pool may make several sections under a lock of its
//! own, so a section returns its effects as [`Deferred`] instead of running them: effects can be
//! user code, which must not run under that lock.

use std::any::Any;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use sync_shim::{Clock, Parker};

use crate::cancel::CancelToken;
use crate::config::{Capacity, OnFull};
use crate::engine::core::Core;
use crate::engine::life::Disposal;
use crate::engine::runner::Runner;
use crate::error::{BuildError, Closed, SubmitError, TuneError, WaitError};
use crate::face::builder::Builder;
use crate::face::pool::WorkerPool;
use crate::permit::Permit;
use crate::sched::decide::{Admission, WhenFull};
use crate::sched::effects::Effects;
use crate::sched::load::LoadStats;
use crate::sched::state::State;
use crate::sched::waiters::{Request, WaitResult, WaiterCount, WaiterEntry};
use crate::sister::pool_handle::PoolHandle;
use crate::task::erased::Task;
use crate::task::handle::RawHandle;

/// Effects of a section, to be run once no lock is held, because they may be user code.
#[must_use = "deferred effects have to be run"]
#[expect(missing_debug_implementations, reason = "never leaves `multi-pool`")]
pub struct Deferred {
    core: Arc<Core>,
    effects: Effects<Task>,
}

impl Deferred {
    /// Wakes waiters, and starts a worker if one was reserved.
    pub fn run(mut self) {
        self.core.run(&mut self.effects);
    }

    /// Runs the effects of several pools. All threads are woken before any worker is started, and
    /// user code runs last, so that user code of one pool does not delay another pool.
    pub fn run_all(mut all: Vec<Self>) {
        // Threads first, because starting a worker may be slow: it asks the thread gate.
        for one in &mut all {
            one.core.wake_threads(&mut one.effects);
        }
        for one in &all {
            one.core.start_if_reserved(one.effects.start);
        }
        // User code last: otherwise a slow waker of one pool would delay the others.
        for one in &mut all {
            one.effects.run_user_code();
        }
    }
}

/// Place of one waiter in the wait queues of several pools. The first pool with room takes the
/// request; the others then find the place empty.
#[expect(missing_debug_implementations, reason = "never leaves `multi-pool`")]
pub struct Ticket<J>(Arc<WaiterEntry<J>>);

/// Outcome of a request to several pools: the index of the pool that accepted it, or an error with
/// the request.
pub type Answer<Q> = Result<usize, SubmitError<Q>>;

fn answer<Q>(result: WaitResult<Q, usize>) -> Answer<Q> {
    result.map_err(|(reason, request)| reason.with(request))
}

impl<J> Ticket<J> {
    /// Creates a ticket. Its owner sleeps on `sleeper`, or polls with a waker if there is none.
    /// `waiter_count` counts it while its request waits.
    pub fn new(
        request: Request<J>,
        sleeper: Option<Parker>,
        waiter_count: &Arc<WaiterCount>,
    ) -> Self {
        Self(WaiterEntry::counted_in(
            request,
            sleeper,
            Arc::clone(waiter_count),
        ))
    }

    /// Sleeps until the ticket is settled. Returns `None` on a timeout, or if the token is
    /// cancelled.
    pub fn wait(
        &self,
        parker: &Parker,
        clock: &dyn Clock,
        deadline: Option<Instant>,
        token: Option<&CancelToken>,
    ) -> Option<Answer<Request<J>>> {
        self.0.wait(parker, clock, deadline, token).map(answer)
    }

    /// The outcome of the wait, if it has ended.
    pub fn outcome(&self) -> Option<Answer<Request<J>>> {
        self.0.outcome().map(answer)
    }

    /// As [`outcome`](Ticket::outcome), and registers `waker` if the wait has not ended.
    pub fn poll(&self, waker: &Waker) -> Option<Answer<Request<J>>> {
        self.0.poll(waker).map(answer)
    }

    /// Ends the wait in a forked child, where no other thread will settle it.
    ///
    /// # Errors
    /// Contains the request, unless it had left the wait queues.
    pub fn abandon(&self) -> Answer<Request<J>> {
        answer(self.0.abandon().map(|()| 0))
    }

    /// Takes the request back. Returns `None` if a pool accepted it, or a release gave it back.
    pub fn withdraw(&self) -> Option<Request<J>> {
        self.0.withdraw()
    }
}

/// Outcome of entering a ticket at one pool.
#[expect(missing_debug_implementations, reason = "never leaves `multi-pool`")]
pub enum Enqueued {
    /// The ticket stands in the wait queue, at this place.
    Waiting(u64),
    /// The pool had room and accepted the request, unless another pool had taken it.
    Taken(Deferred),
    /// The pool has room but no worker yet: call [`PoolHandle::accept`], which starts one.
    NoWorker,
    /// The pool has room but no worker yet, and the ticket stands in the wait queue. The section
    /// that adds the first worker accepts it.
    Unstaffed(u64),
    /// The pool is released.
    Released,
}

/// Builds `count` pools that treat each other's workers as own workers. After an error, those
/// already built have ended.
///
/// # Errors
/// As [`Builder::build`].
pub fn build_group<R: Runner + Clone>(
    each: Builder<R>,
    count: usize,
) -> Result<Vec<PoolHandle>, BuildError> {
    each.build_group(count)
}

/// Builds a pool whose first worker is started by its first task, whatever the settings say. So the only errors are
/// settings that contradict each other.
///
/// # Errors
/// As [`Builder::build`].
pub fn build_unstaffed<R: Runner>(settings: Builder<R>) -> Result<WorkerPool<R>, BuildError> {
    settings.build_unstaffed()
}

/// The name that the members' names are derived from.
pub fn name_of_group<R: Runner>(each: &Builder<R>) -> &str {
    each.name_as_set()
}

/// Whether there was an instant at which no pool had a task in flight.
///
/// Each pool was at rest at both looks, and accepted no task in between. So all were at rest at
/// once, between the last look of the first round and the first of the second.
pub fn are_at_rest(pools: &[PoolHandle]) -> bool {
    let look = || -> Option<Vec<u64>> { pools.iter().map(PoolHandle::at_rest).collect() };
    look().is_some_and(|first| look() == Some(first))
}

/// Returns a rejected job to the caller. A function instead of a closure, so that `admit` is
/// compiled once per job type.
fn return_job<J>(_: &mut State<J>, why: Closed, job: J) -> (Closed, J) {
    (why, job)
}

/// Submitting.
impl PoolHandle {
    /// Accepts the job if there is room, after starting the first worker if there is none. Refusals
    /// are not counted, because another pool may accept the job.
    ///
    /// # Errors
    /// The error returns the job and is never `TimedOut`.
    pub fn accept(&self, job: Task) -> Result<(), SubmitError<Task>> {
        if self.0.state.is_full() {
            return Err(SubmitError::Full(job)); // Without the lock, so that full members are cheap.
        }
        let admitted = self.0.admit(job, return_job);
        admitted.map_err(|(why, job)| why.reason().with(job))
    }

    /// Assigns `handle` to this pool, which has accepted its task. Cancelling the task, or joining
    /// it in place, then removes it from this pool's queue.
    pub fn adopt(&self, handle: &mut RawHandle) {
        handle.set_pool(Arc::clone(&self.0) as _);
    }

    /// As [`accept`](Self::accept), for both kinds of request.
    ///
    /// # Errors
    /// The error returns the request and is never `TimedOut`.
    pub fn accept_request(&self, request: Request<Task>) -> Result<(), SubmitError<Request<Task>>> {
        match request {
            Request::Task(job) => {
                let accepted = self.accept(job);
                accepted.map_err(|refused| refused.map(Request::Task))
            }
            Request::Permit => {
                let reserved = self.reserve();
                reserved.map_err(|refused| refused.map(|()| Request::Permit))
            }
        }
    }

    /// Reserves room if there is any, after starting the first worker if there is none. Refusals
    /// are not counted. The caller must call [`permit`](Self::permit) next, because until then no
    /// one gives the room back.
    ///
    /// # Errors
    /// Never `TimedOut`.
    pub fn reserve(&self) -> Result<(), SubmitError> {
        if self.0.state.is_full() {
            return Err(SubmitError::Full(())); // Without the lock, so that full members are cheap.
        }
        let admitted = self.0.admit_permit(
            |_, why: Closed| why,
            |start| {
                start.wait();
                Ok(())
            },
        );
        admitted.map_err(|why| why.reason().with(()))
    }

    /// Creates the permit for room reserved in this pool. The permit keeps `open` alive.
    pub fn permit<R: Runner>(&self, open: Arc<dyn Any + Send + Sync>) -> Permit<R> {
        Permit::new(Arc::clone(&self.0), open)
    }

    /// Puts a ticket into the wait queue, or takes its request immediately if there is room. With
    /// `unstaffed` the ticket also enters the wait queue of a pool that has room but no worker.
    pub fn enqueue_waiter(&self, ticket: &Ticket<Task>, unstaffed: bool) -> Enqueued {
        let (enqueued, deferred) = self.deferred(|state, effects| match state.view().admission() {
            Admission::Full => Some(Enqueued::Waiting(
                state.enqueue_waiter(Arc::clone(&ticket.0)),
            )),
            Admission::Room => {
                // The owner need not be woken: it is the caller, and looks at the ticket next.
                match ticket.0.claim(state.number) {
                    Some((Request::Task(job), _awake)) => state.accept(job, effects),
                    Some((Request::Permit, _awake)) => state.reserve(),
                    None => {}
                }
                None
            }
            Admission::FirstWorker if unstaffed => Some(Enqueued::Unstaffed(
                state.enqueue_waiter(Arc::clone(&ticket.0)),
            )),
            Admission::FirstWorker => Some(Enqueued::NoWorker),
            Admission::Released => Some(Enqueued::Released),
        });
        enqueued.unwrap_or(Enqueued::Taken(deferred))
    }

    /// Removes a ticket from its place in the wait queue, if it still stands there.
    pub fn leave(&self, place: u64) {
        let left = self.0.state.section(|state| state.wait_queue.remove(place));
        // USER CODE: the drop of the waiter's waker. It must not run in the section.
        drop(left);
    }

    /// Runs the job on this thread, counted as accepted and ended, as part of its outer task.
    pub fn run_in_place(&self, job: Task) {
        self.0.run_in_place(job);
    }

    /// Runs the job on this thread for a caller that is not a worker, because the pool is full.
    pub fn run_in_caller(&self, job: Task) {
        self.0.state.section(State::begin_disposal);
        self.0.run_in_caller(job);
    }

    /// Accepts the job and discards the oldest one that may be discarded.
    ///
    /// # Errors
    /// The job, if no task is queued here.
    pub fn replace_oldest(&self, job: Task) -> Result<(), Task> {
        let replaced = self.0.state.section(|state| {
            // A released pool accepts no task, so it must not discard one for it either.
            if !state.open || state.queued() == 0 {
                return Err(job);
            }
            Ok(Core::replace_oldest(state, job))
        });
        replaced.map(|discards| self.0.discard(discards))
    }

    /// Accepts the job and discards it.
    pub fn discard_newest(&self, job: Task) {
        let discards = self
            .0
            .state
            .section(|state| Core::discard_newest(state, job));
        self.0.discard(discards);
    }

    /// Translates a policy into the action to take if all pools of the group are full.
    pub fn asked(&self, on_full: OnFull, request: &Request<Task>) -> WhenFull {
        match request {
            Request::Permit => WhenFull::asked_by_permit(on_full, self.0.own_worker()),
            Request::Task(_) => match self.0.asked(on_full) {
                // A paused pool must not start a task, not even in its caller.
                WhenFull::RunInCaller if self.is_paused() => WhenFull::Enqueue,
                asked => asked,
            },
        }
    }
}

/// Figures and settings.
impl PoolHandle {
    /// Load statistics, which can be read without the lock.
    ///
    /// # Panics
    /// If the pool is not a member of a group.
    pub fn load_stats(&self) -> &Arc<LoadStats> {
        let load_stats = self.0.load_stats.as_ref();
        load_stats.expect("a member of a group has load statistics")
    }

    /// Policy of `submit` at a full pool.
    pub fn on_full(&self) -> OnFull {
        self.0.config.on_full
    }

    /// Whether a call with that policy could discard a task without a discard hook.
    pub fn discards_unseen(&self, on_full: OnFull) -> bool {
        self.0.discards_unseen(on_full)
    }

    /// Whether every task has a record.
    #[inline]
    pub fn records_all(&self) -> bool {
        self.0.records_all()
    }

    /// Maximum number of waiting threads and futures.
    pub fn max_waiting(&self) -> usize {
        self.0.config.max_waiting
    }

    /// Number of tasks accepted so far, or `None` if one of them is still in flight.
    pub fn at_rest(&self) -> Option<u64> {
        let guard = self.0.state.lock();
        (guard.unfinished() == 0).then_some(guard.counts.submitted)
    }
}

/// Lifecycle.
impl PoolHandle {
    /// Runs one section and returns its effects to the caller.
    fn deferred<T>(
        &self,
        change: impl FnOnce(&mut State<Task>, &mut Effects<Task>) -> T,
    ) -> (T, Deferred) {
        let core = Arc::clone(&self.0);
        let effects = Effects::new();
        let mut deferred = Deferred { core, effects };
        let section = |state: &mut State<Task>| change(state, &mut deferred.effects);
        let result = self.0.state.section(section);
        (result, deferred)
    }

    /// Releases the pool. Returns whether it was open, and the generation that ends.
    pub fn release(&self) -> ((bool, u64), Deferred) {
        self.deferred(State::release)
    }

    /// Releases the pool and removes unstarted jobs, which the caller must dispose of.
    pub fn release_now(&self) -> (impl Iterator<Item = Task> + use<>, Deferred) {
        self.deferred(|state, effects| self.0.take_unstarted(state, effects))
    }

    /// Disposes of the jobs that [`release_now`](PoolHandle::release_now) removed. Returns how many
    /// of them could still have been run.
    pub fn dispose(&self, jobs: impl Iterator<Item = Task>, end: Disposal<'_>) -> usize {
        self.0.dispose(jobs, end)
    }

    /// Reopens the pool. Returns `false` if it was open.
    pub fn reboot(&self) -> (bool, Deferred) {
        self.deferred(|state, effects| self.0.open_again(state, effects))
    }

    /// Pauses the pool. Returns `false` if it was paused, or is released.
    pub fn pause(&self) -> bool {
        self.0.pause()
    }

    /// Resumes the pool. Returns `false` if it was not paused.
    pub fn resume(&self) -> (bool, Deferred) {
        self.deferred(State::resume)
    }

    /// Whether the pool is paused.
    pub fn is_paused(&self) -> bool {
        self.0.state.lock().paused
    }

    /// Changes the capacity.
    ///
    /// # Errors
    /// As [`WorkerPool::tune`](crate::WorkerPool::tune).
    pub fn tune(&self, capacity: Capacity) -> (Result<(), TuneError>, Deferred) {
        self.deferred(|state, effects| state.tune(capacity, effects))
    }

    /// Waits until nothing is in flight.
    ///
    /// # Errors
    /// See [`WaitError`].
    pub fn wait_idle(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.0.wait_idle(deadline)
    }
}
