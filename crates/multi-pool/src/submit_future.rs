//! The future that submits a job. `waiter.rs` defines the steps.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pool_core::internals::{PoolHandle, Request};
use pool_core::{Cancelled, SubmitError, Task};

use crate::shared::{Answer, NoRoom, RequestAnswer, Shared};
use crate::waiter::{GroupWait, GroupWaiter};

/// Future that submits a job. Resolves when a pool has accepted the job, or to an error with the job.
///
/// An enqueued job is accepted in its turn, even if the future is not polled. Dropping the future before
/// that drops the job.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct SubmitFuture {
    shared: Arc<Shared>,
    stage: Stage,
    /// Ends the wait for room.
    cancelled: Option<Cancelled>,
}

enum Stage {
    /// Not polled yet.
    New(Task),
    Waiting(GroupWaiter),
    Done,
}

fn of_task(answer: RequestAnswer) -> Answer {
    answer.map_err(|refusal| refusal.map(Request::into_task))
}

// Nothing is pinned: a job is moved, never borrowed.
impl Unpin for SubmitFuture {}

impl SubmitFuture {
    pub(crate) fn new(shared: Arc<Shared>, job: Task, cancelled: Option<Cancelled>) -> Self {
        Self {
            shared,
            stage: Stage::New(job),
            cancelled,
        }
    }

    /// Gives up the wait and drops the job. Returns the pool that has accepted the job before, if one has.
    pub(crate) fn give_up(&mut self) -> Option<usize> {
        let Stage::Waiting(waiter) = &self.stage else {
            return None;
        };
        if !self.shared.first().process().is_current() {
            return None; // Threads of the parent process may hold the locks.
        }
        // Step 5 before step 6, so that no pool takes the job meanwhile.
        let job = waiter.ticket.withdraw();
        waiter.dequeue(&self.shared);
        let accepted = match job {
            Some(job) => {
                drop(self.shared.count_refusal(SubmitError::Full(job)));
                None
            }
            // A job returned by step 4 is dropped here, because the releasing thread has other waiters to wake.
            None => waiter.ticket.outcome().and_then(Result::ok),
        };
        self.stage = Stage::Done;
        accepted
    }

    /// First poll: step 1 if all pools are full. Returns `None` if the job has to wait.
    fn submit(&mut self, job: Task) -> Option<Answer> {
        let (job, starved) = match self.shared.offer(None, job, PoolHandle::accept) {
            Ok(pool) => return Some(Ok(pool)),
            Err(NoRoom::Full { asked, starved }) => (asked, starved),
            Err(NoRoom::Refused(refusal)) => return Some(Err(self.shared.count_refusal(refusal))),
        };
        let request = match self.shared.answer_worker(Request::Task(job)) {
            Ok(answer) => return Some(of_task(answer)),
            Err(request) => request,
        };
        match self.shared.enqueue(request, starved, None) {
            GroupWait::Waiting(waiter) => {
                self.stage = Stage::Waiting(waiter);
                None
            }
            GroupWait::Answered(answer) => Some(of_task(answer)),
        }
    }
}

impl Future for SubmitFuture {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let mut answer = None;
        // Polled before the ticket, so that a later cancellation wakes the future again.
        let is_cancelled = self
            .cancelled
            .as_mut()
            .is_some_and(|cancelled| Pin::new(cancelled).poll(context) == Poll::Ready(true));
        if let Stage::New(_) = self.stage
            && let Stage::New(job) = mem::replace(&mut self.stage, Stage::Done)
        {
            answer = if is_cancelled {
                let refusal = SubmitError::Cancelled(job);
                Some(Err(self.shared.count_refusal(refusal)))
            } else {
                self.submit(job)
            };
        }
        // Step 2: leaves the waker in the ticket. This also follows step 1, which has no waker. Cloning the
        // waker is user code: if it panics, dropping this future does steps 5 and 6.
        if let Stage::Waiting(waiter) = &self.stage
            && !self.shared.first().process().is_current()
        {
            // Threads of the parent process may hold the locks, so the places stay.
            answer = Some(of_task(waiter.ticket.abandon()));
        } else if let Stage::Waiting(waiter) = &self.stage {
            let polled = waiter.ticket.poll(context.waker()).or_else(|| {
                if !is_cancelled {
                    return waiter.answer_worker(&self.shared);
                }
                // Step 5, unless step 3 was faster.
                match waiter.ticket.withdraw() {
                    Some(request) => {
                        let refusal = SubmitError::Cancelled(request);
                        Some(Err(self.shared.count_refusal(refusal)))
                    }
                    None => waiter.ticket.outcome(),
                }
            });
            answer = polled.map(of_task);
            if answer.is_some() {
                waiter.dequeue(&self.shared); // Step 6.
            }
        }
        // A poll after completion is pending, too.
        let Some(answer) = answer else {
            return Poll::Pending;
        };
        self.stage = Stage::Done;
        Poll::Ready(answer)
    }
}

impl Drop for SubmitFuture {
    fn drop(&mut self) {
        self.give_up();
    }
}
