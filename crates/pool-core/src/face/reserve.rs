//! The calls that reserve room, for one pool and for several.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sync_shim::Timeout;

use crate::config::OnFull;
use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::error::SubmitError;
use crate::face::pool::WorkerPool;
use crate::permit::Permit;

/// Reserving: room first, the task later.
///
/// A [`Permit`] is for a caller that is not to make its task before there is room for it, or that
/// is to say whether it can take more work before it gets any. Else hand the task over at once: a
/// permit costs two sections of the lock, and holds room that is not used meanwhile.
impl<R: Runner, A: Admit<R>> WorkerPool<R, A> {
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
        self.reserve_with(self.on_full())
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

    /// As [`reserve`](Self::reserve), but waits at most that long, or until that instant.
    ///
    /// # Errors
    /// The reason alone: see [`SubmitError`].
    pub fn reserve_timeout(&self, timeout: impl Into<Timeout>) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(OnFull::Wait(self.deadline(timeout)))
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
    pub fn reserve_async(&self) -> ReserveFuture<R, A> {
        ReserveFuture {
            room: Arc::clone(self.admit()).reserve_room_async(),
            pool: self.clone(),
        }
    }

    pub(crate) fn reserve_with(&self, on_full: OnFull) -> Result<Permit<R>, SubmitError> {
        let pool = self.admit().reserve_room(on_full)?;
        Ok(pool.permit(self.keep_open()))
    }
}

/// Resolves to a permit. See [`WorkerPool::reserve_async`].
#[must_use = "futures do nothing unless polled"]
pub struct ReserveFuture<R: Runner, A: Admit<R> = Core<R>> {
    // Before `pool`: its drop may give room back.
    room: A::RoomFuture,
    pool: WorkerPool<R, A>,
}

impl<R: Runner, A: Admit<R>> Future for ReserveFuture<R, A> {
    type Output = Result<Permit<R>, SubmitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let room = Pin::new(&mut self.room).poll(context);
        room.map(|room| Ok(room?.permit(self.pool.keep_open())))
    }
}

impl<R: Runner, A: Admit<R>> fmt::Debug for ReserveFuture<R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReserveFuture")
            .field("pool", &self.pool.name())
            .finish_non_exhaustive()
    }
}
