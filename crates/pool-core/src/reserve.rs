//! Getting a permit: the calls and the future.
//!
//! Not for: what a permit does, which is `permit.rs`. A caller waits for one in the pool's one wait
//! queue, among the submits (`sched/waiters.rs`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sync_shim::Parker;

use crate::config::OnFull;
use crate::core::{Core, Late};
use crate::error::{Closed, Reason, SubmitError};
use crate::handle::PoolRef;
use crate::permit::Permit;
use crate::pool::WorkerPool;
use crate::runner::Runner;
use crate::sched::decide::WhenFull;
use crate::sched::event::EventWait;
use crate::sched::waiters::{Request, WaiterEntry};

impl<R: Runner> Core<R> {
    /// Reserves room, waits for some as long as `on_full` says, or says why there is none.
    fn reserve(self: &Arc<Self>, on_full: OnFull) -> Result<(), Reason> {
        self.process().check(Reason::Forked)?;
        if self.refuses_full(on_full) {
            return Err(Reason::Full);
        }
        let deadline = on_full.deadline();
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
                // Step Q1.
                let ticket = state.enqueue_waiter(Arc::clone(&entry));
                Ok((entry, ticket, parker))
            },
            |start: &EventWait| {
                let came = start.wait_until(self.clock(), deadline);
                came.then_some(()).ok_or(Late)
            },
        );
        match admitted {
            Ok(()) => Ok(()),
            Err(Err(reason)) => Err(reason),
            Err(Ok((entry, ticket, parker))) => {
                let waited = self.wait_for_room(&entry, ticket, &parker, deadline, None);
                waited.map_err(|(reason, _)| reason)
            }
        }
    }
}

/// Reserving: room first, the task later.
///
/// A [`Permit`] is for a caller that is not to make its task before there is room for it, or that
/// is to say whether it can take more work before it gets any. Else hand the task over at once: a
/// permit costs two sections of the lock, and holds room that is not used meanwhile.
impl<R: Runner> WorkerPool<R> {
    /// Reserves room for one task. Waits while the pool is full, in the one line of those that
    /// submit.
    ///
    /// On one of the pool's own workers a full pool refuses, as there is no task yet that could be
    /// run in place (unless they [block](crate::WithinWorker::Block)). A pool that was built
    /// [`nonblocking`](crate::Builder::nonblocking) refuses. May block for as long as starting the
    /// first thread takes.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let permit = pool.reserve()?; // Waits while the pool is full.
    /// let next = String::from("read from the socket now that there is room for it");
    /// permit.submit(move || println!("{next}"));
    /// # pool.wait_idle()?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The reason alone: see [`SubmitError`].
    #[doc(alias = "acquire")]
    pub fn reserve(&self) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(self.core().on_full())
    }

    /// As [`reserve`](Self::reserve), but refuses at a full pool, as
    /// [`try_submit`](Self::try_submit) does.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let permit = pool.try_reserve()?;
    /// assert!(pool.try_reserve().is_err_and(|refused| refused.is_full()));
    /// drop(permit);
    /// assert!(pool.try_reserve().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The reason alone: see [`SubmitError`].
    pub fn try_reserve(&self) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(OnFull::Refuse)
    }

    /// As [`reserve`](Self::reserve), but waits at most for so long.
    ///
    /// # Errors
    /// The reason alone: see [`SubmitError`].
    pub fn reserve_timeout(&self, timeout: Duration) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(OnFull::Wait(self.deadline(timeout)))
    }

    /// As [`reserve`](Self::reserve), but waits at most until then.
    ///
    /// # Errors
    /// The reason alone: see [`SubmitError`].
    pub fn reserve_deadline(&self, deadline: Instant) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(OnFull::Wait(Some(deadline)))
    }

    /// As [`reserve`](Self::reserve), as a future.
    ///
    /// Futures and threads stand in one line. Nothing happens before the first poll, which may have
    /// to start the first worker, or to wait for its start. Once it is woken it has its room, also
    /// if it is not polled again. Dropping it, in whichever state, leaves nothing behind: no place
    /// in the line and no room. It keeps the pool open, as a permit does. Works under any runtime.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let permit = pool.reserve_async().await?;
    /// assert_eq!(permit.spawn(|| 42).await?, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// A `tower` service keeps the future, then the permit, between its `poll_ready` and its `call`. A
    /// clone of the service starts without either.
    ///
    /// ```
    /// use pool_core::{Closures, JoinHandle, Permit, Pool, ReserveFuture, SubmitError};
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll, Waker, ready};
    ///
    /// struct Lengths {
    ///     pool: Pool,
    ///     waiting: Option<ReserveFuture<Closures>>,
    ///     permit: Option<Permit<Closures>>,
    /// }
    ///
    /// impl Lengths {
    ///     fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SubmitError>> {
    ///         if self.permit.is_none() {
    ///             let waiting = self.waiting.get_or_insert_with(|| self.pool.reserve_async());
    ///             let answer = ready!(Pin::new(waiting).poll(context));
    ///             self.waiting = None; // After an error the next poll asks again.
    ///             self.permit = Some(answer?);
    ///         }
    ///         Poll::Ready(Ok(()))
    ///     }
    ///
    ///     fn call(&mut self, request: String) -> JoinHandle<usize> {
    ///         let permit = self.permit.take().expect("`poll_ready` comes first");
    ///         permit.spawn(move || request.len()) // The handle is the service's future.
    ///     }
    /// }
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let service = || Lengths { pool: pool.clone(), waiting: None, permit: None };
    /// let (mut one, mut other) = (service(), service());
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(one.poll_ready(&mut context).is_ready());
    /// assert!(other.poll_ready(&mut context).is_pending(), "the room is taken");
    /// assert_eq!(one.call("four".into()).join()?, 4);
    /// assert!(other.poll_ready(&mut context).is_ready());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The reason alone: see [`SubmitError`].
    pub fn reserve_async(&self) -> ReserveFuture<R> {
        ReserveFuture {
            pool: self.clone(),
            stage: Stage::Outside,
        }
    }

    pub(crate) fn reserve_with(&self, on_full: OnFull) -> Result<Permit<R>, SubmitError> {
        match self.core().reserve(on_full) {
            Ok(()) => Ok(self.permit()),
            Err(reason) => Err(reason.with(())),
        }
    }

    /// The permit of room that was reserved.
    fn permit(&self) -> Permit<R> {
        Permit::new(Arc::clone(self.core()), self.keep_open())
    }
}

