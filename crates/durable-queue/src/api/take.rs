//! Taking due jobs: by a blocking thread, in batches, and by a future.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use sync_shim::foreign::guarded;
use sync_shim::waiter::Waiter;
use sync_shim::{Clock, Parker, Timeout};

use crate::api::queue::DurableQueue;
use crate::engine::calls::{Ticket, Wanted};
use crate::engine::claimed::Claimed;
use crate::engine::command::{Command, Ready};
use crate::engine::lanes::LanesId;
use crate::engine::shared::Shared;
use crate::error::TakeError;
use crate::store::Store;
use crate::store::payload::Payload;

impl<T: Payload, S: Store> DurableQueue<T, S> {
    /// Takes the earliest due job. Blocks until there is one. Errors of the store do not end the call,
    /// because the pump retries: see [`last_error`](Self::last_error).
    ///
    /// A handle of a [kind](Self::kind) takes jobs of its kind only, others take any. A job whose payload cannot be
    /// [decoded](Payload::decode) is not handed out: see [`Builder::unreadable_for`](crate::Builder::unreadable_for).
    ///
    /// # Errors
    /// [`TakeError::ShutDown`], [`TakeError::NoThread`] and [`TakeError::Forked`].
    #[doc(alias = "recv")]
    pub fn take(&self) -> Result<Claimed<T>, TakeError> {
        self.shared().take_one(Vec::new(), None, self.marks.kind)
    }

    /// Like [`take`](Self::take), but waits for at most `timeout`.
    ///
    /// # Errors
    /// Also [`TakeError::TimedOut`].
    pub fn take_timeout(&self, timeout: impl Into<Timeout>) -> Result<Claimed<T>, TakeError> {
        let deadline = timeout.into().deadline(&self.shared().control.clock);
        self.shared()
            .take_one(Vec::new(), deadline, self.marks.kind)
    }

    /// Takes up to `most` due jobs. Blocks until there is at least one, and does not wait for more.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub fn take_many(&self, most: NonZeroUsize) -> Result<Vec<Claimed<T>>, TakeError> {
        self.shared().take(Vec::new(), most, None, self.marks.kind)
    }

    /// Like [`take_many`](Self::take_many), but waits for at most `timeout`.
    ///
    /// # Errors
    /// Also [`TakeError::TimedOut`].
    pub fn take_many_timeout(
        &self,
        most: NonZeroUsize,
        timeout: impl Into<Timeout>,
    ) -> Result<Vec<Claimed<T>>, TakeError> {
        let deadline = timeout.into().deadline(&self.shared().control.clock);
        self.shared()
            .take(Vec::new(), most, deadline, self.marks.kind)
    }

    /// Acknowledges the jobs of the last batch, like [`ack_later`](Claimed::ack_later), and takes the next
    /// batch, like [`take_many`](Self::take_many), in one call of the store instead of two. When it returns
    /// jobs, the acknowledgements are durable, unless the jobs belong to an earlier claim whose response was
    /// lost. In that case, and if it returns an error, the acknowledgements are still on their way.
    ///
    /// ```
    /// # use std::num::NonZeroUsize;
    /// # use durable_queue::{Claimed, DurableQueue, Store, TakeError};
    /// # fn mail(_: &str) {}
    /// fn work_off<S: Store>(queue: &DurableQueue<String, S>) -> Result<(), TakeError> {
    ///     let most = NonZeroUsize::new(100).expect("not zero");
    ///     let mut done = Vec::new();
    ///     loop {
    ///         let batch = queue.ack_and_take_many(done, most)?;
    ///         batch.iter().for_each(|job| mail(job));
    ///         done = batch;
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub fn ack_and_take_many(
        &self,
        done: Vec<Claimed<T>>,
        most: NonZeroUsize,
    ) -> Result<Vec<Claimed<T>>, TakeError> {
        self.shared().take(done, most, None, self.marks.kind)
    }

    /// Like [`ack_and_take_many`](Self::ack_and_take_many), but waits for at most `timeout`.
    ///
    /// # Errors
    /// Also [`TakeError::TimedOut`].
    pub fn ack_and_take_many_timeout(
        &self,
        done: Vec<Claimed<T>>,
        most: NonZeroUsize,
        timeout: impl Into<Timeout>,
    ) -> Result<Vec<Claimed<T>>, TakeError> {
        let deadline = timeout.into().deadline(&self.shared().control.clock);
        self.shared().take(done, most, deadline, self.marks.kind)
    }

    /// Async version of [`take`](Self::take). Needs no runtime. The future makes its request when it is first
    /// polled. If it is dropped before it is ready, jobs that it was given are released. It does not keep the
    /// queue open. Polled after it was ready, it takes the next job.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub fn take_async(&self) -> TakeFuture<T, S> {
        TakeFuture {
            taking: Taking::new(self, Vec::new(), NonZeroUsize::MIN),
            values: PhantomData,
        }
    }

    /// Async version of [`take_many`](Self::take_many): see [`take_async`](Self::take_async).
    pub fn take_many_async(&self, most: NonZeroUsize) -> TakeManyFuture<T, S> {
        self.ack_and_take_many_async(Vec::new(), most)
    }

    /// Async version of [`ack_and_take_many`](Self::ack_and_take_many): see [`take_async`](Self::take_async).
    /// The acknowledgements are sent with the first poll, or when the future is dropped before that. Polled
    /// after it was ready, it takes the next batch and acknowledges no further jobs.
    ///
    /// ```
    /// # use std::num::NonZeroUsize;
    /// # use durable_queue::{Claimed, DurableQueue, Store, TakeError};
    /// # async fn mail(_: &str) {}
    /// async fn work_off<S: Store>(queue: &DurableQueue<String, S>) -> Result<(), TakeError> {
    ///     let most = NonZeroUsize::new(100).expect("not zero");
    ///     let mut done = Vec::new();
    ///     loop {
    ///         let batch = queue.ack_and_take_many_async(done, most).await?;
    ///         for job in &batch {
    ///             mail(job).await;
    ///         }
    ///         done = batch;
    ///     }
    /// }
    /// ```
    pub fn ack_and_take_many_async(
        &self,
        done: Vec<Claimed<T>>,
        most: NonZeroUsize,
    ) -> TakeManyFuture<T, S> {
        TakeManyFuture {
            taking: Taking::new(self, self.shared().acks_of(done), most),
            values: PhantomData,
        }
    }
}

