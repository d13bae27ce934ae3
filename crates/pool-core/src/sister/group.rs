//! What a multi-pool needs of its pools, beyond their public interface.
//!
//! Each call is one section of one pool's lock, like every other call. What several sections in a
//! row amount to is the multi-pool's affair; so that it may make them under a lock of its own, a
//! section here leaves its effects to the caller, as [`Deferred`].

use std::any::Any;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use sync_shim::{Clock, Parker};

use crate::capacity::Capacity;
use crate::config::OnFull;
use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::error::{BuildError, Closed, SubmitError, TuneError, WaitError};
use crate::face::builder::Builder;
use crate::permit::Permit;
use crate::sched::decide::{Admission, WhenFull};
use crate::sched::effects::Effects;
use crate::sched::load::LoadStats;
use crate::sched::state::State;
use crate::sched::waiters::{Request, WaitResult, WaiterCount, WaiterEntry};
use crate::sister::pool_handle::PoolHandle;
use crate::task::cancel::CancelToken;
use crate::task::handle::RawHandle;

/// The deferred effects of a section, to be run once no lock is held: they may be user code.
#[must_use = "deferred effects have to be run"]
#[expect(missing_debug_implementations, reason = "never leaves `multi-pool`")]
pub struct Deferred<R: Runner> {
    core: Arc<Core<R>>,
    effects: Effects<R::Job>,
}

impl<R: Runner> Deferred<R> {
    /// Wakes waiters, and starts a worker if one was reserved.
    pub fn run(mut self) {
        self.core.run(&mut self.effects);
    }

    /// Runs the effects of several pools as if they were one's: threads are woken at all of them
    /// before a worker is started at any, and user code of one holds nothing up at another.
    pub fn run_all(mut all: Vec<Self>) {
        for one in &mut all {
            one.core.wake_threads(&mut one.effects);
        }
        for one in &all {
            one.core.start_if_reserved(one.effects.start);
        }
        for one in &mut all {
            one.effects.run_user_code();
        }
    }
}

/// One waiter's place in the wait queues of several pools. The first of them that has room takes
/// the request; the others find the place empty.
#[expect(missing_debug_implementations, reason = "never leaves `multi-pool`")]
pub struct Ticket<J>(Arc<WaiterEntry<J>>);

/// How a request to several pools ended: which one accepted it, or the request and why not.
pub type Answer<Q> = Result<usize, SubmitError<Q>>;

fn answer<Q>(result: WaitResult<Q, usize>) -> Answer<Q> {
    result.map_err(|(reason, request)| reason.with(request))
}

impl<J> Ticket<J> {
    /// A ticket whose owner sleeps on `sleeper`, or else is woken as it says when it is polled;
    /// counted in `waiter_count` as long as its request waits.
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

    /// Sleeps until it is settled. `None` if the time is up first, or the token is cancelled.
    pub fn wait(
        &self,
        parker: &Parker,
        clock: &dyn Clock,
        deadline: Option<Instant>,
        token: Option<&CancelToken>,
    ) -> Option<Answer<Request<J>>> {
        self.0.wait(parker, clock, deadline, token).map(answer)
    }

    /// How the wait ended, if it has.
    pub fn outcome(&self) -> Option<Answer<Request<J>>> {
        self.0.outcome().map(answer)
    }

    /// As [`outcome`](Ticket::outcome); if it has not ended, `waker` is called when it does.
    pub fn poll(&self, waker: &Waker) -> Option<Answer<Request<J>>> {
        self.0.poll(waker).map(answer)
    }

    /// Ends the wait in a forked child, where no thread settles it any more.
    ///
    /// # Errors
    /// The request, unless it had left the wait queues.
    pub fn abandon(&self) -> Answer<Request<J>> {
        answer(self.0.abandon().map(|()| 0))
    }

    /// Takes the request back. `None` if it has been accepted, or given back by a release.
    pub fn withdraw(&self) -> Option<Request<J>> {
        self.0.withdraw()
    }
}

/// What became of a ticket at one pool.
#[expect(missing_debug_implementations, reason = "never leaves `multi-pool`")]
pub enum Enqueued<R: Runner> {
    /// It stands in the wait queue, at this place.
    Waiting(u64),
    /// There was room: the request was accepted, unless another pool had taken it.
    Taken(Deferred<R>),
    /// There is room, but no worker yet: ask [`PoolHandle::accept`], which starts one.
    NoWorker,
    /// As before, and it stands in the wait queue all the same: the section that counts the first
    /// worker lets it in.
    Unstaffed(u64),
    /// The pool is released.
    Released,
}

