//! Waiting for the end as a future, and the future that waits for rest, too (`rest.rs`).
//!
//! Not for: joining the timer thread, which blocks (`life.rs`). It has nothing to do any more when a
//! future here is ready, and ends by itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use pool_core::WaitError;
use pool_core::internals::{Deadline, EventFuture, Events};

use crate::base::{Base, Members};
use crate::pool::ScheduledPool;
use crate::state::State;
use crate::timer::Core;

/// What a future waits for.
#[derive(Clone, Copy)]
pub(crate) enum Awaited {
    /// Nothing is accepted, and every schedule has ended.
    End,
    /// Nothing that is due is left to end.
    Quiet,
}

/// Resolves once it has come, or at the deadline.
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

    /// Whether it has come. If not, an event is entered for it, in the same section.
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

    /// Takes the event back: whether it has come all the same.
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
                this.event = None; // Of what is awaited, or of the timer thread's join: looks again.
            } else if !this.deadline.has_passed(&*this.core.clock, context.waker()) {
                return Poll::Pending;
            } else if !this.leave() {
                return Poll::Ready(Err(WaitError::TimedOut));
            }
        }
    }
}

impl Drop for StateFuture {
    fn drop(&mut self) {
        if self.members.process().is_current() {
            self.leave(); // Its drop leaves nothing behind.
        }
    }
}

/// Waiting as a future, under any runtime: nothing here blocks, and dropping a future leaves nothing
/// behind. Unlike the calls that block, it does not wait for the threads that have nothing to do any
/// more: the timer's, and those of the pool's workers (see
/// [`WorkerPool::release_async`](pool_core::WorkerPool::release_async)).
impl<P: Base> ScheduledPool<P> {
    /// Resolves once it is released (by any handle, of it or of the pool), every schedule has ended,
    /// and the pool has. It keeps nothing open.
    ///
    /// # Errors
    /// [`Rebooted`](WaitError::Rebooted) if the pool was, since it was released;
    /// [`Forked`](WaitError::Forked) in a forked child.
    pub fn wait_released_async(
        &self,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + use<P> {
        self.end_async(false, None)
    }

    /// [Releases](ScheduledPool::release), at the first poll, and resolves once every schedule and
    /// the pool have ended; or at the deadline, by the pool's clock.
    ///
    /// Tasks scheduled once still run at their time, and are waited for: cancel them, or build with
    /// another policy, to end earlier.
    ///
    /// # Errors
    /// Those of [`wait_released_async`](ScheduledPool::wait_released_async), and
    /// [`TimedOut`](WaitError::TimedOut): also if the clock has no thread to wake the future at the
    /// deadline. It is released all the same.
    pub fn release_async(
        &self,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + use<P> {
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

/// Every schedule has ended, and the pools have.
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
