//! The future of an asynchronous submit.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::error::{Closed, Reason, SubmitError};
use crate::sched::decide::WhenFull;
use crate::sched::waiters::{Request, WaitResult, WaiterEntry};
use crate::task::cancel::Cancelled;
use crate::task::handle::PoolRef;

/// Resolves once the job is accepted, or with the job and the reason why it was not.
///
/// A future in the wait queue need not be polled: the section that frees room takes the job from its entry. A future
/// dropped before that removes the job from the wait queue and drops it.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct SubmitFuture<R: Runner> {
    core: Arc<Core<R>>,
    stage: Stage<R::Job>,
    /// Ends the wait for room when a token is cancelled.
    cancelled: Option<Cancelled>,
}

enum Stage<J> {
    Outside(J),
    Waiting(Arc<WaiterEntry<J>>, u64),
    Over,
}

// Safe, because nothing is pinned: the job is moved and never borrowed.
impl<R: Runner> Unpin for SubmitFuture<R> {}

impl<R: Runner> SubmitFuture<R> {
    pub(crate) fn new(core: Arc<Core<R>>, job: R::Job, cancelled: Option<Cancelled>) -> Self {
        Self {
            core,
            stage: Stage::Outside(job),
            cancelled,
        }
    }

    /// Handles the first poll. Returns `None` if the job is in the wait queue.
    fn enter(&mut self, job: R::Job) -> Option<WaitResult<R::Job>> {
        // Before the lock, which a thread of the parent may have held during the fork.
        if !self.core.process().is_current() {
            return Some(Err((Reason::Forked, job)));
        }
        let admitted = self.core.admit(job, |state, why, job| {
            let enqueues = matches!(why, Closed::Full)
                && state.view().when_full(WhenFull::Enqueue) == WhenFull::Enqueue;
            if !enqueues {
                return Err((state.refuse(why), job));
            }
            let entry = WaiterEntry::of_future(Request::Task(job));
            // Step Q1. In the section that found no room, so that room freed later finds the entry.
            let ticket = state.enqueue_waiter(Arc::clone(&entry));
            Ok(Stage::Waiting(entry, ticket))
        });
        match admitted {
            Ok(()) => Some(Ok(())),
            Err(Err(refused)) => Some(Err(refused)),
            Err(Ok(waiting)) => {
                self.stage = waiting;
                None
            }
        }
    }
}

impl<R: Runner> Future for SubmitFuture<R> {
    type Output = Result<usize, SubmitError<R::Job>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut result = None;
        // Before the look at the entry, so that a later cancellation wakes the future again.
        let is_cancelled = self
            .cancelled
            .as_mut()
            .is_some_and(|cancelled| Pin::new(cancelled).poll(context) == Poll::Ready(true));
        if let Stage::Outside(_) = self.stage
            && let Stage::Outside(job) = mem::replace(&mut self.stage, Stage::Over)
        {
            result = if is_cancelled {
                self.core.count_refused();
                Some(Err((Reason::Cancelled, job)))
            } else {
                self.enter(job)
            };
        }
        // Also right after it entered the queue, since the entry has no waker yet. If the waker's clone, which is user
        // code, panics, this future still owns the entry and its drop removes it.
        if let Stage::Waiting(entry, ticket) = &self.stage {
            let answer = if self.core.process().is_current() {
                let answer = entry.poll(context.waker());
                let answer = answer.or_else(|| {
                    // Step Q6: a job that was accepted before the cancellation stays accepted.
                    let left = is_cancelled.then(|| self.core.leave_wait_queue(entry, *ticket))?;
                    let cancelled = left.map(|request| Err((Reason::Cancelled, request)));
                    cancelled.or_else(|| entry.outcome())
                });
                answer.map(|answer| answer.map(|_| ()))
            } else {
                Some(entry.abandon())
            };
            let of_task = |(reason, request): (_, Request<_>)| (reason, request.into_task());
            result = answer.map(|answer| answer.map_err(of_task));
        }
        // A poll after the result stays pending for ever.
        let Some(result) = result else {
            return Poll::Pending;
        };
        self.stage = Stage::Over;
        Poll::Ready(match result {
            Ok(()) => Ok(0),
            Err((reason, job)) => Err(reason.with(job)),
        })
    }
}

impl<R: Runner> Drop for SubmitFuture<R> {
    fn drop(&mut self) {
        if let Stage::Waiting(entry, ticket) = &self.stage
            && self.core.process().is_current()
        {
            // The job is dropped here, after the section, because its drop is user code.
            drop(self.core.leave_wait_queue(entry, *ticket));
            // A job that a release has just returned is dropped here, too, and not by the releasing thread, which must
            // not be held up while it wakes others.
            drop(entry.outcome());
        }
    }
}