impl<S: Store> Shared<S> {
    fn take_one<T: Payload>(
        self: &Arc<Self>,
        done: Vec<Claimed<T>>,
        deadline: Option<Instant>,
        kind: Option<&'static str>,
    ) -> Result<Claimed<T>, TakeError> {
        let mut one = self.take(done, NonZeroUsize::MIN, deadline, kind)?;
        Ok(one.pop().expect("at least one job"))
    }

    /// Acknowledges `done` in the turn that takes the next jobs.
    pub(crate) fn take<T: Payload>(
        self: &Arc<Self>,
        done: Vec<Claimed<T>>,
        most: NonZeroUsize,
        deadline: Option<Instant>,
        kind: Option<&'static str>,
    ) -> Result<Vec<Claimed<T>>, TakeError> {
        let mut acks = self.acks_of(done);
        let (lanes, wanted) = (self.control.lanes_of(kind), Wanted::Own(most.get()));
        loop {
            let given = self.wait(mem::take(&mut acks), lanes, wanted, deadline)?;
            let jobs = Claimed::all_of(given, &self.control, &self.policy);
            if !jobs.is_empty() {
                return Ok(jobs);
            }
        }
    }

    /// Acknowledgements of other queues' jobs are sent to their queues.
    fn acks_of<T>(&self, done: Vec<Claimed<T>>) -> Vec<Command> {
        let acks = done
            .into_iter()
            .filter_map(|job| job.ack_with(&self.control));
        acks.collect()
    }

