//! Async waits for the end, and the future behind async waits for rest (`rest.rs`).
//!
//! Not for: joining the timer thread, which blocks (`life.rs`). When a wait for the end is ready, the timer
//! thread has no work left and exits by itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use pool_core::internals::{EventFuture, Events};
use pool_core::{Timeout, WaitError};
use sync_shim::Deadline;

use crate::base::{Base, Members};
use crate::pool::ScheduledPool;
use crate::state::State;
use crate::timer::Core;

/// The state that a future waits for.
#[derive(Clone, Copy)]
pub(crate) enum Awaited {
    /// The scheduled pool is released and every schedule has ended.
    End,
    /// Every due schedule has ended.
    Quiet,
}

/// Resolves when the state is reached, or at the deadline.
pub(crate) struct StateFuture {
    core: Arc<Core<Members>>,
    members: Members,
    awaited: Awaited,
    event: Option<EventFuture>,
    deadline: Deadline,
}

impl StateFuture {
    pub(crate) fn new(
        core: Arc<Core<Members>>,
        members: Members,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> Self {
        Self {
            core,
            members,
            awaited,
            event: None,
            deadline: Deadline::new(deadline),
        }
    }

    /// Returns whether the state is reached. If not, enters an event for it in the same section.
    fn look(&mut self) -> bool {
        let (mut event, now) = (EventFuture::new(), self.core.now());
        let mut state = self.core.state.lock();
        let has_come = match self.awaited {
            Awaited::End => state.is_over(),
            Awaited::Quiet => state.is_quiet(now),
        };
        if !has_come {
            event.enter(self.awaited.waiters(&mut state));
        }
        drop(state);
        self.event = (!has_come).then_some(event);
        has_come
    }

    /// Removes the event. Returns whether the state was reached in the meantime.
    fn leave(&mut self) -> bool {
        let Some(event) = self.event.take() else {
            return false;
        };
        // The event is dropped after it, with its waker: the lock is free.
        event.leave(self.awaited.waiters(&mut self.core.state.lock()))
    }
}

impl Awaited {
    fn waiters(self, state: &mut State<Members>) -> &mut Events {
        match self {
            Self::End => &mut state.end_waiters,
            Self::Quiet => &mut state.quiet_waiters,
        }
    }
}

impl Future for StateFuture {
    type Output = Result<(), WaitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.members.process().check(WaitError::Forked)?;
        loop {
            let Some(event) = &this.event else {
                if this.look() {
                    return Poll::Ready(Ok(()));
                }
                continue;
            };
            if event.poll(context.waker()) {
                this.event = None; // Set for this state or for the join of the timer thread, so check again.
                continue;
            }
            // As in the blocking calls: the task that polls keeps its own pool from coming to rest.
            let waker = context.waker();
            let gives_up = if this.members.is_own_worker() {
                WaitError::WouldDeadlock
            } else if this.deadline.poll(&*this.core.clock, waker).is_ready() {
                WaitError::TimedOut
            } else {
                return Poll::Pending;
            };
            if !this.leave() {
                return Poll::Ready(Err(gives_up));
            }
        }
    }
}

impl Drop for StateFuture {
    fn drop(&mut self) {
        if self.members.process().is_current() {
            self.leave();
        }
    }
}

/// Async waits, for any runtime. The futures never block and can be dropped at any time. Unlike the blocking
/// calls they do not wait until the timer thread and the pool's worker threads have exited (see
/// [`WorkerPool::release_async`](pool_core::WorkerPool::release_async)).
impl<P: Base> ScheduledPool<P> {
    /// Resolves when the scheduled pool is released (by any handle of it or of the pool), and every schedule
    /// and the pool have ended. The future does not keep the scheduled pool open.
    ///
    /// # Errors
    /// [`WouldDeadlock`](WaitError::WouldDeadlock) if it is polled on one of the pool's workers;
    /// [`Rebooted`](WaitError::Rebooted) if the pool was rebooted after its release;
    /// [`Forked`](WaitError::Forked) in a forked child.
    pub fn wait_released_async(
        &self,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + use<P> {
        self.end_async(false, None)
    }

    /// [Releases](ScheduledPool::release) the scheduled pool at the first poll. Resolves when every schedule
    /// and the pool have ended.
    ///
    /// Pending tasks with one run still run when they are due, and the future waits for them. To end earlier,
    /// cancel them or build with `run_pending(false)`.
    ///
    /// # Errors
    /// As [`wait_released_async`](ScheduledPool::wait_released_async). The scheduled pool is released in any
    /// case.
    pub fn release_async(&self) -> impl Future<Output = Result<(), WaitError>> + Send + use<P> {
        self.end_async(true, None)
    }

    /// Like [`release_async`](ScheduledPool::release_async), but resolves at the latest after a `Duration` from
    /// this call, or at an `Instant`, by the pool's clock.
    ///
    /// # Errors
    /// As [`release_async`](ScheduledPool::release_async), and [`TimedOut`](WaitError::TimedOut), also if the
    /// clock has no thread to wake the future.
    pub fn release_timeout_async<T: Into<Timeout>>(
        &self,
        timeout: T,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + use<P, T> {
        let deadline = timeout.into().deadline(&**self.pool_handle().clock());
        self.end_async(true, deadline)
    }

    fn end_async(
        &self,
        releases: bool,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + use<P> {
        let (core, members) = (Arc::clone(self.core()), self.members().clone());
        async move {
            members.process().check(WaitError::Forked)?;
            if releases {
                core.release(true);
            }
            wait_for_end(core, members, deadline).await
        }
    }
}

/// Waits until every schedule and the pools have ended.
async fn wait_for_end(
    core: Arc<Core<Members>>,
    members: Members,
    deadline: Option<Instant>,
) -> Result<(), WaitError> {
    StateFuture::new(core, members.clone(), Awaited::End, deadline).await?;
    for (handle, generation) in members.each() {
        handle.wait_for_end_async(generation, deadline).await?;
    }
    Ok(())
}
