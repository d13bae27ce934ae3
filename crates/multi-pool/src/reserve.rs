//! Reserving room in the first of the pools that has some. The steps that the comments name are
//! those of `waiter.rs`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pool_core::internals::Request;
use pool_core::{OnFull, Permit, Reserve, Runner, SubmitError};

use crate::multi::MultiWorkerPool;
use crate::shared::NoRoom;
use crate::waiter::{GroupWait, GroupWaiter};

/// Reserving: room first, the task later. Each call does what
/// [`WorkerPool`](pool_core::WorkerPool)'s of the same name does, for all pools at once: the first
/// that has room gives a [`Permit`], whose task it will run. A permit keeps all of the pools open.
#[expect(
    clippy::missing_errors_doc,
    reason = "those of one pool, to which the docs lead"
)]
impl<R: Runner> MultiWorkerPool<R> {
    /// Reserves room for one task. Waits while every pool is full, in the line of those that submit.
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::{Pool, SubmitError};
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(1)).pools(2).build()?;
    /// let permits = [pool.reserve()?, pool.reserve()?];
    /// assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    /// let handles = permits.map(|permit| permit.spawn(|| 21));
    /// assert_eq!(handles.into_iter().map(|handle| handle.join().unwrap()).sum::<i32>(), 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(self.on_full())
    }

    /// As [`reserve`](Self::reserve), but refuses if every pool is full. Never waits for room.
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::Pool;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// let permit = pool.try_reserve()?; // Room in one of the pools.
    /// assert_eq!(permit.spawn(|| 6 * 7).join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn try_reserve(&self) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(OnFull::Refuse)
    }

    /// As [`reserve`](Self::reserve), but waits at most for so long.
    pub fn reserve_timeout(&self, timeout: Duration) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(OnFull::Wait(self.deadline(timeout)))
    }

    /// As [`reserve`](Self::reserve), but waits at most until then.
    pub fn reserve_deadline(&self, deadline: Instant) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(OnFull::Wait(Some(deadline)))
    }

    /// As [`reserve`](Self::reserve), as a future. Dropping it leaves nothing behind: no place in a
    /// line and no room.
    pub fn reserve_async(&self) -> MultiReserveFuture<R> {
        MultiReserveFuture {
            pools: self.clone(),
            stage: Stage::New,
        }
    }

    fn reserve_with(&self, on_full: OnFull) -> Result<Permit<R>, SubmitError> {
        self.shared().reserve(on_full).map(|pool| self.permit(pool))
    }

    /// The permit of room that this pool has reserved.
    fn permit(&self, pool: usize) -> Permit<R> {
        self.shared().members[pool].permit(self.keep_open())
    }
}

impl<R: Runner> Reserve for MultiWorkerPool<R> {
    type Runner = R;
    type ReserveFuture = MultiReserveFuture<R>;

    fn reserve_with(&self, on_full: OnFull) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(on_full)
    }
    fn reserve_async(&self) -> MultiReserveFuture<R> {
        self.reserve_async()
    }
}

/// Resolves to a permit. See [`MultiWorkerPool::reserve_async`].
#[must_use = "futures do nothing unless polled"]
pub struct MultiReserveFuture<R: Runner> {
    pools: MultiWorkerPool<R>,
    stage: Stage<R>,
}

enum Stage<R: Runner> {
    /// Not polled yet.
    New,
    Waiting(GroupWaiter<R>),
    Done,
}

// Nothing is pinned.
impl<R: Runner> Unpin for MultiReserveFuture<R> {}

impl<R: Runner> MultiReserveFuture<R> {
    /// The first poll, which is step 1 if every pool is full. `None`: it waits.
    fn enter(&mut self) -> Option<Result<usize, SubmitError>> {
        let shared = self.pools.shared();
        let starved = match shared.offer((), |member, ()| member.reserve()) {
            Ok(pool) => return Some(Ok(pool)),
            Err(NoRoom::Full { starved, .. }) => starved,
            Err(NoRoom::Refused(refusal)) => return Some(Err(shared.count_refusal(refusal))),
        };
        match shared.enqueue(Request::Permit, starved, None) {
            GroupWait::Waiting(waiter) => {
                self.stage = Stage::Waiting(waiter);
                None
            }
            GroupWait::Answered(answer) => Some(answer.map_err(|refusal| refusal.map(drop))),
        }
    }
}

impl<R: Runner> Future for MultiReserveFuture<R> {
    type Output = Result<Permit<R>, SubmitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = None;
        if let Stage::New = self.stage {
            self.stage = Stage::Done;
            answer = self.enter();
        }
        // Step 2: leaves the waker with the ticket, also at once after step 1, which had none. The
        // waker's clone is user code: if it panics, the drop of this future does steps 5 and 6.
        if let Stage::Waiting(waiter) = &self.stage {
            let shared = self.pools.shared();
            shared.first().process().check(SubmitError::Forked(()))?;
            let settled = waiter.ticket.poll(context.waker());
            if settled.is_some() {
                waiter.dequeue(shared); // Step 6.
            }
            answer = settled.map(|settled| settled.map_err(|refusal| refusal.map(drop)));
        }
        // Also if it is polled again after it was ready.
        let Some(answer) = answer else {
            return Poll::Pending;
        };
        self.stage = Stage::Done;
        Poll::Ready(answer.map(|pool| self.pools.permit(pool)))
    }
}

impl<R: Runner> Drop for MultiReserveFuture<R> {
    fn drop(&mut self) {
        let Stage::Waiting(waiter) = &self.stage else {
            return;
        };
        let shared = self.pools.shared();
        if !shared.first().process().is_current() {
            return; // Threads that stayed in the parent may hold the locks.
        }
        // Step 5, then step 6: the request leaves the ticket before its places go.
        let withdrawn = waiter.ticket.withdraw();
        waiter.dequeue(shared);
        if withdrawn.is_some() {
            let _ = shared.count_refusal(SubmitError::Full(()));
        } else if let Some(Ok(pool)) = waiter.ticket.outcome() {
            drop(self.pools.permit(pool)); // It was given room that it has not fetched.
        }
    }
}

impl<R: Runner> fmt::Debug for MultiReserveFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiReserveFuture")
            .field("pool", &self.pools.name())
            .finish_non_exhaustive()
    }
}
