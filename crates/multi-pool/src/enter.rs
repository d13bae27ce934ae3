//! Submitting as a future.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pool_core::{Runner, SubmitError};

use crate::shared::{Answer, NoRoom, Shared};
use crate::standing::{Entered, Standing};

/// Resolves once the job is accepted, or with the job and why it is not.
///
/// Once it stands in the wait queues it need not be polled. Dropped before its job is taken, it
/// takes the job out and drops it. `map` turns the answer into what the caller knows.
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

    /// The first poll. `None`: the job waits in the wait queues.
    fn enter(&mut self, job: R::Job) -> Option<Answer<R>> {
        let (job, starved) = match self.shared.offer(job) {
            Ok(pool) => return Some(Ok(pool)),
            Err(NoRoom::Full { job, starved }) => (job, starved),
            Err(NoRoom::Refused(refusal)) => return Some(Err(self.shared.refuse(refusal))),
        };
        match self.shared.stand(job, starved, None) {
            Entered::Standing(standing) => {
                self.stage = Stage::Standing(standing);
                None
            }
            Entered::Answered(answer) => Some(answer),
        }
    }
}

impl<R: Runner, M, T> Future for Enter<R, M>
where
    M: FnOnce(&Shared<R>, Answer<R>) -> T,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut answer = None;
        if let Stage::Outside(_) = self.stage
            && let Stage::Outside(job) = mem::replace(&mut self.stage, Stage::Over)
        {
            answer = self.enter(job);
        }
        // Also at once after it took its places, where it has no waker yet. The waker's clone is
        // user code: if it panics, the places are still ours to give up.
        if let Stage::Standing(standing) = &self.stage {
            answer = standing.ticket.poll(context.waker());
            if answer.is_some() {
                standing.leave(&self.shared);
            }
        }
        // Polled after it was ready, it has nothing more to say.
        let Some(answer) = answer else {
            return Poll::Pending;
        };
        self.stage = Stage::Over;
        let map = self.map.take();
        let map = map.expect("the answer is given once");
        Poll::Ready(map(&self.shared, answer))
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
