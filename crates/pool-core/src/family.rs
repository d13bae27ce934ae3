//! What a multi-pool needs of its pools, beyond what everybody may call.
//!
//! Not part of the documented interface: it changes with `multi-pool`, and without notice.
//!
//! Each call is one section of one pool's lock, like every other call. What several sections in a
//! row amount to is the multi-pool's affair; so that it may make them under a lock of its own, a
//! section here leaves what it owes to others in an [`Owed`].

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use sync_shim::{Clock, Parker};

use crate::after::After;
use crate::capacity::Capacity;
use crate::core::{Core, NotAdmitted, Runner};
use crate::decide::Admission;
use crate::error::{SubmitError, TuneError, WaitError};
use crate::handle::Home;
use crate::line::{Seat, Settled};
use crate::pool::WorkerPool;
use crate::submit::OnFull;

pub use crate::decide::OwnWorker;
pub use crate::gauge::Gauge;
pub use crate::line::{Bell, Crowd};
pub use crate::submit::{Admit, Admitted};

/// One pool of a family. It keeps the pool in memory, and nothing open.
#[expect(missing_debug_implementations, reason = "never leaves `multi-pool`")]
pub struct Child<R: Runner>(pub(crate) Arc<Core<R>>);

impl<R: Runner> Clone for Child<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// What a section leaves to be done once no lock is held: it may call foreign code.
#[must_use = "what is owed has to be paid"]
#[expect(missing_debug_implementations, reason = "never leaves `multi-pool`")]
pub struct Owed<R: Runner> {
    core: Arc<Core<R>>,
    after: After<R::Job>,
}

impl<R: Runner> Owed<R> {
    /// Wakes whoever is to be woken, and starts a worker if one was reserved.
    pub fn pay(mut self) {
        self.core.perform(&mut self.after);
    }

    /// Pays what several pools owe as if it were one that does: threads are woken at all of them
    /// before a worker is started at any, and user code of one holds nothing up at another.
    pub fn pay_all(mut owed: Vec<Self>) {
        for one in &mut owed {
            one.core.pay(&mut one.after);
        }
        for one in &owed {
            one.core.start_owed(one.after.start);
        }
        for one in &mut owed {
            one.after.call_out();
        }
    }
}

/// One waiter's place in the lines of several pools. The first of them that has room takes the
/// task; the others find the place empty.
#[expect(missing_debug_implementations, reason = "never leaves `multi-pool`")]
pub struct Ticket<J>(Arc<Seat<J>>);

fn told<J>(settled: Settled<J>) -> Result<(), SubmitError<J>> {
    settled.map_err(|(reason, job)| reason.with(job))
}

impl<J> Ticket<J> {
    /// A ticket whose owner is told by `bell`; counted in `crowd` as long as its task waits.
    pub fn new(job: J, bell: Bell, crowd: &Arc<Crowd>) -> Self {
        Self(Seat::in_crowd(job, bell, Arc::clone(crowd)))
    }

    /// Sleeps until it is settled. `None` if the time is up first.
    pub fn wait(
        &self,
        parker: &Parker,
        clock: &dyn Clock,
        deadline: Option<Instant>,
    ) -> Option<Result<(), SubmitError<J>>> {
        self.0.wait(parker, clock, deadline).map(told)
    }

    /// How the wait ended, if it has.
    pub fn outcome(&self) -> Option<Result<(), SubmitError<J>>> {
        self.0.outcome().map(told)
    }

    /// As [`outcome`](Ticket::outcome); if it has not ended, `waker` is called when it does.
    pub fn poll(&self, waker: &Waker) -> Option<Result<(), SubmitError<J>>> {
        self.0.poll(waker).map(told)
    }

    /// Takes the task back. `None` if it has been accepted, or given back by a release.
    pub fn withdraw(&self) -> Option<J> {
        self.0.withdraw()
    }
}

/// What became of a ticket at one pool.
#[expect(missing_debug_implementations, reason = "never leaves `multi-pool`")]
pub enum Enrolled<R: Runner> {
    /// It stands in the line, at this place.
    InLine(u64),
    /// There was room: the task was accepted, unless another pool had taken it.
    Taken(Owed<R>),
    /// There is room, but no worker yet: ask [`Child::accept`], which starts one.
    NoWorker,
    /// As before, and it stands in the line all the same: whoever starts the first worker lets it in.
    Unstaffed(u64),
    /// The pool is released.
    Released,
}

impl<R: Runner> WorkerPool<R> {
    /// The pool as a multi-pool sees it.
    #[doc(hidden)]
    pub fn child(&self) -> Child<R> {
        Child(Arc::clone(self.core()))
    }
}

