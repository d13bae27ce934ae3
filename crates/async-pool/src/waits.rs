//! Waits: of threads and futures for room, for an idle pool, and for the end of a pool.
//!
//! A caller that finds the pool full leaves its request in the wait queue of `pool-core`, in the section that found it full.
//! The section that frees room serves the first one.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use pool_core::internals::{EventFuture, EventWait, Events, Request, WaiterEntry};
use pool_core::{CancelToken, Cancelled, SubmitError, WaitError};
use sync_shim::Parker;
use sync_shim::foreign::{drop_quietly, guarded};

use crate::admission::{Admitted, Candidate, Job, State};
use crate::family::{ChildOf, Want};
use crate::worker::Shared;

/// How long a call may wait for room.
#[derive(Clone, Copy)]
pub(crate) enum Patience<'a> {
    None,
    /// Until a time, or until the token is cancelled.
    Until(Option<Instant>, Option<&'a CancelToken>),
}

/// The reason for which a call got no room, and its task, unless it was for a permit.
pub(crate) type Refused = (fn(()) -> SubmitError, Option<Job>);
/// The loan of a permit.
pub(crate) type Room = Result<ChildOf, Refused>;

type Entry = WaiterEntry<Candidate>;

impl Shared {
    /// Admits a task, or reserves room if there is none, blocking as `patience` says.
    pub(crate) fn admit(
        self: &Arc<Self>,
        mut job: Option<Job>,
        patience: Patience<'_>,
    ) -> Result<(), Refused> {
        if !self.process.is_current() {
            return Err((SubmitError::Forked, job));
        }
        let Err(why) = self.find_room(&mut job) else {
            return Ok(());
        };
        let Patience::Until(deadline, token) = patience else {
            return self.refuse(why, job);
        };
        if !why(()).is_full() || self.is_own_worker() {
            return self.refuse(why, job);
        }
        let parker = Parker::of_thread();
        let entry = Entry::of_thread(self.request_of(job.as_ref()), (*parker).clone());
        match self.ask(&mut job, Some(&entry)) {
            Err(why) => self.refuse(why, job),
            Ok(None) => Ok(()),
            Ok(Some(ticket)) => {
                // USER CODE: `Clock::park_until`.
                let waited = guarded(|| entry.wait(&parker, &*self.clock, deadline, token));
                let outcome = waited.unwrap_or_else(|payload| {
                    self.leave(&entry, ticket, job.is_none());
                    resume_unwind(payload)
                });
                let room = outcome.map_or_else(
                    || {
                        let is_cancelled = token.is_some_and(CancelToken::is_cancelled);
                        let why = if is_cancelled {
                            SubmitError::Cancelled
                        } else {
                            SubmitError::TimedOut
                        };
                        self.end_wait(&entry, ticket, why)
                    },
                    outcome_of,
                );
                room.map(|_| ())
            }
        }
    }

    fn refuse(&self, why: fn(()) -> SubmitError, job: Option<Job>) -> Result<(), Refused> {
        self.count_refusal();
        Err((why, job))
    }

    /// Admits a task, or reserves room if there is none.
    fn find_room(&self, job: &mut Option<Job>) -> Result<Option<u64>, fn(()) -> SubmitError> {
        let answer = self.ask(job, None);
        match answer {
            Err(why) if why(()).is_full() => {
                // The room of a task that has ended is free, even if its worker has not counted the end.
                self.end_for_workers();
                self.ask(job, None)
            }
            answer => answer,
        }
    }

    /// Admits a task, or reserves room if there is none. At a full pool, enqueues the entry of the request, if there is one,
    /// and returns its ticket; a task of the pool that calls may lend its room to the request then. A job that was refused
    /// stays in `job`.
    fn ask(
        &self,
        job: &mut Option<Job>,
        entry: Option<&Arc<Entry>>,
    ) -> Result<Option<u64>, fn(()) -> SubmitError> {
        let parent = self.own_task();
        self.section(
            |state, effects| match (state.admit(job, parent, effects), entry) {
                (Admitted::Accepted, _) => Ok(None),
                (Admitted::Released, _) => Err(SubmitError::Released as fn(()) -> SubmitError),
                // In the section that found the pool full: otherwise room freed in between would wake nobody.
                (Admitted::Full, Some(entry)) => match state.enqueue(entry, parent, effects) {
                    Some(ticket) => Ok(Some(ticket)),
                    None => Err(SubmitError::Full as _),
                },
                (Admitted::Full, None) => Err(SubmitError::Full as _),
            },
        )
    }

    fn request_of(&self, job: Option<&Job>) -> Request<Candidate> {
        let Some(job) = job else {
            return Request::Permit;
        };
        let parent = self.own_task();
        let family = parent.map(|parent| self.section(|state, _| state.family(parent)));
        let job = Arc::clone(job);
        Request::Task(Candidate { job, family })
    }

    /// Ends a wait that is given up for the reason `why`, unless it was served, or returned by a release, in the last moment.
    fn end_wait(&self, entry: &Entry, ticket: u64, why: fn(()) -> SubmitError) -> Room {
        match self.give_up(entry, ticket) {
            Some(request) => {
                self.count_refusal();
                Err((why, task_of(request)))
            }
            None => entry.outcome().map_or(Ok(ChildOf::NONE), outcome_of),
        }
    }

