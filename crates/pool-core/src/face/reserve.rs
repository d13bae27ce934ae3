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

/// Reservations: room first, the task later.
///
/// A [`Permit`] is for callers that need room before they create a task, or that report readiness
/// for more work before they get any. Other callers should submit directly: a permit costs two
/// sections, and holds its room unused until then.
impl<R: Runner, A: Admit> WorkerPool<R, A> {
    /// Reserves room for one task. Waits while the pool is full, in the same wait queue as submits.
    ///
    /// On one of the pool's own workers a full pool refuses (except under
    /// [`WithinWorker::Block`](crate::WithinWorker::Block)), because there is no task yet to run in
    /// place. A [`nonblocking`](crate::Builder::nonblocking) pool refuses. May block while the
    /// first thread is started.
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
    /// See [`SubmitError`].
    #[doc(alias = "acquire")]
    pub fn reserve(&self) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(self.on_full())
    }

    /// Like [`reserve`](Self::reserve), but refuses at a full pool, as
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
    /// See [`SubmitError`].
    pub fn try_reserve(&self) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(OnFull::Refuse)
    }

    /// Like [`reserve`](Self::reserve), but waits for at most a duration, or until an instant.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub fn reserve_timeout(&self, timeout: impl Into<Timeout>) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(OnFull::Wait(self.deadline(timeout)))
    }

    /// Async version of [`reserve`](Self::reserve).
    ///
    /// Futures and threads share one wait queue. The future does nothing before its first poll,
    /// which may have to start the first worker or wait for its start. A woken future holds its
    /// room even if it is not polled again. A dropped future gives up its place in the wait queue,
    /// and its room. The future keeps the pool open, as a permit does. Works under any runtime.
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
    /// A `tower` service keeps the future, and then the permit, from `poll_ready` to `call`. A
    /// clone of the service starts without them.
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
    /// See [`SubmitError`].
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
pub struct ReserveFuture<R: Runner, A: Admit = Core> {
    // Dropped before `pool`, because its drop may give room back.
    room: A::RoomFuture,
    pool: WorkerPool<R, A>,
}

impl<R: Runner, A: Admit> Future for ReserveFuture<R, A> {
    type Output = Result<Permit<R>, SubmitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let room = Pin::new(&mut self.room).poll(context);
        room.map(|room| Ok(room?.permit(self.pool.keep_open())))
    }
}

impl<R: Runner, A: Admit> fmt::Debug for ReserveFuture<R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReserveFuture")
            .field("pool", &self.pool.name())
            .finish_non_exhaustive()
    }
}