/// Builds `count` pools whose workers count as each other's own. At an error those that were built
/// have ended again.
///
/// # Errors
/// As [`Builder::build`].
pub fn build_group<R: Runner + Clone>(
    each: Builder<R>,
    count: usize,
) -> Result<Vec<PoolHandle<R>>, BuildError> {
    each.build_group(count)
}

/// The name that the pools of a group are numbered by.
pub fn name_of_group<R: Runner>(each: &Builder<R>) -> &str {
    each.name_as_set()
}

/// Whether nothing is in flight in any of these pools, at one instant.
///
/// Each was at rest at the first look and at the second, and had accepted nothing in between: so all of
/// them were, at once, between the last first look and the first second.
pub fn are_at_rest<R: Runner>(pools: &[PoolHandle<R>]) -> bool {
    let look = || -> Option<Vec<u64>> { pools.iter().map(PoolHandle::at_rest).collect() };
    look().is_some_and(|first| look() == Some(first))
}

/// What becomes of a job that this pool does not accept: its caller has it again. A function, which
/// is the same for jobs of all kinds.
fn keep<J>(_: &mut State<J>, why: Closed, job: J) -> (Closed, J) {
    (why, job)
}

/// Submitting.
impl<R: Runner> PoolHandle<R> {
    /// Accepts the job if there is room, having started the first worker if there is none. A
    /// refusal is not counted: another pool may take the job.
    ///
    /// # Errors
    /// The job comes back; never `TimedOut`.
    pub fn accept(&self, job: R::Job) -> Result<(), SubmitError<R::Job>> {
        if self.0.state.is_full() {
            return Err(SubmitError::Full(job)); // No lock was taken.
        }
        let admitted = self.0.admit(job, keep);
        admitted.map_err(|(why, job)| why.reason().with(job))
    }

    /// Makes `handle` one of this pool's, which has accepted its task: to cancel it, or to join it
    /// in place, takes its entry out of this pool's queue.
    pub fn adopt(&self, handle: &mut RawHandle) {
        handle.set_pool(Arc::clone(&self.0) as _);
    }