/// Resolves to a permit. See [`WorkerPool::reserve_async`].
#[must_use = "futures do nothing unless polled"]
pub struct ReserveFuture<R: Runner> {
    pool: WorkerPool<R>,
    stage: Stage<R::Job>,
}

enum Stage<J> {
    Outside,
    Waiting(Arc<WaiterEntry<J>>, u64),
    Over,
}

// Nothing is pinned.
impl<R: Runner> Unpin for ReserveFuture<R> {}

impl<R: Runner> ReserveFuture<R> {
    /// The first poll. `None`: it waits in the wait queue.
    fn enter(&mut self) -> Option<Result<(), Reason>> {
        let core = self.pool.core();
        let admitted = core.admit_permit(
            |state, why: Closed| {
                let enqueues = matches!(why, Closed::Full)
                    && state.view().when_full(WhenFull::Enqueue) == WhenFull::Enqueue;
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
            Err(Ok(in_line)) => {
                self.stage = in_line;
                None
            }
        }
    }
}

impl<R: Runner> Future for ReserveFuture<R> {
    type Output = Result<Permit<R>, SubmitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.pool.core().process().check(SubmitError::Forked(()))?;
        let mut result = None;
        if let Stage::Outside = self.stage {
            self.stage = Stage::Over;
            result = self.enter();
        }
        // Also at once after it entered the queue, which has no waker yet. The waker's clone is
        // user code: if it panics, the entry is still ours to give up.
        if let Stage::Waiting(entry, _) = &self.stage {
            let answer = entry.poll(context.waker());
            result = answer.map(|answer| answer.map(drop).map_err(|(reason, _)| reason));
        }
        // Polled after it was ready, it has nothing more to say.
        let Some(result) = result else {
            return Poll::Pending;
        };
        self.stage = Stage::Over;
        Poll::Ready(match result {
            Ok(()) => Ok(self.pool.permit()),
            Err(reason) => Err(reason.with(())),
        })
    }
}

impl<R: Runner> Drop for ReserveFuture<R> {
    fn drop(&mut self) {
        let core = self.pool.core();
        if let Stage::Waiting(entry, ticket) = &self.stage
            && core.process().is_current()
            && core.leave_wait_queue(entry, *ticket).is_none()
            && matches!(entry.outcome(), Some(Ok(_)))
        {
            core.give_back_room(); // It was given room that it has not fetched.
        }
    }
}

impl<R: Runner> fmt::Debug for ReserveFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReserveFuture")
            .field("pool", &self.pool.name())
            .finish_non_exhaustive()
    }
}
