//! A worker as a future: takes jobs for as many handlers as have room, and polls the handlers.
//!
//! # Invariants
//! 1. `set.len()` is at most `handlers`, and so is its sum with the number of jobs that the call wants for itself,
//!    between polls. Jobs that are claimed in addition are spare jobs of the queue.
//! 2. While jobs are taken and there is room, a call waits. It, the close and the end of the queue, and the end of the
//!    grace are events of `set`.
//! 3. Settles in `done` are sent by the end of the same poll.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sync_shim::foreign::{discard, drop_quietly, guarded};
use sync_shim::waiter::Waiter;
use sync_shim::{Clock, Deadline};

use crate::api::queue::{DurableQueue, ShutDown};
use crate::engine::calls::{Ticket, Wanted};
use crate::engine::command::{Command, Ready};
use crate::engine::control::Control;
use crate::engine::lanes::LanesId;
use crate::engine::shared::Shared;
use crate::error::TakeError;
use crate::store::Store;
use crate::store::payload::Payload;
use crate::work::handler::{Attempt, Job, Terms};
use crate::work::pace::{Flow, Pace};
use crate::work::set::FutureSet;

/// A worker as a future, for any runtime. Returned by [`WorkerBuilder::run_async`](crate::WorkerBuilder::run_async).
///
/// It takes jobs until the queue is [closed](DurableQueue::close), or until the signal of [`until`](Self::until). Then it
/// waits for the running handlers, up to the [grace](crate::WorkerBuilder::grace), drops the others, and ends when the
/// queue's pump has ended. Handlers are polled by the task that polls the run, one at a time.
///
/// Dropping it closes the queue in this process and drops the handlers, whose jobs are released: due as before, without
/// the attempt. A forked child gets [`TakeError::Forked`].
#[must_use = "a future does nothing until it is polled"]
pub struct Run<T: Payload, S: Store, F, Fut> {
    dispatch: Dispatch<S, Attempt<T, S, F, Fut>>,
    handler: Arc<F>,
    terms: Terms,
    queue: DurableQueue<T, S>,
}

impl<T, S, F, Fut, E> Run<T, S, F, Fut>
where
    T: Payload,
    S: Store,
    F: Fn(Job<T>) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    pub(crate) fn new(queue: DurableQueue<T, S>, limits: Limits, terms: Terms, handler: F) -> Self {
        Self {
            dispatch: Dispatch::new(
                queue.shared(),
                limits,
                queue.shared().control.lanes_of(queue.marks.kind),
            ),
            handler: Arc::new(handler),
            terms,
            queue,
        }
    }

    /// Returns the queue.
    pub fn queue(&self) -> &DurableQueue<T, S> {
        &self.queue
    }

    /// Closes the queue when `signal` completes. The output is that of the run.
    ///
    /// # Errors
    /// [`TakeError::NoThread`] and [`TakeError::Forked`].
    ///
    /// # Panics
    /// Those of `signal`.
    pub async fn until(mut self, signal: impl Future) -> Result<ShutDown, TakeError> {
        let mut signal = pin!(signal);
        let mut is_signalled = false;
        poll_fn(|context| {
            let control = &self.queue.shared().control;
            close_on(signal.as_mut(), &mut is_signalled, control, context);
            Pin::new(&mut self).poll(context)
        })
        .await
    }
}

/// Closes the queue when `signal` completes, which is polled until then.
// Not an async function that awaits the run: rustc would not see that its future is `Send`.
pub(crate) fn close_on(
    signal: Pin<&mut impl Future>,
    is_signalled: &mut bool,
    control: &Control,
    context: &mut Context<'_>,
) {
    if !*is_signalled && signal.poll(context).is_ready() {
        *is_signalled = true;
        control.close(None);
    }
}

/// Ends with the result of the shutdown: [`TimedOut`](ShutDown::TimedOut) if handlers were dropped, or jobs are not
/// settled. Polled after that, it returns the same.
///
/// # Errors
/// [`TakeError::NoThread`] and [`TakeError::Forked`].
impl<T, S, F, Fut, E> Future for Run<T, S, F, Fut>
where
    T: Payload,
    S: Store,
    F: Fn(Job<T>) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Output = Result<ShutDown, TakeError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            dispatch,
            handler,
            terms,
            queue,
        } = self.get_mut();
        let shared = queue.shared();
        dispatch.poll(context, |_, job| Attempt::new(shared, handler, *terms, job))
    }
}

