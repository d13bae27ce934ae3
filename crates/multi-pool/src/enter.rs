//! Submitting as a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pool_core::family::Bell;
use pool_core::{Runner, SubmitError};

use crate::shared::{Answer, Shared};
use crate::standing::{Entered, Standing};

/// Resolves once the job is accepted, or with the job and why it is not.
///
/// Once it stands in the lines it need not be polled. Dropped before its job is taken, it takes
/// the job out and drops it. `map` turns the answer into what the caller knows.
pub(crate) struct Enter<R: Runner, M> {
    shared: Arc<Shared<R>>,
    stage: Stage<R>,
    map: Option<M>,
}

enum Stage<R: Runner> {
    Outside(R::Job),
    Standing(Standing<R>),
    Over,
}

// Nothing is pinned: a job is moved, never borrowed.
impl<R: Runner, M> Unpin for Enter<R, M> {}

impl<R: Runner, M> Enter<R, M> {
    pub(crate) fn new(shared: Arc<Shared<R>>, job: R::Job, map: M) -> Self {
        Self {
            shared,
            stage: Stage::Outside(job),
            map: Some(map),
        }
    }

    fn enter(&mut self, job: R::Job, waker: &Waker) -> Poll<Answer<R>> {
        let job = match self.shared.offer(job) {
            Err(SubmitError::Full(job)) => job,
            answer => return Poll::Ready(answer.map_err(|refusal| self.shared.refuse(refusal))),
        };
        let bell = || Bell::Future(Some(waker.clone()));
        match self.shared.stand(job, bell) {
            Entered::Standing(standing) => {
                self.stage = Stage::Standing(standing);
                Poll::Pending
            }
            Entered::Answered(answer) => Poll::Ready(answer),
        }
    }
}

impl<R: Runner, M, T> Future for Enter<R, M>
where
    M: FnOnce(Answer<R>) -> T,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if matches!(self.stage, Stage::Over) {
            return Poll::Pending; // Polled after it was ready: it has nothing more to say.
        }
        // Foreign code, which may panic: so far nothing has changed, and a drop takes the job out.
        let waker = context.waker().clone();
        let answer = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Outside(job) => self.enter(job, &waker),
            Stage::Standing(standing) => {
                if let Some(answer) = standing.ticket.poll(waker) {
                    standing.leave(&self.shared);
                    Poll::Ready(answer)
                } else {
                    self.stage = Stage::Standing(standing);
                    Poll::Pending
                }
            }
            Stage::Over => unreachable!("looked at above"),
        };
        answer.map(|answer| {
            let map = self.map.take();
            map.expect("the answer is given once")(answer)
        })
    }
}

impl<R: Runner, M> Drop for Enter<R, M> {
    fn drop(&mut self) {
        let Stage::Standing(standing) = &self.stage else {
            return;
        };
        if self.shared.first().is_forked() {
            return; // The locks may be held by threads that are not there.
        }
        let job = standing.ticket.withdraw();
        standing.leave(&self.shared);
        match job {
            Some(job) => drop(self.shared.refuse(SubmitError::Full(job))),
            // What a release has just given back is dropped here too, not by whoever wakes us
            // and has others to tell.
            None => drop(standing.ticket.outcome()),
        }
    }
}