/// Submitting.
impl<R: Runner> Child<R> {
    /// Accepts the job if there is room, having started the first worker if there is none. A
    /// refusal is not counted: another pool may take the job.
    ///
    /// # Errors
    /// The job comes back; never `TimedOut`.
    pub fn accept(&self, job: R::Job) -> Result<(), SubmitError<R::Job>> {
        if self.0.state.is_full() {
            return Err(SubmitError::Full(job)); // No lock was taken.
        }
        self.0.admit(job).map_err(NotAdmitted::give_back)
    }

    /// Puts a ticket into the line, or takes its task at once if there is room. With `unstaffed` also
    /// into the line of a pool that has room and no worker.
    pub fn enrol(&self, ticket: &Ticket<R::Job>, unstaffed: bool) -> Enrolled<R> {
        let mut guard = self.0.state.lock();
        match guard.view().admission() {
            Admission::Full => Enrolled::InLine(guard.enrol(Arc::clone(&ticket.0))),
            Admission::Room => {
                let mut after = After::new();
                if let Some(job) = ticket.0.claim() {
                    guard.accept(job, &mut after);
                }
                drop(guard);
                Enrolled::Taken(self.owed(after))
            }
            Admission::FirstWorker if unstaffed => {
                Enrolled::Unstaffed(guard.enrol(Arc::clone(&ticket.0)))
            }
            Admission::FirstWorker => Enrolled::NoWorker,
            Admission::Released => Enrolled::Released,
        }
    }

    /// A ticket leaves its place in the line, if it still stands there.
    pub fn leave(&self, place: u64) {
        let left = self.0.state.lock().line.leave(place);
        drop(left); // Its waker is foreign: the lock is free.
    }

    /// Runs the job here, counted as accepted and ended, as one with its outer task.
    pub fn run_in_place(&self, job: R::Job) {
        self.0.state.lock().counts.submitted += 1;
        self.0.run_in_place(job);
    }

    /// What the calling thread does at a full pool, by the pool's policy.
    pub fn own_worker(&self) -> OwnWorker {
        self.0.own_worker()
    }

    /// Whether the workers stayed in another process.
    pub fn is_forked(&self) -> bool {
        self.0.is_forked()
    }
}

/// Figures and settings.
impl<R: Runner> Child<R> {
    /// The figures for those without the lock.
    ///
    /// # Panics
    /// If the pool was not built as one of a family.
    pub fn gauge(&self) -> &Arc<Gauge> {
        let gauge = self.0.gauge.as_ref();
        gauge.expect("a pool of a family has a gauge")
    }

    /// The clock of every time-out.
    pub fn clock(&self) -> &dyn Clock {
        self.0.clock()
    }

    /// What `submit` does at a full pool.
    pub fn on_full(&self) -> OnFull {
        self.0.on_full()
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
impl<R: Runner> Child<R> {
    fn owed(&self, after: After<R::Job>) -> Owed<R> {
        let core = Arc::clone(&self.0);
        Owed { core, after }
    }

    /// Raised by each reboot.
    pub fn generation(&self) -> u64 {
        self.0.state.lock().generation
    }

    /// Releases: whether it was open, and which generation ends.
    pub fn close(&self) -> (bool, u64, Owed<R>) {
        let (was_open, generation, after) = self.0.close();
        (was_open, generation, self.owed(after))
    }

    /// Releases and takes out what has not started, to be disposed of.
    pub fn close_now(&self) -> (impl Iterator<Item = R::Job> + use<R>, Owed<R>) {
        let (jobs, after) = self.0.close_now();
        (jobs, self.owed(after))
    }

    /// Ends what [`close_now`](Child::close_now) took out: how many could still have been run.
    pub fn dispose(&self, jobs: impl Iterator<Item = R::Job>, keep: impl FnMut(R::Item)) -> usize {
        self.0.dispose(jobs, keep)
    }

    /// Opens again. `false` if it was open.
    pub fn reopen(&self) -> (bool, Owed<R>) {
        let (was_released, after) = self.0.reopen();
        (was_released, self.owed(after))
    }

    /// Tunes.
    ///
    /// # Errors
    /// As [`WorkerPool::tune`].
    pub fn set_capacity(&self, capacity: Capacity) -> (Result<(), TuneError>, Owed<R>) {
        let (tuned, after) = self.0.set_capacity(capacity);
        (tuned, self.owed(after))
    }

    /// Waits for the end of a generation.
    ///
    /// # Errors
    /// See [`WaitError`].
    pub fn wait_for_end(
        &self,
        generation: u64,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.0.wait_for_end(generation, deadline)
    }

    /// Waits until nothing is in flight.
    ///
    /// # Errors
    /// See [`WaitError`].
    pub fn wait_idle(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.0.wait_idle(deadline)
    }
}