impl<T: Payload, S: Store, F, Fut> fmt::Debug for Run<T, S, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("queue", &self.queue)
            .field("running", &self.dispatch.set.len())
            .finish_non_exhaustive()
    }
}

/// The options of a builder.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum number of futures.
    pub(crate) handlers: usize,
    /// Minimum number of jobs to claim. `None`: it adapts.
    pub(crate) batch: Option<NonZeroUsize>,
    pub(crate) grace: Option<Duration>,
}

/// The part of a run that does not know how a job becomes a future.
pub(crate) struct Dispatch<S: Store, A> {
    shared: Arc<Shared<S>>,
    set: FutureSet<A>,
    lanes: LanesId,
    /// Of each future in the set, by its number: its lane, and when it was started.
    places: Vec<(usize, Instant)>,
    limits: Limits,
    pace: Pace,
    flow: Flow,
    /// Settles to send.
    done: Vec<Command>,
    stage: Stage,
}

enum Stage {
    New,
    /// The call, and the number of jobs that it wants.
    Taking(Option<(Ticket, usize)>),
    /// The queue is closed. The futures are dropped when the time of the grace has come.
    Ending {
        grace: Deadline,
    },
    /// All futures have ended.
    Settling {
        were_dropped: bool,
    },
}

impl<S: Store, A> Dispatch<S, A> {
    pub(crate) fn new(shared: &Arc<Shared<S>>, limits: Limits, lanes: LanesId) -> Self {
        Self {
            shared: Arc::clone(shared),
            set: FutureSet::new(),
            lanes,
            places: Vec::new(),
            limits,
            pace: Pace::new(limits.batch),
            flow: Flow::new(limits.handlers),
            done: Vec::new(),
            stage: Stage::New,
        }
    }

    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        mut start: impl FnMut(usize, Ready) -> A,
    ) -> Poll<Result<ShutDown, TakeError>>
    where
        A: Future<Output = Option<Command>>,
    {
        if self.shared.control.is_forked() {
            return Poll::Ready(Err(TakeError::Forked));
        }
        let has_event = self.set.begin(context);
        if let Stage::New = self.stage {
            self.shared.start()?;
            self.shared.control.wake_at_close(self.event());
            self.stage = Stage::Taking(None);
        }
        let (done, lanes, places) = (&mut self.done, self.lanes, &self.places);
        let control = &self.shared.control;
        let clock = &control.clock;
        if self.set.len() == 0 {
            self.flow.restart(clock.now());
        }
        let flow = &mut self.flow;
        self.set.poll_woken(|number, ack| {
            let (lane, begun) = places[number];
            done.extend(ack);
            control.ended(lanes, lane, clock.now().saturating_duration_since(begun));
            flow.end();
        });
        self.take_jobs(has_event, &mut start);
        let now = self.shared.control.clock.now();
        self.flow.pass(now, &mut self.pace);
        self.go_on()
    }

    /// Takes the jobs that the call was given, and spare jobs.
    fn take_jobs(&mut self, has_event: bool, start: &mut impl FnMut(usize, Ready) -> A)
    where
        A: Future<Output = Option<Command>>,
    {
        let Stage::Taking(call) = self.stage else {
            return;
        };
        if let Some((ticket, _)) = call {
            let look = || self.shared.control.look(ticket, self.event());
            let Some(given) = has_event.then(look).flatten() else {
                return;
            };
            self.stage = Stage::Taking(None);
            for job in given.into_iter().flatten() {
                self.run(job, start);
            }
        }
        // A call that waits would be given them, so there is none.
        while self.room() > 0
            && let Some(job) = self.next_spare()
        {
            self.run(job, start);
        }
    }

    /// Starts a job. If the queue is closed by now, its first poll releases it.
    fn run(&mut self, job: Ready, start: &mut impl FnMut(usize, Ready) -> A)
    where
        A: Future<Output = Option<Command>>,
    {
        self.pace.learn_size(job.lease.payload.len());
        let control = &self.shared.control;
        let (lane, begun) = (job.lane, control.clock.now());
        let (number, ended) = self.set.start(start(lane, job));
        if let Some(ack) = ended {
            self.done.extend(ack);
            let took = control.clock.now().saturating_duration_since(begun);
            control.ended(self.lanes, lane, took);
            self.flow.end();
            return;
        }
        if number == self.places.len() {
            self.places.push((lane, begun));
        }
        self.places[number] = (lane, begun);
    }

    fn next_spare(&mut self) -> Option<Ready> {
        let refill = self.pace.refill(1, &self.shared);
        let Self {
            shared,
            lanes,
            done,
            ..
        } = self;
        shared.control.next_spare(*lanes, done, refill)
    }

    fn room(&self) -> usize {
        self.limits.handlers - self.set.len()
    }

    /// The part that is independent of the type of the futures, but for their drop.
    fn go_on(&mut self) -> Poll<Result<ShutDown, TakeError>> {
        if let Stage::Taking(call) = self.stage {
            let room = self.room();
            let Self { shared, pace, .. } = self;
            let wanted = || pace.wanted(room, shared);
            let (done, event) = (&mut self.done, self.set.event());
            match shared.ask_for(call, room, self.lanes, wanted, done, event) {
                Ok(call) => self.stage = Stage::Taking(call),
                Err(_) => self.begin_to_end(),
            }
        }
        self.shared.send(&mut self.done);
        if let Stage::Ending { grace } = &mut self.stage {
            let clock = &self.shared.control.clock;
            let event = self.set.event();
            // USER CODE: the clock. With one that panics the grace cannot be kept, so it ends at once.
            let mut is_up = || match guarded(|| grace.poll(clock, &event)) {
                Ok(time) => time.is_ready(),
                Err(payload) => {
                    discard(payload);
                    true
                }
            };
            let is_late = self.set.len() > 0 && is_up();
            if is_late {
                self.set.clear();
                // Their releases need one more answer of the store. After a lease the jobs are free in any case.
                let deadline = clock.after(self.shared.config.lease);
                self.shared.control.close(deadline);
            }
            if self.set.len() == 0 {
                self.shared.control.wake_at_end(self.event());
                self.set_stage(Stage::Settling {
                    were_dropped: is_late,
                });
            }
        }
        match self.stage {
            Stage::Settling { were_dropped } if self.shared.control.is_over() => {
                Poll::Ready(Ok(if were_dropped {
                    ShutDown::TimedOut
                } else {
                    self.shared.how_it_ended()
                }))
            }
            _ => Poll::Pending,
        }
    }

    /// Begins the grace of the running handlers.
    fn begin_to_end(&mut self) {
        let clock = &self.shared.control.clock;
        let until = self.limits.grace.and_then(|grace| clock.after(grace));
        let grace = Deadline::new(until);
        self.set_stage(Stage::Ending { grace });
    }

    fn set_stage(&mut self, stage: Stage) {
        // USER CODE: the drop of an alarm, which is the clock's.
        drop_quietly(mem::replace(&mut self.stage, stage));
    }

    fn event(&self) -> Waiter {
        Waiter::Task(self.set.event())
    }
}

