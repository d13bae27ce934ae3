//! Async handlers: the job that they get, and one attempt to run it.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sync_shim::foreign::{drop_quietly, guarded};

use crate::engine::claimed::{Claimed, Guard};
use crate::engine::command::{Command, Ready};
use crate::engine::control::Control;
use crate::engine::shared::Shared;
use crate::engine::signals::{Events, SignalFuture};
use crate::error::with_causes;
use crate::store::payload::Payload;

/// Error of an attempt whose handler was dropped because of its lease. The store ignores it if another holder has the
/// job. A cancelled job ends without an error.
const LOST: &str = "the lease was lost";

/// The job of an async handler. Has the methods of a [`Claimed`] that do not settle it: the handler's result does.
///
/// Its drop has no effect, so a handler may move it into another task, which must not outlive the handler.
pub struct Job<T>(Claimed<T>);

impl<T> Deref for Job<T> {
    type Target = Claimed<T>;

    fn deref(&self) -> &Claimed<T> {
        &self.0
    }
}

impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Job").field(&self.0).finish()
    }
}

/// A future that runs the handler of one job, and settles the job by the handler's result. Its output is an
/// acknowledgement, if the job is done. Does not unwind.
///
/// Dropped before its first poll, it releases the job. Dropped later, it drops the handler's future, and then the job
/// like a dropped [`Claimed`].
pub(crate) struct Attempt<T, S, F, Fut> {
    shared: Arc<Shared<S>>,
    handler: Arc<F>,
    terms: Terms,
    stage: Stage<Fut>,
    values: PhantomData<fn() -> T>,
}

/// Terms of all attempts of a handler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The events that drop the handler.
    pub(crate) ends_on: Events,
}

enum Stage<Fut> {
    /// In a box, because a suspended handler would otherwise keep the room of its lease.
    Unpolled(Box<Ready>),
    Running(Running<Fut>),
    Over,
}

struct Running<Fut> {
    future: Pin<Box<Fut>>,
    guard: Guard,
    /// Completes with an event that may drop the handler. `None` if there is no such event.
    end: Option<SignalFuture>,
}

impl<T, S, F, Fut> Attempt<T, S, F, Fut> {
    pub(crate) fn new(shared: &Arc<Shared<S>>, handler: &Arc<F>, terms: Terms, job: Ready) -> Self {
        Self {
            shared: Arc::clone(shared),
            handler: Arc::clone(handler),
            terms,
            stage: Stage::Unpolled(Box::new(job)),
            values: PhantomData,
        }
    }
}

impl<T, S, F, Fut> Attempt<T, S, F, Fut>
where
    T: Payload,
    F: Fn(Job<T>) -> Fut,
{
    /// Calls the handler. `None` if there is nothing to run.
    fn begin(&self, job: Ready) -> Option<Running<Fut>> {
        let Shared {
            control, policy, ..
        } = &*self.shared;
        if !control.is_open() {
            control.command(Command::release(&job.lease));
            return None;
        }
        let has_limit = job.limit.is_some();
        let (job, mut guard) = Claimed::<T>::of(job, control, policy)?.lend();
        // The pump that ends the attempt at its time limit tells it by the loss of the lease.
        let ends_on = if has_limit {
            self.terms.ends_on.and(Events::LOST)
        } else {
            self.terms.ends_on
        };
        let end = guard.end_signal(ends_on);
        // USER CODE: the handler, which makes its future. A panic fails the attempt.
        match guard.observe(|| guarded(|| Box::pin((self.handler)(Job(job))))) {
            Ok(future) => Some(Running { future, guard, end }),
            Err(payload) => {
                guard.end(Err(payload));
                None
            }
        }
    }
}

// The handler's future is in a box.
impl<T, S, F, Fut> Unpin for Attempt<T, S, F, Fut> {}