    /// As [`accept`](Self::accept), for either kind of request.
    ///
    /// # Errors
    /// The request comes back; never `TimedOut`.
    pub fn accept_request(
        &self,
        request: Request<R::Job>,
    ) -> Result<(), SubmitError<Request<R::Job>>> {
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

    /// Reserves room if there is some, having started the first worker if there is none. A refusal
    /// is not counted. The room is held until [`permit`](Self::permit) made a permit of it, which
    /// the caller does next.
    ///
    /// # Errors
    /// Why there is none; never `TimedOut`.
    pub fn reserve(&self) -> Result<(), SubmitError> {
        if self.0.state.is_full() {
            return Err(SubmitError::Full(())); // No lock was taken.
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

    /// The permit of room that was reserved in this pool. It keeps `open` until it has gone.
    pub fn permit(&self, open: Arc<dyn Any + Send + Sync>) -> Permit<R> {
        Permit::new(Arc::clone(&self.0), open)
    }

    /// Puts a ticket into the wait queue, or takes its request at once if there is room. With
    /// `unstaffed` also into the wait queue of a pool that has room and no worker.
    pub fn enqueue_waiter(&self, ticket: &Ticket<R::Job>, unstaffed: bool) -> Enqueued<R> {
        let (enqueued, deferred) = self.deferred(|state, effects| match state.view().admission() {
            Admission::Full => Some(Enqueued::Waiting(
                state.enqueue_waiter(Arc::clone(&ticket.0)),
            )),
            Admission::Room => {
                // The owner is the caller: it looks at the ticket next.
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

    /// A ticket leaves its place in the wait queue, if it still stands there.
    pub fn leave(&self, place: u64) {
        let left = self.0.state.section(|state| state.wait_queue.remove(place));
        // USER CODE: the drop of the waiter's waker.
        drop(left);
    }

    /// Runs the job here, counted as accepted and ended, as one with its outer task.
    pub fn run_in_place(&self, job: R::Job) {
        self.0.state.section(|state| state.counts.submitted += 1);
        self.0.run_in_place(job);
    }

    /// Runs the job here, as a full pool's caller that is no worker.
    pub fn run_in_caller(&self, job: R::Job) {
        self.0.state.section(State::begin_disposal);
        self.0.run_in_caller(job);
    }

    /// Takes the job in the place of the oldest one that may be discarded, which is.
    ///
    /// # Errors
    /// The job, if none is queued here.
    pub fn replace_oldest(&self, job: R::Job) -> Result<(), R::Job> {
        let replaced = self.0.state.section(|state| {
            if !state.open || state.queued() == 0 {
                return Err(job);
            }
            Ok(self.0.replace_oldest(state, job))
        });
        replaced.map(|discards| self.0.discard(discards))
    }

    /// Takes the job and discards it.
    pub fn discard_newest(&self, job: R::Job) {
        let discards = self
            .0
            .state
            .section(|state| self.0.discard_newest(state, job));
        self.0.discard(discards);
    }

    /// What a call with that policy asks for, if all pools of the group are full.
    pub fn asked(&self, on_full: OnFull, request: &Request<R::Job>) -> WhenFull {
        match request {
            Request::Permit => WhenFull::asked_by_permit(on_full, self.0.own_worker()),
            Request::Task(_) => match self.0.asked(on_full) {
                WhenFull::RunInCaller if self.is_paused() => WhenFull::Enqueue,
                asked => asked,
            },
        }
    }
}

/// Figures and settings.
impl<R: Runner> PoolHandle<R> {
    /// The figures for those without the lock.
    ///
    /// # Panics
    /// If the pool was not built as one of a group.
    pub fn load_stats(&self) -> &Arc<LoadStats> {
        let load_stats = self.0.load_stats.as_ref();
        load_stats.expect("a member of a group has load statistics")
    }

    /// What `submit` does at a full pool.
    pub fn on_full(&self) -> OnFull {
        self.0.config.on_full
    }

    /// Whether a call that does so might discard a task that no hook sees.
    pub fn discards_unseen(&self, on_full: OnFull) -> bool {
        self.0.discards_unseen(on_full)
    }

    /// Whether each task is to have a record.
    #[inline]
    pub fn records_all(&self) -> bool {
        self.0.records_all()
    }

    /// How many may wait.
    pub fn max_waiting(&self) -> usize {
        self.0.config.max_waiting
    }

    /// How many tasks were accepted so far, if all of them have ended.
    pub fn at_rest(&self) -> Option<u64> {
        let guard = self.0.state.lock();
        (guard.unfinished() == 0).then_some(guard.counts.submitted)
    }
}

/// Life.
impl<R: Runner> PoolHandle<R> {
    /// One section, whose effects are left to the caller.
    fn deferred<T>(
        &self,
        change: impl FnOnce(&mut State<R::Job>, &mut Effects<R::Job>) -> T,
    ) -> (T, Deferred<R>) {
        let core = Arc::clone(&self.0);
        let effects = Effects::new();
        let mut deferred = Deferred { core, effects };
        let section = |state: &mut State<R::Job>| change(state, &mut deferred.effects);
        let result = self.0.state.section(section);
        (result, deferred)
    }

    /// Releases: whether it was open, and which generation ends.
    pub fn release(&self) -> ((bool, u64), Deferred<R>) {
        self.deferred(State::release)
    }

    /// Releases and takes out what has not started, to be disposed of.
    pub fn release_now(&self) -> (impl Iterator<Item = R::Job> + use<R>, Deferred<R>) {
        self.deferred(|state, effects| self.0.take_unstarted(state, effects))
    }

    /// Ends what [`release_now`](PoolHandle::release_now) took out: how many could still have been run.
    pub fn dispose(&self, jobs: impl Iterator<Item = R::Job>, keep: impl FnMut(R::Item)) -> usize {
        self.0.dispose(jobs, keep)
    }

    /// Opens again. `false` if it was open.
    pub fn reboot(&self) -> (bool, Deferred<R>) {
        self.deferred(|state, effects| self.0.open_again(state, effects))
    }

    /// Pauses. `false` if it was paused, or is released.
    pub fn pause(&self) -> bool {
        self.0.pause()
    }

    /// Resumes. `false` if it was not paused.
    pub fn resume(&self) -> (bool, Deferred<R>) {
        self.deferred(State::resume)
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.0.state.lock().paused
    }

    /// Tunes.
    ///
    /// # Errors
    /// As [`WorkerPool::tune`].
    pub fn tune(&self, capacity: Capacity) -> (Result<(), TuneError>, Deferred<R>) {
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
