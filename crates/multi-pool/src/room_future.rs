//! The future that waits for a permit of any pool. `waiter.rs` defines the steps.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pool_core::SubmitError;
use pool_core::internals::{PoolHandle, Request};

use crate::shared::{NoRoom, Shared};
use crate::waiter::{GroupWait, GroupWaiter};

/// Future that reserves room in one of the pools. Dropping it leaves no room reserved.
#[must_use = "futures do nothing unless polled"]
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct RoomFuture {
    shared: Arc<Shared>,
    stage: Stage,
}

enum Stage {
    /// Not polled yet.
    New,
    Waiting(GroupWaiter),
    Done,
}

// Nothing is pinned.
impl Unpin for RoomFuture {}

impl RoomFuture {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let stage = Stage::New;
        Self { shared, stage }
    }

    /// First poll: step 1 if all pools are full. Returns `None` if the future has to wait.
    fn enter(&mut self) -> Option<Result<usize, SubmitError>> {
        let shared = Arc::clone(&self.shared);
        let starved = match shared.offer(None, (), |member, ()| member.reserve()) {
            Ok(pool) => return Some(Ok(pool)),
            Err(NoRoom::Full { starved, .. }) => starved,
            Err(NoRoom::Refused(refusal)) => return Some(Err(shared.count_refusal(refusal))),
        };
        let request = match shared.answer_worker(Request::Permit) {
            Ok(answer) => return Some(answer.map_err(|refusal| refusal.map(drop))),
            Err(request) => request,
        };
        match shared.enqueue(request, starved, None) {
            GroupWait::Waiting(waiter) => {
                self.stage = Stage::Waiting(waiter);
                None
            }
            GroupWait::Answered(answer) => Some(answer.map_err(|refusal| refusal.map(drop))),
        }
    }
}

impl Future for RoomFuture {
    type Output = Result<PoolHandle, SubmitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = None;
        if let Stage::New = self.stage {
            self.stage = Stage::Done;
            answer = self.enter();
        }
        // Step 2: leaves the waker in the ticket. This also follows step 1, which has no waker. Cloning the
        // waker is user code: if it panics, dropping this future does steps 5 and 6.
        if let Stage::Waiting(waiter) = &self.stage {
            let shared = Arc::clone(&self.shared);
            shared.first().process().check(SubmitError::Forked(()))?;
            let settled = waiter.ticket.poll(context.waker());
            let settled = settled.or_else(|| waiter.answer_worker(&shared));
            if settled.is_some() {
                waiter.dequeue(&shared); // Step 6.
            }
            answer = settled.map(|settled| settled.map_err(|refusal| refusal.map(drop)));
        }
        // A poll after completion is pending, too.
        let Some(answer) = answer else {
            return Poll::Pending;
        };
        self.stage = Stage::Done;
        Poll::Ready(answer.map(|pool| self.shared.members[pool].clone()))
    }
}

impl Drop for RoomFuture {
    fn drop(&mut self) {
        let Stage::Waiting(waiter) = &self.stage else {
            return;
        };
        let shared = Arc::clone(&self.shared);
        if !shared.first().process().is_current() {
            return; // Threads of the parent process may hold the locks.
        }
        // Step 5 before step 6, so that no pool takes the request meanwhile.
        let withdrawn = waiter.ticket.withdraw();
        waiter.dequeue(&shared);
        if withdrawn.is_some() {
            let _ = shared.count_refusal(SubmitError::Full(()));
        } else if let Some(Ok(pool)) = waiter.ticket.outcome() {
            shared.members[pool].give_back_room(); // Step 3 has reserved room for this future.
        }
    }
}