impl<S: Store> Shared<S> {
    /// Has a call wait for `room` jobs, and takes the acknowledgements along. Returns the call, if there
    /// is room.
    ///
    /// # Errors
    /// [`TakeError::ShutDown`].
    fn ask_for(
        &self,
        call: Option<(Ticket, usize)>,
        room: usize,
        lanes: LanesId,
        wanted: impl FnOnce() -> Wanted,
        done: &mut Vec<Command>,
        event: std::task::Waker,
    ) -> Result<Option<(Ticket, usize)>, TakeError> {
        let control = &self.control;
        if !control.is_open() {
            self.leave(call.map(|(ticket, _)| ticket));
            return Err(TakeError::ShutDown);
        }
        match call {
            Some((ticket, before)) => {
                if before != room || !done.is_empty() {
                    control.ask_again(ticket, mem::take(done), wanted());
                }
                Ok(Some((ticket, room)))
            }
            None if room == 0 => Ok(None),
            None => {
                let acks = mem::take(done);
                let asked = control.ask(acks, lanes, wanted(), Waiter::Task(event));
                asked.map(|ticket| Some((ticket, room)))
            }
        }
    }

    fn send(&self, done: &mut Vec<Command>) {
        done.drain(..).for_each(|ack| self.control.command(ack));
    }
}

/// Releases the jobs: those that wait for their first poll, and, after the drop of their futures, those of handlers.
impl<S: Store, A> Drop for Dispatch<S, A> {
    fn drop(&mut self) {
        let Shared { control, .. } = &*self.shared;
        control.close(None);
        if let Stage::Taking(Some((ticket, _))) = self.stage {
            self.shared.leave(Some(ticket));
        }
        self.shared.send(&mut self.done);
        self.set_stage(Stage::New);
        self.set.clear();
    }
}
