//! Reserving room for a permit, in one section, by blocking, or as a future.
//!
//! Callers wait in the pool's only wait queue, together with submits (`sched/waiters.rs`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sync_shim::Parker;

use crate::config::OnFull;
use crate::engine::core::{Core, Late};
use crate::error::{Closed, Reason, SubmitError};
use crate::sched::decide::WhenFull;
use crate::sched::event::EventWait;
use crate::sched::state::State;
use crate::sched::waiters::{Request, WaiterEntry};
use crate::sister::pool_handle::PoolHandle;
use crate::task::erased::Task;
use crate::task::handle::PoolRef;
use crate::task::options::WaitLimits;

impl Core {
    /// Reserves room, waiting as `on_full` and `limits` allow, or returns the reason why there is none.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<(), Reason> {
        // Before any lock is taken, because a thread that does not exist in a forked child may hold it.
        self.process().check(Reason::Forked)?;
        if self.refuses_full(on_full) {
            return Err(Reason::Full);
        }
        let deadline = WaitLimits::deadline(limits, on_full);
        let asked = WhenFull::asked_by_permit(on_full, self.own_worker());
        let admitted = self.admit_permit(
            |state, why| {
                let enqueues = matches!(why, Closed::Full)
                    && state.view().when_full(asked) == WhenFull::Enqueue;
                if !enqueues {
                    return Err(state.refuse(why));
                }
                let parker = Parker::of_thread();
                let entry = WaiterEntry::of_thread(Request::Permit, parker.clone());
                // Step Q1. In the section that found the pool full: otherwise room freed in between
                // would wake no one.
                let ticket = state.enqueue_waiter(Arc::clone(&entry));
                Ok((entry, ticket, parker))
            },
            |start: &EventWait| {
                let came = start.wait_until(PoolRef::clock(&**self), deadline);
                came.then_some(()).ok_or(Late)
            },
        );
        match admitted {
            Ok(()) => Ok(()),
            Err(Err(reason)) => Err(reason),
            Err(Ok((entry, ticket, parker))) => {
                let token = WaitLimits::token(limits);
                let waited = self.wait_for_room(&entry, ticket, &parker, deadline, token);
                waited.map_err(|(reason, _)| reason)
            }
        }
    }
}

impl Core {
    /// Step P3: returns the room of an unused permit.
    pub(crate) fn give_back_room(self: &Arc<Self>) {
        // In a forked child, the lock may be held by a thread that does not exist there, so the room
        // is lost instead; no one would use it.
        if self.process().is_current() {
            self.section(State::give_back_room);
        }
    }
}

impl Core {
    /// The answer of a full pool to a poll: an own worker must not wait for room, as in the blocking call.
    fn asked_by_future(&self) -> WhenFull {
        WhenFull::asked_by_permit(OnFull::Wait(None), self.own_worker())
    }
}

/// Resolves once room is reserved. Dropping it at any time gives the room back.
#[must_use = "futures do nothing unless polled"]
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct RoomFuture {
    core: Arc<Core>,
    stage: Stage<Task>,
}

enum Stage<J> {
    New,
    Waiting(Arc<WaiterEntry<J>>, u64),
    Done,
}

// Nothing is pinned.
impl Unpin for RoomFuture {}

impl RoomFuture {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let stage = Stage::New;
        Self { core, stage }
    }

    /// Handles the first poll. Returns `None` if the future now stands in the wait queue.
    fn enter(&mut self) -> Option<Result<(), Reason>> {
        let core = &self.core;
        let admitted = core.admit_permit(
            |state, why: Closed| {
                let enqueues = matches!(why, Closed::Full)
                    && state.view().when_full(core.asked_by_future()) == WhenFull::Enqueue;
                if !enqueues {
                    return Err(state.refuse(why));
                }
                let entry = WaiterEntry::of_future(Request::Permit);
                // Step Q1.
                let ticket = state.enqueue_waiter(Arc::clone(&entry));
                Ok(Stage::Waiting(entry, ticket))
            },
            |start| {
                start.wait();
                Ok(())
            },
        );
        match admitted {
            Ok(()) => Some(Ok(())),
            Err(Err(reason)) => Some(Err(reason)),
            Err(Ok(waiting)) => {
                self.stage = waiting;
                None
            }
        }
    }
}

impl Future for RoomFuture {
    type Output = Result<PoolHandle, SubmitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.core.process().check(SubmitError::Forked(()))?;
        let mut result = None;
        if let Stage::New = self.stage {
            // Before `enter`, so that the future is over if that unwinds.
            self.stage = Stage::Done;
            result = self.enter();
        }
        // Also right after it entered the queue, because the entry has no waker yet. USER CODE: the
        // waker's clone. If it panics, the entry is still ours to give up.
        if let Stage::Waiting(entry, ticket) = &self.stage {
            let answer = entry.poll(context.waker()).or_else(|| {
                if self.core.asked_by_future() == WhenFull::Enqueue {
                    return None;
                }
                let left = self.core.leave_wait_queue(entry, *ticket);
                let refused = left.map(|request| Err((Reason::Full, request)));
                refused.or_else(|| entry.outcome())
            });
            result = answer.map(|answer| answer.map(drop).map_err(|(reason, _)| reason));
        }
        // A future polled again after it was ready stays pending.
        let Some(result) = result else {
            return Poll::Pending;
        };
        self.stage = Stage::Done;
        Poll::Ready(match result {
            Ok(()) => Ok(PoolHandle(Arc::clone(&self.core))),
            Err(reason) => Err(reason.with(())),
        })
    }
}

impl Drop for RoomFuture {
    fn drop(&mut self) {
        let core = &self.core;
        if let Stage::Waiting(entry, ticket) = &self.stage
            && core.process().is_current()
            && core.leave_wait_queue(entry, *ticket).is_none()
            && matches!(entry.outcome(), Some(Ok(_)))
        {
            core.give_back_room(); // It was given room that it has not fetched.
        }
    }
}
