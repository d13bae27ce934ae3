//! Submitting as a future.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::core::Core;
use crate::error::{Closed, Reason};
use crate::handle::Home;
use crate::runner::Runner;
use crate::sched::decide::{Manner, WhenFull};
use crate::sched::waiters::{Seat, Settled};

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

    /// The first poll. `None`: the job waits in the line.
    fn enter(&mut self, job: R::Job) -> Option<Settled<R::Job>> {
        if self.core.is_forked() {
            return Some(Err((Reason::Forked, job)));
        }
        let admitted = self.core.admit(job, |state, why, job| {
            let enrols = matches!(why, Closed::Full)
                && state.view().when_full(Manner::Await) == WhenFull::Enrol;
            if !enrols {
                return Err((state.refuse(why), job));
            }
            let seat = Seat::of_future(job);
            let ticket = state.enrol(Arc::clone(&seat));
            Ok(Stage::InLine(seat, ticket))
        });
        match admitted {
            Ok(()) => Some(Ok(())),
            Err(Err(refused)) => Some(Err(refused)),
            Err(Ok(in_line)) => {
                self.stage = in_line;
                None
            }
        }
    }
}

impl<R: Runner, M, T> Future for Enter<R, M>
where
    M: FnOnce(&Core<R>, Settled<R::Job>) -> T,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut settled = None;
        if let Stage::Outside(_) = self.stage
            && let Stage::Outside(job) = mem::replace(&mut self.stage, Stage::Over)
        {
            settled = self.enter(job);
        }
        // Also at once after it took its seat, which has no waker yet. The waker's clone is foreign
        // code: if it panics, the seat is still ours to give up.
        if let Stage::InLine(seat, _) = &self.stage {
            settled = if self.core.is_forked() {
                Some(seat.abandon())
            } else {
                let settled = seat.poll(context.waker());
                settled.map(|settled| settled.map(|_| ()))
            };
        }
        // Polled after it was ready, it has nothing more to say.
        let Some(settled) = settled else {
            return Poll::Pending;
        };
        self.stage = Stage::Over;
        let map = self.map.take();
        let map = map.expect("the answer is given once");
        Poll::Ready(map(&self.core, settled))
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