    /// Gives up the wait of a caller that is gone, with all that it has got.
    fn leave(&self, entry: &Entry, ticket: u64, is_for_permit: bool) {
        let request = self.give_up(entry, ticket);
        if is_for_permit
            && request.is_none()
            && let Some(Ok(loan)) = entry.outcome()
        {
            let loan = ChildOf::from_raw(loan);
            self.section(|state, effects| state.return_permit(loan, effects));
        }
        // USER CODE: the drop of a task. A panic is caught.
        drop_quietly(request);
    }

    /// Takes the request of a caller that gives up. `None` if it was served before.
    fn give_up(&self, entry: &Entry, ticket: u64) -> Option<Request<Candidate>> {
        let (request, left) = self.section(|state, _| {
            let left = state.leave(ticket);
            (entry.withdraw(), left)
        });
        drop(left); // Not the last reference: the caller has one.
        request
    }

    fn count_refusal(&self) {
        self.section(|state, _| state.counts.refused += 1);
    }

    /// Notes that the calling task of the pool waits for a queued one, unless it has noted that before.
    pub(crate) fn note(&self, noted_by: &mut Option<u64>, want: Want) {
        if let Some(parent) = self.own_task() {
            let family = self.family_of(parent);
            if noted_by.replace(family) != Some(family) {
                self.want(parent, vec![want]);
            }
        }
    }

    /// The family of a live task. A later task has another number.
    pub(crate) fn family_of(&self, parent: usize) -> u64 {
        self.section(|state, _| state.family(parent).number)
    }

    /// Notes that a live task, which calls, waits for queued ones. It lends its room to the first if it has no live child.
    pub(crate) fn want(&self, parent: usize, wants: Vec<Want>) {
        if !wants.is_empty() {
            self.section(|state, effects| state.want(parent, wants, effects));
        }
    }
}

fn outcome_of<W>(outcome: Result<usize, (W, Request<Candidate>)>) -> Room {
    match outcome {
        Ok(loan) => Ok(ChildOf::from_raw(loan)),
        Err((_, request)) => Err((SubmitError::Released, task_of(request))),
    }
}