    /// Submits the acknowledgements in any case, then waits for jobs.
    pub(crate) fn wait(
        self: &Arc<Self>,
        acks: Vec<Command>,
        lanes: LanesId,
        wanted: Wanted,
        deadline: Option<Instant>,
    ) -> Result<Vec<Ready>, TakeError> {
        if let Err(error) = self.start() {
            for ack in acks {
                self.control.command(ack);
            }
            return Err(error);
        }
        let parker = Parker::of_thread();
        let waiter = || Waiter::Thread(parker.clone());
        let ticket = self.control.ask(acks, lanes, wanted, waiter())?;
        loop {
            let in_time = match deadline {
                None => {
                    parker.park();
                    true
                }
                // USER CODE: the clock. A panic is the caller's, and ends the call.
                Some(when) => guarded(|| self.control.clock.park_until(&parker, when))
                    .unwrap_or_else(|payload| {
                        self.leave(Some(ticket));
                        resume_unwind(payload)
                    }),
            };
            if let Some(given) = self.control.look(ticket, waiter()) {
                return given;
            }
            if !in_time {
                // Jobs may have arrived since the last look.
                let given = self.control.leave(ticket);
                return if given.is_empty() {
                    Err(TakeError::TimedOut)
                } else {
                    Ok(given)
                };
            }
        }
    }
}

impl<S> Shared<S> {
    /// Ends a call whose future is dropped. Jobs that it was given are released.
    pub(crate) fn leave(&self, ticket: Option<Ticket>) {
        let Some(ticket) = ticket.filter(|_| !self.control.is_forked()) else {
            return;
        };
        for job in self.control.leave(ticket) {
            self.control.command(Command::release(&job.lease));
        }
    }
}

/// Future of [`DurableQueue::take_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct TakeFuture<T, S: Store> {
    taking: Taking<S>,
    values: PhantomData<fn() -> T>,
}

impl<T: Payload, S: Store> Future for TakeFuture<T, S> {
    type Output = Result<Claimed<T>, TakeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = self.taking.poll(context);
        taken.map_ok(|mut one| one.pop().expect("at least one job"))
    }
}

impl<T, S: Store> fmt::Debug for TakeFuture<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeFuture").finish_non_exhaustive()
    }
}

/// Future of [`DurableQueue::take_many_async`] and [`DurableQueue::ack_and_take_many_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct TakeManyFuture<T, S: Store> {
    taking: Taking<S>,
    values: PhantomData<fn() -> T>,
}

impl<T: Payload, S: Store> Future for TakeManyFuture<T, S> {
    type Output = Result<Vec<Claimed<T>>, TakeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.taking.poll(context)
    }
}

impl<T, S: Store> fmt::Debug for TakeManyFuture<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeManyFuture").finish_non_exhaustive()
    }
}

/// The common part of both futures.
struct Taking<S: Store> {
    shared: Arc<Shared<S>>,
    lanes: LanesId,
    /// Sent with the first request.
    acks: Vec<Command>,
    most: NonZeroUsize,
    ticket: Option<Ticket>,
}

impl<S: Store> Taking<S> {
    fn new<T: Payload>(queue: &DurableQueue<T, S>, acks: Vec<Command>, most: NonZeroUsize) -> Self {
        Self {
            shared: Arc::clone(queue.shared()),
            lanes: queue.shared().control.lanes_of(queue.marks.kind),
            acks,
            most,
            ticket: None,
        }
    }

    /// Polls for at least one job.
    fn poll<T: Payload>(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Vec<Claimed<T>>, TakeError>> {
        loop {
            // USER CODE: the waker's clone. Before the lock is taken. A panic is the poller's, and changes nothing.
            let waiter = Waiter::Task(context.waker().clone());
            // The pump may exist already, but in the parent of a forked child.
            if let Err(error) = self.shared.start() {
                self.acknowledge();
                return Poll::Ready(Err(error));
            }
            let control = &self.shared.control;
            let Some(asked) = self.ticket else {
                let acks = mem::take(&mut self.acks);
                let wanted = Wanted::Own(self.most.get());
                self.ticket = Some(control.ask(acks, self.lanes, wanted, waiter)?);
                return Poll::Pending;
            };
            let Some(given) = control.look(asked, waiter) else {
                return Poll::Pending;
            };
            self.ticket = None;
            let jobs = Claimed::all_of(given?, control, &self.shared.policy);
            if !jobs.is_empty() {
                return Poll::Ready(Ok(jobs));
            }
        }
    }

    /// Sends the acknowledgements without a request for jobs.
    fn acknowledge(&mut self) {
        for ack in mem::take(&mut self.acks) {
            self.shared.control.command(ack);
        }
    }
}

impl<S: Store> Drop for Taking<S> {
    fn drop(&mut self) {
        self.acknowledge();
        self.shared.leave(self.ticket);
    }
}