impl<T, S, F, Fut, E> Future for Attempt<T, S, F, Fut>
where
    T: Payload,
    F: Fn(Job<T>) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Output = Option<Command>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Command>> {
        let mut running = match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Unpolled(job) => match self.begin(*job) {
                Some(running) => running,
                None => return Poll::Ready(None),
            },
            Stage::Running(running) => running,
            Stage::Over => return Poll::Ready(None),
        };
        while let Some(end) = &mut running.end
            && Pin::new(end).poll(context).is_ready()
        {
            let is_over = running.guard.is_overdue();
            if is_over || running.guard.has(self.terms.ends_on) {
                // USER CODE: the drop of the handler's future. A panic is caught.
                running.guard.observe(|| drop_quietly(running.future));
                if is_over {
                    running.guard.forget(); // The pump has ended the attempt.
                    return Poll::Ready(None);
                }
                return Poll::Ready(running.guard.end(Ok(Err(LOST.to_owned()))));
            }
            // The lease is lost, which ends only attempts with a time limit that is over.
            running.end = running.guard.end_signal(self.terms.ends_on);
        }
        // USER CODE: the poll of the handler's future, and the conversion, `Display` and `source` of its error. A panic
        // fails the attempt.
        let Running { future, guard, .. } = &mut running;
        let polled = guard.observe(|| {
            guarded(|| {
                let polled = future.as_mut().poll(context);
                polled.map_err(|error| with_causes(&*error.into()))
            })
        });
        let ended = match polled {
            Ok(Poll::Pending) => {
                self.stage = Stage::Running(running);
                return Poll::Pending;
            }
            Ok(Poll::Ready(ended)) => Ok(ended),
            Err(payload) => Err(payload),
        };
        // USER CODE: the drop of the handler's future, before the job is settled. A panic is caught, and the job is
        // settled by the result.
        running.guard.observe(|| drop_quietly(running.future));
        Poll::Ready(running.guard.end(ended))
    }
}

impl<T, S, F, Fut> Drop for Attempt<T, S, F, Fut> {
    fn drop(&mut self) {
        match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Unpolled(job) => self.shared.control.command(Command::release(&job.lease)),
            Stage::Running(Running {
                future, mut guard, ..
            }) => {
                // USER CODE: the drop of the handler's future, before the job is free. A panic is caught.
                guard.observe(|| drop_quietly(future));
                guard.abandon(); // Also during a panic, which is not the handler's.
            }
            Stage::Over => {}
        }
    }
}

/// An attempt as a task of a pool.
///
/// Only a released pool drops it before it has ended, or its run, which has closed the queue by then. So its drop closes
/// the queue, and then drops the attempt, which releases the job.
pub(crate) struct Pooled<A> {
    control: Arc<Control>,
    attempt: Option<A>,
}

impl<A> Pooled<A> {
    pub(crate) fn new(control: &Arc<Control>, attempt: A) -> Self {
        Self {
            control: Arc::clone(control),
            attempt: Some(attempt),
        }
    }
}

impl<A: Future<Output = Option<Command>> + Unpin> Future for Pooled<A> {
    type Output = Unsent;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Unsent> {
        let ack = match &mut self.attempt {
            Some(attempt) => std::task::ready!(Pin::new(attempt).poll(context)),
            None => None,
        };
        self.attempt = None;
        Poll::Ready(Unsent {
            control: Arc::clone(&self.control),
            ack,
        })
    }
}

impl<A> Drop for Pooled<A> {
    fn drop(&mut self) {
        if self.attempt.is_some() {
            self.control.close(None);
        }
    }
}

/// The acknowledgement of an attempt in a pool. Its drop sends it: the run that would take it may be gone.
pub(crate) struct Unsent {
    control: Arc<Control>,
    ack: Option<Command>,
}

impl Unsent {
    pub(crate) fn take(mut self) -> Option<Command> {
        self.ack.take()
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(ack) = self.ack.take() {
            self.control.command(ack);
        }
    }
}