fn task_of(request: Request<Candidate>) -> Option<Job> {
    match request {
        Request::Task(candidate) => Some(candidate.job),
        Request::Permit => None,
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Awaited {
    Idle,
    End,
}

impl State {
    fn events(&mut self, awaited: Awaited) -> &mut Events {
        match awaited {
            Awaited::Idle => &mut self.on_idle,
            Awaited::End => &mut self.on_end,
        }
    }

    fn is(&self, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Idle => self.in_flight() == 0,
            Awaited::End => self.workers == 0,
        }
    }
}

pub(crate) fn wait(
    shared: &Shared,
    awaited: Awaited,
    deadline: Option<Instant>,
) -> Result<(), WaitError> {
    shared.process.check(WaitError::Forked)?;
    if shared.is_own_worker() {
        return Err(WaitError::WouldDeadlock);
    }
    let mut event = EventWait::of_thread();
    // In the section that finds the condition unmet, so that the change is not missed.
    let is_met = shared.section(|state, _| {
        let is_met = state.is(awaited);
        if !is_met {
            event.enter(state.events(awaited));
        }
        is_met
    });
    if is_met || event.wait_until(&*shared.clock, deadline) {
        return Ok(());
    }
    let came = shared.section(|state, _| event.leave(state.events(awaited)));
    if came {
        Ok(())
    } else {
        Err(WaitError::TimedOut)
    }
}

/// A wait for an idle pool, or for its end.
pub(crate) struct WaitFuture {
    shared: Arc<Shared>,
    awaited: Awaited,
    event: Option<EventFuture>,
}

impl WaitFuture {
    pub(crate) fn new(shared: &Arc<Shared>, awaited: Awaited) -> Self {
        Self {
            shared: Arc::clone(shared),
            awaited,
            event: None,
        }
    }
}

impl Future for WaitFuture {
    type Output = Result<(), WaitError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.shared.process.check(WaitError::Forked)?;
        // A task of the pool is in flight itself, and a worker that blocks here has not ended.
        if this.shared.is_own_worker() {
            return Poll::Ready(Err(WaitError::WouldDeadlock));
        }
        if this.event.is_none() {
            let awaited = this.awaited;
            let event = this.shared.section(|state, _| {
                if state.is(awaited) {
                    return None;
                }
                let mut event = EventFuture::new();
                event.enter(state.events(awaited));
                Some(event)
            });
            this.event = event;
        }
        let is_ready = this
            .event
            .as_ref()
            .is_none_or(|event| event.poll(context.waker()));
        if is_ready {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }
}

impl Drop for WaitFuture {
    fn drop(&mut self) {
        if let Some(event) = self.event.take()
            && self.shared.process.is_current()
        {
            let awaited = self.awaited;
            _ = self
                .shared
                .section(|state, _| event.leave(state.events(awaited)));
            // USER CODE: the drop of a waker. A panic is caught.
            drop_quietly(event);
        }
    }
}

/// A wait for room, with a task or for a permit.
pub(crate) struct RoomFuture {
    shared: Arc<Shared>,
    is_for_permit: bool,
    /// Ends the wait.
    cancelled: Option<Cancelled>,
    /// The family of the task of the pool that has polled the wait last.
    noted_by: Option<u64>,
    stage: Wait,
}

enum Wait {
    /// Not polled yet.
    New(Option<Job>),
    Entered(Arc<Entry>, u64),
    Over,
}

impl RoomFuture {
    pub(crate) fn new(shared: &Arc<Shared>, job: Option<Job>) -> Self {
        Self {
            shared: Arc::clone(shared),
            is_for_permit: job.is_none(),
            cancelled: None,
            noted_by: None,
            stage: Wait::New(job),
        }
    }

    /// Ends the wait when the token is cancelled.
    pub(crate) fn unless(mut self, token: &CancelToken) -> Self {
        self.cancelled = Some(token.cancelled());
        self
    }

    /// Enters the wait queue, and leaves the task there without a caller.
    #[cfg(feature = "hyper")]
    pub(crate) fn leave_in_queue(mut self) {
        if let Wait::New(job) = std::mem::replace(&mut self.stage, Wait::Over) {
            _ = self.enter(job);
            self.stage = Wait::Over; // Its drop takes nothing back.
        }
    }

    fn enter(&mut self, mut job: Option<Job>) -> Poll<Room> {
        // Only now, because most polls find room.
        let mut answer = self.shared.find_room(&mut job);
        if let Err(why) = answer
            && why(()).is_full()
        {
            let entry = Entry::of_future(self.shared.request_of(job.as_ref()));
            answer = self.shared.ask(&mut job, Some(&entry));
            if let Ok(Some(ticket)) = answer {
                self.stage = Wait::Entered(entry, ticket);
                return Poll::Pending;
            }
        }
        Poll::Ready(match answer {
            Ok(_) => Ok(ChildOf::NONE),
            Err(why) => {
                self.shared.count_refusal();
                Err((why, job))
            }
        })
    }

    /// Ends the wait in a forked child, where no worker hands room over.
    fn poll_in_child(&mut self) -> Poll<Room> {
        let job = match std::mem::replace(&mut self.stage, Wait::Over) {
            Wait::New(job) => job,
            Wait::Entered(entry, _) => {
                let abandoned = entry.abandon();
                // A thread of the parent may hold its lock here.
                std::mem::forget(entry);
                match abandoned {
                    Ok(()) => return Poll::Ready(Ok(ChildOf::NONE)),
                    Err((_, request)) => task_of(request),
                }
            }
            Wait::Over => return Poll::Pending,
        };
        Poll::Ready(Err((SubmitError::Forked, job)))
    }
}

impl Future for RoomFuture {
    type Output = Room;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Room> {
        let this = self.get_mut();
        if !this.shared.process.is_current() {
            return this.poll_in_child();
        }
        if let Wait::New(job) = &mut this.stage {
            let job = job.take();
            this.stage = Wait::Over;
            if let Poll::Ready(answer) = this.enter(job) {
                return Poll::Ready(answer);
            }
        }
        let Wait::Entered(entry, ticket) = &this.stage else {
            return Poll::Pending;
        };
        let answer = if let Some(outcome) = entry.poll(context.waker()) {
            outcome_of(outcome)
        } else if let Some(cancelled) = &mut this.cancelled
            && Pin::new(cancelled).poll(context).is_ready()
        {
            this.shared.end_wait(entry, *ticket, SubmitError::Cancelled)
        } else {
            // After the waker was stored, so that a loan finds it. The wait may have begun elsewhere.
            this.shared.note(&mut this.noted_by, Want::Waiting(*ticket));
            return Poll::Pending;
        };
        this.stage = Wait::Over;
        Poll::Ready(answer)
    }
}

impl Drop for RoomFuture {
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Wait::Over);
        if !self.shared.process.is_current() {
            std::mem::forget(stage);
            return;
        }
        if let Wait::Entered(entry, ticket) = &stage {
            self.shared.leave(entry, *ticket, self.is_for_permit);
        }
        // USER CODE: the drop of a task, and of a waker. A panic is caught.
        drop_quietly(stage);
    }
}

/// A wait whose outcome is turned into the caller's terms.
pub(crate) struct Answer<A> {
    wait: RoomFuture,
    answer: Option<A>,
}

impl<A> Answer<A> {
    pub(crate) fn new<O>(wait: RoomFuture, answer: A) -> Self
    where
        A: FnOnce(Room) -> O,
    {
        let answer = Some(answer);
        Self { wait, answer }
    }
}

// The answer is never pinned.
impl<A> Unpin for Answer<A> {}

impl<A, O> Future for Answer<A>
where
    A: FnOnce(Room) -> O,
{
    type Output = O;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<O> {
        let Poll::Ready(room) = Pin::new(&mut self.wait).poll(context) else {
            return Poll::Pending;
        };
        let answer = self.answer.take().expect("a future is ready once");
        Poll::Ready(answer(room))
    }
}
