//! Submitting as a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::after::After;
use crate::core::{Core, Runner};
use crate::decide::{Admission, Manner, WhenFull};
use crate::error::Reason;
use crate::handle::Home;
use crate::line::{Seat, Settled};

/// Resolves once the job is accepted, or with the job and why it is not.
///
/// Once in the line it need not be polled: whoever frees room takes the job from its seat.
/// Dropped before that, it takes the job out of the line and drops it. `map` turns the answer
/// into what the caller knows: its own task, or a handle.
pub(crate) struct Enter<R: Runner, M> {
    core: Arc<Core<R>>,
    stage: Stage<R::Job>,
    map: Option<M>,
}

enum Stage<J> {
    Outside(J),
    InLine(Arc<Seat<J>>, u64),
    Over,
}

// Nothing is pinned: a job is moved, never borrowed.
impl<R: Runner, M> Unpin for Enter<R, M> {}

impl<R: Runner, M> Enter<R, M> {
    pub(crate) fn new(core: Arc<Core<R>>, job: R::Job, map: M) -> Self {
        Self {
            core,
            stage: Stage::Outside(job),
            map: Some(map),
        }
    }

    fn enter(&mut self, job: R::Job, waker: Waker) -> Poll<Settled<R::Job>> {
        if self.core.is_forked() {
            return Poll::Ready(Err((Reason::Forked, job)));
        }
        let (mut guard, admission) = match self.core.admission() {
            Ok(admitted) => admitted,
            Err((mut guard, refused)) => {
                guard.counts.refused += 1;
                return Poll::Ready(Err((Reason::NoThread(refused), job)));
            }
        };
        match admission {
            Admission::Room => {
                let mut after = After::new();
                guard.accept(job, &mut after);
                drop(guard);
                self.core.perform(&mut after);
                Poll::Ready(Ok(()))
            }
            Admission::Full if guard.view().when_full(Manner::Await) == WhenFull::Enrol => {
                let seat = Seat::of_future(job, waker);
                let ticket = guard.enrol(Arc::clone(&seat));
                drop(guard);
                self.stage = Stage::InLine(seat, ticket);
                Poll::Pending
            }
            refused => {
                guard.counts.refused += 1;
                drop(guard);
                let reason = match refused {
                    Admission::Full => Reason::Full,
                    _ => Reason::Released,
                };
                Poll::Ready(Err((reason, job)))
            }
        }
    }
}

impl<R: Runner, M, T> Future for Enter<R, M>
where
    M: FnOnce(Settled<R::Job>) -> T,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if matches!(self.stage, Stage::Over) {
            return Poll::Pending; // Polled after it was ready: it has nothing more to say.
        }
        // Foreign code, which may panic: so far nothing has changed, and a drop takes the job out.
        let waker = context.waker().clone();
        let settled = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Outside(job) => self.enter(job, waker),
            Stage::InLine(seat, _) if self.core.is_forked() => Poll::Ready(seat.abandon()),
            Stage::InLine(seat, ticket) => {
                if let Some(settled) = seat.poll(waker) {
                    Poll::Ready(settled)
                } else {
                    self.stage = Stage::InLine(seat, ticket);
                    Poll::Pending
                }
            }
            Stage::Over => unreachable!("looked at above"),
        };
        settled.map(|settled| {
            let map = self.map.take();
            map.expect("the answer is given once")(settled)
        })
    }
}

impl<R: Runner, M> Drop for Enter<R, M> {
    fn drop(&mut self) {
        if let Stage::InLine(seat, ticket) = &self.stage
            && !self.core.is_forked()
        {
            drop(self.core.leave_line(seat, *ticket)); // The lock is free when the job drops.
            // What a release has just given back is dropped here too, not by whoever rings the
            // seat and has others to tell.
            drop(seat.outcome());
        }
    }
}
